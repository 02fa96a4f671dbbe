"""Compiled kernels against the plain torch path: bit for bit for maxima, within rounding for sums."""

import math
from itertools import product
from pathlib import Path
from threading import Barrier, get_native_id
from time import sleep

import pytest
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from torch.autograd import grad
from torch.testing import assert_close

from cnnpool import pool

pytest.importorskip("numba")
from numba import njit

from cnnpool.pool.cpu import threads
from cnnpool.pool.cpu.loops.lanes import LANES, load, store
from cnnpool.pool.cpu.max import scalar

HALVES = (torch.bfloat16, torch.float16)
DTYPES = (torch.float64, torch.float32, *HALVES)
FEW = (torch.float32, torch.bfloat16)
"""For kernels that are made of others: each is compiled for every type, and float64 is used as float32 is."""
LAYOUTS = (torch.contiguous_format, torch.channels_last)
PADDING_MODES = ["reflect", "replicate", "circular", "zeros"]
SPECIAL = [math.nan, -math.inf, math.inf, 0.0, -0.0, 1.0, -1.0, 1e-7, -3e4]

windows, sides = st.tuples(*[st.integers(1, 4)] * 2), st.integers(1, 3)
channels = st.sampled_from([1, 2, 3, 15, 16, 17, 32, 40])


@st.composite
def maps(draw, dtypes):
    shape = draw(st.tuples(st.integers(0, 2), channels, st.integers(1, 20), st.integers(1, 40)))
    dtype, layout = draw(st.sampled_from(dtypes)), draw(st.sampled_from(LAYOUTS))
    torch.manual_seed(draw(st.integers(0, 999)))
    x = torch.randn(shape)
    if draw(st.booleans()):
        x = torch.tensor(SPECIAL)[torch.randint(len(SPECIAL), shape)]
    return x.to(dtype).contiguous(memory_format=layout)


def both(function, x, upstream=None):
    """(output, gradient) by kernels and by torch."""
    answers = []
    for wanted in (True, False):
        x = x.detach().requires_grad_()
        with pool.dispatch.use(wanted):
            y = function(x)
            upstream = torch.randn_like(y) if upstream is None else upstream
            answers.append((y.detach(), grad(y, x, upstream)[0]))
    return answers


def same_bits(a, b):
    assert a.dtype == b.dtype and a.shape == b.shape
    whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[a.element_size()]
    number = ~(a.isnan() & b.isnan())
    return torch.equal(a.view(whole)[number], b.view(whole)[number])


@settings(max_examples=300)
@given(maps(DTYPES[1:]), windows, windows, windows, st.tuples(*[st.integers(0, 2)] * 2), st.booleans())
# Padding above alone: rows of windows begin above those of pixels, columns where they do.
@example(torch.arange(16.0).view(1, 1, 4, 4), (2, 1), (1, 1), (1, 1), (1, 0), False)
def test_maxima_winners_and_gradients_are_torchs_to_the_last_bit(x, kernel, stride, dilation, padding, ceil):
    window = (kernel, stride, padding, dilation, ceil)
    try:
        with pool.dispatch.use(False):
            expected, winners = pool.max_pool2d_with_winners(x, *window)
    except ValueError:
        assume(False)
    with pool.dispatch.use(True):
        y, places = pool.max_pool2d_with_winners(x, *window)
    assert same_bits(y, expected) and torch.equal(places, winners)
    upstream = torch.randn(y.shape).to(x.dtype) * 10 ** torch.empty(y.shape).uniform_(-1, 1).to(x.dtype)
    (_, ours), (_, theirs) = both(lambda x: pool.max_pool2d(x, *window), x, upstream)
    assert same_bits(ours, theirs)
    assert ours.stride() == theirs.stride() or ours.numel() == 0


@pytest.mark.parametrize("function", [
    lambda x: pool.avg_pool2d(x, 2),
    lambda x: pool.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    lambda x: pool.avg_pool2d(x, (3, 2), (2, 3), (1, 0), True),
    lambda x: pool.avg_pool2d(x, 3, 1, 1, divisor_override=-7),
    lambda x: pool.blur_pool2d(x),
    lambda x: pool.blur_pool2d(x, (4, 7), (2, 1), "zeros"),
    lambda x: pool.blur_pool2d(x, 6, 3, "replicate"),
])  # fmt: skip
def test_sums_and_their_gradients_agree_within_rounding(function):
    for size, layout, dtype in product([(8, 8), (7, 9), (6, 40), (3, 4)], LAYOUTS, DTYPES[:3]):
        x = torch.randn(2, 5, *size, dtype=torch.float64).to(dtype).contiguous(memory_format=layout)
        (y, ours), (expected, theirs) = both(function, x)
        tolerance = 4 * torch.finfo(dtype).eps
        for a, b in ((y, expected), (ours, theirs)):
            assert_close(a, b, rtol=tolerance, atol=tolerance, check_stride=True)


