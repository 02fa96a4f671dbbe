"""Activations that do not alias, against Fourier transforms; networks of them under fractional shifts."""

import math

import numpy as np
import pytest
import small_nets
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from random_maps import noise
from scipy import integrate
from torch import nn
from torch.testing import assert_close

from cnnpool.model import MODELS
from cnnpool.model.activation import ACTIVATIONS, AliasFree, Parabola, activate

SMALL = {"resnet20": {"blocks": 1}, "vgg": {"depth": 1}}


def frequencies(x):
    return [np.fft.fftfreq(n) for n in x.shape[-2:]]


def without_nyquist(x):
    """``x`` without the frequency of an even size that has no phase."""
    keep = np.outer(*(np.abs(f) < 0.5 for f in frequencies(x)))
    return torch.from_numpy(np.fft.ifft2(np.fft.fft2(x.numpy()) * keep).real)


def shifted(x, down, across):
    """``x``, which has no Nyquist frequency, shifted by any number of pixels: circular sinc interpolation."""
    rows, columns = frequencies(x)
    phase = np.exp(-2j * np.pi * (down * rows[:, None] + across * columns))
    return torch.from_numpy(np.fft.ifft2(np.fft.fft2(x.detach().numpy()) * phase).real)


def network(name, activation, operator="ideal_lowpass", size=(16, 16), head="gap"):
    torch.manual_seed(0)
    options = {"width": 4, "activation": activation, "padding_mode": "circular", **SMALL.get(name, {})}
    return small_nets.network(name, 2, size, 5, operator, head, **options).double().eval()


@settings(max_examples=40)
@given(size=st.tuples(st.integers(1, 12), st.integers(1, 12)), seed=st.integers(0, 99))
def test_it_is_numpys_zero_padded_spectrum_the_activation_and_the_crop(size, seed):
    x = noise(2, 3, *size, seed=seed)
    inner = Parabola(3).double()
    nn.init.normal_(inner.square)
    height, width = size
    spectrum, wide = np.fft.fft2(without_nyquist(x).numpy()), np.zeros((2, 3, 2 * height, 2 * width), complex)
    places = [np.round(np.fft.fftfreq(n) * n).astype(int) for n in size]
    wide[..., places[0][:, None], places[1]] = spectrum
    fine = inner(torch.from_numpy(np.fft.ifft2(4 * wide).real)).detach().numpy()
    cropped = np.fft.fft2(fine)[..., places[0][:, None], places[1]] / 4
    expected = without_nyquist(torch.from_numpy(np.fft.ifft2(cropped).real))
    assert_close(AliasFree(inner)(x), expected, rtol=1e-9, atol=1e-9)


@settings(max_examples=40)
@given(
    size=st.tuples(st.integers(1, 12), st.integers(1, 12)),
    shift=st.tuples(st.floats(-6, 6), st.floats(-6, 6)),
)
def test_a_parabola_commutes_with_shifts_by_any_fraction(size, shift):
    x, layer = without_nyquist(noise(2, 3, *size)), activate("alias_free", 3).double()
    assert_close(layer(shifted(x, *shift)), shifted(layer(x), *shift), rtol=1e-9, atol=1e-9)


def test_the_parabola_starts_nearest_to_relu_in_the_mean_square():
    def weighted(power, f):
        integrand = lambda x: x**power * f(x) * math.exp(-x * x / 2) / math.sqrt(2 * math.pi)  # noqa: E731
        return integrate.quad(integrand, -12, 12, points=[0])[0]

    moments = [[weighted(i + j, lambda x: 1.0) for j in range(3)] for i in range(3)]
    nearest = np.linalg.solve(moments, [weighted(i, lambda x: max(x, 0.0)) for i in range(3)])
    start = Parabola(1)
    found = [start.constant.item(), start.linear.item(), start.square.item()]
    assert found == pytest.approx(nearest, abs=1e-6)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "sprint"])
def test_logits_are_the_same_under_any_shift_and_features_move_along(name):
    net = network(name, "alias_free")
    x = without_nyquist(noise(2, 2, 16, 16))
    steps = 16 // net.feature_size[0]
    for shift in ((0.3, -1.7), (5.0, 2.0), (8.5, 0.25)):
        moved = shifted(x, *shift)
        assert_close(net(moved), net(x), rtol=1e-8, atol=1e-8)
        features = shifted(net.features(x), *(s / steps for s in shift))
        assert_close(net.features(moved), features, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize(("activation", "operator"), [("relu", "ideal_lowpass"), ("alias_free", "subsample")])
def test_half_of_it_does_not_do(activation, operator):
    net, x = network("convnet", activation, operator), without_nyquist(noise(2, 2, 16, 16))
    assert (net(shifted(x, 0.3, -1.7)) - net(x)).abs().max() > 1e-4 * net(x).abs().max()


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_dtype_memory_format_and_empty_batches_are_kept(activation):
    layer, last = activate(activation, 3), torch.channels_last
    for dtype in (torch.float32, torch.bfloat16):
        x = torch.randn(2, 3, 6, 5).to(dtype)
        out = layer(x.contiguous(memory_format=last))
        assert out.dtype == dtype and out.is_contiguous(memory_format=last) and layer(x).is_contiguous()
        assert_close(out, layer(x))
        assert layer(x[:0]).shape == (0, 3, 6, 5)
        exact = activate(activation, 3).double()(x.double())
        assert_close(out.double(), exact, rtol=0, atol=4 * torch.finfo(dtype).eps * exact.abs().max().item())


def test_it_compiles_to_one_graph_and_autocast_leaves_its_filters_exact():
    layer, x = activate("alias_free", 3), torch.randn(2, 3, 8, 8)
    torch._dynamo.reset()
    assert_close(torch.compile(layer, fullgraph=True, backend="aot_eager")(x), layer(x))
    with torch.autocast("cpu", torch.bfloat16):
        assert_close(layer(x), layer(x.clone()))
        out = layer(torch.ones(1, 3, 8, 8))
    assert_close(out, layer.inner(torch.ones(1, 3, 8, 8)), rtol=1e-5, atol=1e-5)
