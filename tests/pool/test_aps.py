"""Adaptive polyphase sampling: its choice by loops, and exactness under every circular shift."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from cnnpool.pool import ApsPool2d, aps_pool2d, blur_pool2d
from cnnpool.pool.autograd.phases import sample_phase

steps = st.sampled_from([1, 2, 3, (2, 3), (3, 1)])


def shifts(height, width):
    return itertools.product(range(height), range(width))


def same_up_to_a_roll(y, z):
    """Whether every sample of ``z`` is some circular shift of the same sample of ``y``, bit for bit."""
    height, width = y.shape[2:]
    rolled = torch.stack([y.roll(shift, (2, 3)) for shift in shifts(height, width)])
    return (rolled == z).flatten(2).all(2).any(0).all().item()


def norms_by_loop(x, sh, sw, p):
    phases = [x[:, :, i::sh, j::sw].flatten(1) for i in range(sh) for j in range(sw)]
    return torch.stack([torch.linalg.vector_norm(phase, p, dim=1) for phase in phases], 1)


@settings(max_examples=80)
@given(
    size=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    stride=steps,
    p=st.sampled_from([1.0, 2.0, math.inf]),
    choose=st.sampled_from(["max", "min"]),
    filter_size=st.integers(1, 4),
)
def test_it_keeps_the_phase_that_loops_find(size, stride, p, choose, filter_size):
    sh, sw = (stride, stride) if isinstance(stride, int) else stride
    x = torch.randn(3, 2, sh * size[0], sw * size[1], dtype=torch.float64)
    y, phase = aps_pool2d(x, stride, p=p, choose=choose, filter_size=filter_size)
    norms = norms_by_loop(x, sh, sw, p)
    assert torch.equal(phase, norms.argmax(1) if choose == "max" else norms.argmin(1))
    blurred = blur_pool2d(x, filter_size, 1, "circular")
    for sample, k in enumerate(phase.tolist()):
        assert torch.equal(y[sample], blurred[sample, :, k // sw :: sh, k % sw :: sw])


@settings(max_examples=60)
@given(
    size=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    stride=steps,
    p=st.sampled_from([1.0, 2.0, math.inf]),
    choose=st.sampled_from(["max", "min"]),
    filter_size=st.sampled_from([1, 2, 3]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    magnitude=st.sampled_from([1e-30, 1.0, 1e30]),
    seed=st.integers(0, 1000),
)
def test_every_circular_shift_gives_the_same_output_up_to_a_roll_with_no_error_at_all(
    size, stride, p, choose, filter_size, dtype, magnitude, seed
):
    sh, sw = (stride, stride) if isinstance(stride, int) else stride
    generator = torch.Generator().manual_seed(seed)
    x = magnitude * torch.randn(2, 3, sh * size[0], sw * size[1], dtype=dtype, generator=generator)
    y, _ = aps_pool2d(x, stride, p=p, choose=choose, filter_size=filter_size)
    for shift in shifts(*x.shape[2:]):
        shifted = x.roll(shift, (2, 3))
        z, _ = aps_pool2d(shifted, stride, p=p, choose=choose, filter_size=filter_size)
        assert same_up_to_a_roll(y, z), shift


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("p", [1.0, 2.0])
def test_norms_that_a_floating_sum_cannot_tell_apart_keep_their_order_under_every_shift(dtype, p):
    values = torch.rand(256, dtype=dtype) + 0.5
    x = torch.empty(1, 1, 32, 32, dtype=dtype)
    for i, j in shifts(2, 2):
        x[..., i::2, j::2] = values[torch.randperm(256)].reshape(16, 16)
    phase = x[0, 0, 1::2, 0::2]
    phase[phase == values.max()] = torch.nextafter(values.max(), values.min())
    ours, naive = set(), set()
    for rows, columns in shifts(6, 6):
        shifted = x.roll((rows, columns), (2, 3))
        found = aps_pool2d(shifted, p=p, choose="min")[1], norms_by_loop(shifted, 2, 2, p).argmin(1)
        for seen, k in zip((ours, naive), found, strict=True):
            seen.add(((k.item() // 2 - rows) % 2, (k.item() - columns) % 2))
    assert ours == {(1, 0)}
    assert len(naive) > 1


def test_equal_norms_go_to_the_first_phase():
    swapped = torch.tensor([[1.0, 2], [2, 1]]).repeat(1, 1, 3, 3)
    for p, (choose, first) in itertools.product((1.0, 2.0, math.inf), {"max": 1, "min": 0}.items()):
        assert aps_pool2d(torch.zeros(2, 3, 6, 6), p=p, choose=choose)[1].tolist() == [0, 0]
        assert aps_pool2d(swapped, p=p, choose=choose)[1].item() == first


def test_a_residual_branch_can_sample_the_phase_of_the_main_path():
    main, shortcut = ApsPool2d(3).double(), ApsPool2d(5).double()
    x, other = torch.randn(4, 3, 8, 6, dtype=torch.float64), torch.randn(4, 5, 8, 6, dtype=torch.float64)
    main.keep_phase = True
    y = main(x)
    assert torch.equal(main.phase, main.choose(x)) and torch.equal(main.phase, aps_pool2d(x)[1])
    assert main.phase.unique().numel() > 1
    z = shortcut(other, main.phase)
    for sample, k in enumerate(main.phase.tolist()):
        assert torch.equal(z[sample], other[sample, :, k // 2 :: 2, k % 2 :: 2])
    assert torch.equal(aps_pool2d(other, phase=main.phase)[0], z)
    assert torch.equal(sample_phase(x, main.phase, (2, 2)), y)
    assert ApsPool2d(3).phase is None and shortcut.phase is None


@pytest.mark.parametrize("size", [(1, 1), (2, 2), (1, 4), (5, 4), (7, 9)])
@pytest.mark.parametrize("stride", [2, 3])
def test_odd_sizes_are_continued_circularly(size, stride):
    x = torch.randn(2, 3, *size, dtype=torch.float64)
    rows, columns = (-(-n // stride) * stride for n in size)
    wrapped = x.repeat(1, 1, stride, stride)[:, :, :rows, :columns]
    op = ApsPool2d(3, stride=stride)
    assert torch.equal(op(x), op(wrapped))
    assert op(x).shape[2:] == op.output_size(*size) == tuple(-(-n // stride) for n in size)


def test_nan_and_infinity_are_chosen_and_passed_on():
    for value in (torch.nan, torch.inf, -torch.inf):
        x = torch.randn(1, 1, 6, 6)
        x[0, 0, 3, 2] = value
        for p in (1, 2, math.inf):
            y, phase = aps_pool2d(x, p=p)
            assert phase.item() == 2
            assert_close(y, x[..., 1::2, 0::2], rtol=0, atol=0, equal_nan=True)


def test_flops_count_two_operations_per_pixel_and_the_blur():
    assert ApsPool2d(3).flops(7, 8) == 3 * 8 * 8 * 2
    assert ApsPool2d(3, filter_size=(3, 1)).flops(8, 8) == 3 * 8 * 8 * (2 + 5)