@settings(max_examples=150)
@given(maps(FEW), st.sampled_from([1, 2, 3, 5]), st.integers(1, 3), st.sampled_from(PADDING_MODES))
def test_maxima_blurred_as_they_are_found_are_the_dense_maxima_blurred(x, filter_size, stride, mode):
    (y, ours), (expected, theirs) = both(lambda x: pool.max_blur_pool2d(x, 2, filter_size, stride, mode), x)
    tolerance = 4 * torch.finfo(x.dtype).eps
    for a, b in ((y, expected), (ours, theirs)):
        assert_close(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
        last = b.shape[1] > 1 and b.is_contiguous(memory_format=torch.channels_last)
        assert a.is_contiguous(memory_format=LAYOUTS[last])


@settings(max_examples=150)
@given(maps(FEW), st.tuples(sides, sides), st.sampled_from([1, 2]), st.sampled_from(["max", "min"]))
def test_chosen_phases_and_what_is_taken_are_the_same_to_the_last_bit(x, stride, p, choose):
    chosen = []

    def function(x):
        y, phase = pool.aps_pool2d(x, stride, p=p, choose=choose)
        chosen.append(phase)
        return y

    (y, ours), (expected, theirs) = both(function, x)
    assert torch.equal(*chosen) and same_bits(y, expected) and same_bits(ours, theirs)


SMALL = {
    "max": lambda x: pool.max_pool2d(x, 2, 2, 1),
    "avg": lambda x: pool.avg_pool2d(x, 2, 2, 1),
    "blur": pool.blur_pool2d,
    "max_blur": pool.max_blur_pool2d,
    "lp": lambda x: pool.lp_pool2d(x, 2.0, 2, ceil_mode=True),
    "soft": lambda x: pool.soft_pool2d(x, 2, ceil_mode=True),
}


@pytest.mark.parametrize("size", [(7, 7), (4, 4), (2, 1), (1, 2), (3, 5)], ids=str)
@pytest.mark.parametrize("name", SMALL)
def test_small_planes_are_pooled_and_laid_out_as_larger_ones(name, size):
    torch.manual_seed(0)
    x = torch.rand(2, 9, *size).add_(0.1)
    for layout in LAYOUTS:
        (y, dx), (exact, exact_dx) = both(SMALL[name], x.double().contiguous(memory_format=layout))
        assert_close(y, exact)
        assert_close(dx, exact_dx)
        assert y.stride() == torch.empty(y.shape, memory_format=layout).stride()
        assert dx.stride() == torch.empty(x.shape, memory_format=layout).stride()


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_half_precision_is_read_and_rounded_as_torch_does(dtype):
    @njit
    def through(source, target, count, total, like):
        for i in range(0, count, LANES):
            store(target, i, load(source, i, total), like)

    @njit
    def back(source, target, count, total, like):
        for i in range(0, count, LANES):
            store(target, i, load(source, i, like), total)

    every = torch.arange(1 << 16, dtype=torch.int32).to(torch.uint16).view(dtype)
    wide = torch.empty(every.shape)
    back(every.data_ptr(), wide.data_ptr(), every.numel(), scalar(0.0, torch.float32), scalar(0.0, dtype))
    assert same_bits(wide, every.float())
    # Every number, the middle between neighbours, and a bit to both sides of the middle.
    middle = (wide.double() + wide.roll(-1).double()) / 2
    numbers = torch.cat([wide, *(middle * (1 + e) for e in (-1e-7, 0, 1e-7))]).float()
    got = torch.empty(numbers.shape, dtype=dtype)
    through(numbers.data_ptr(), got.data_ptr(), len(numbers), scalar(0.0, torch.float32), scalar(0.0, dtype))
    assert same_bits(got, numbers.to(dtype))


def test_any_number_of_threads_gives_the_same(monkeypatch, set_threads):
    monkeypatch.setattr(threads, "BYTES_PER_THREAD", 1)
    for layout in LAYOUTS:
        x = torch.randn(3, 4, 12, 14).contiguous(memory_format=layout)
        for function in (
            lambda x: pool.max_pool2d(x, 2),
            lambda x: pool.max_pool2d(x, 3, 2, 1),
            lambda x: pool.blur_pool2d(x),
            lambda x: pool.avg_pool2d(x, 2),
            lambda x: pool.max_blur_pool2d(x),
            lambda x: pool.aps_pool2d(x)[0],
        ):
            answers = []
            for count in (1, 3):
                set_threads(count)
                answers.append(both(function, x, torch.ones_like(function(x)))[0])
            assert all(torch.equal(a, b) for a, b in zip(*answers, strict=True))


def test_shares_run_on_the_threads_that_torch_has(monkeypatch, set_threads):
    folder = Path("/proc/self/task")
    if threads.TEAM is None or not folder.is_dir():
        pytest.skip("torch's OpenMP library cannot be entered here, or its threads not be counted")
    monkeypatch.setattr(threads, "BYTES_PER_THREAD", 1)
    at_once, seen = Barrier(2, timeout=60), {}
    set_threads(2)
    torch.rand(1 << 20).exp()
    own = {int(task.name) for task in folder.iterdir()}

    def kernel(start, stop):
        seen[start, stop] = get_native_id()
        at_once.wait()

    threads.spread(kernel, 7, 1 << 20)
    assert sorted(seen) == [(0, 3), (3, 7)]
    assert len(set(seen.values())) == 2 and set(seen.values()) <= own
    assert get_native_id() in seen.values()


def test_the_error_of_a_share_is_raised_when_the_others_have_ended(monkeypatch, set_threads):
    monkeypatch.setattr(threads, "BYTES_PER_THREAD", 1)
    done = []

    def kernel(start, stop):
        if not start:
            raise MemoryError("no room")
        sleep(0.05)
        done.append((start, stop))

    set_threads(2)
    for team, others in ((threads.TEAM, [(3, 7)] if threads.TEAM else []), (None, [])):
        monkeypatch.setattr(threads, "TEAM", team)
        done.clear()
        with pytest.raises(MemoryError, match="no room"):
            threads.spread(kernel, 7, 1 << 20)
        assert done == others
