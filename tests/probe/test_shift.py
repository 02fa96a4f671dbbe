import itertools

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cnnpool.probe.shift import fourier_derivative, fourier_shift, shift


@given(st.integers(-9, 9), st.integers(-9, 9), st.booleans())
@settings(max_examples=40)
def test_a_circular_shift_is_a_roll(down, right, by_image):
    x = torch.arange(2 * 3 * 5 * 4).reshape(2, 3, 5, 4)
    rolled = np.roll(x.numpy(), (down, right), (2, 3))
    amounts = (torch.tensor([down, down]), torch.tensor([right, right])) if by_image else (down, right)
    assert np.array_equal(shift(x, *amounts), rolled)


@given(st.integers(-6, 6), st.integers(-6, 6), st.booleans())
@settings(max_examples=40)
def test_a_shift_that_is_not_circular_lets_the_fill_in(down, right, filled):
    x = torch.arange(1.0, 1 + 2 * 2 * 5 * 4).reshape(2, 2, 5, 4)
    fill = torch.tensor([-0.5, -7.0]) if filled else None
    around = torch.zeros(2) if fill is None else fill
    expected = np.tile(around.numpy()[:, None, None], (2, 1, 5, 4))
    for i in range(5):
        for j in range(4):
            if 0 <= i - down < 5 and 0 <= j - right < 4:
                expected[:, :, i, j] = x[:, :, i - down, j - right]
    assert np.array_equal(shift(x, down, right, circular=False, fill=fill), expected)


def test_a_fourier_shift_by_whole_pixels_is_a_roll():
    for size, (down, right) in itertools.product([(8, 6), (7, 9)], [(1, 0), (-2, 3), (0, 5)]):
        x = torch.randn(2, 2, *size, dtype=torch.float64)
        torch.testing.assert_close(fourier_shift(x, down, right), x.roll((down, right), (2, 3)))


def test_images_of_half_precision_are_moved_in_float32():
    for kind in (torch.bfloat16, torch.float16):
        x = torch.randn(2, 1, 6, 5).to(kind)
        assert torch.equal(fourier_shift(x, 0.5, 1), fourier_shift(x.float(), 0.5, 1).to(kind))
        assert torch.equal(fourier_derivative(x, 2), fourier_derivative(x.float(), 2).to(kind))


def test_a_fourier_shift_is_the_slow_dirichlet_sum():
    x, moved = torch.randn(1, 1, 1, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0)), 0.4
    expected = np.zeros(6)
    for n in range(6):
        for m in range(6):
            t = n - m - moved
            # Frequencies -2..2, and half of +-3 each.
            kernel = sum(np.cos(2 * np.pi * k * t / 6) for k in range(-2, 3))
            kernel += np.cos(np.pi * moved) * np.cos(np.pi * (n - m))
            expected[n] += x[0, 0, 0, m].item() * kernel / 6
    np.testing.assert_allclose(fourier_shift(x, 0, moved)[0, 0, 0].numpy(), expected, atol=1e-12)
