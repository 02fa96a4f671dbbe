"""Maps of integers and quantized maps: pooled as by torch, or refused in a sentence."""

from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from cnnpool import pool
from cnnpool.pool import OPERATORS, MaxPool2d, max_pool2d

# torch is to drop these dtypes.
pytestmark = pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
QUANTIZED = (torch.quint8, torch.qint8, torch.qint32)
LAYOUTS = (torch.contiguous_format, torch.channels_last)
# Those that pool more than floating-point numbers, and which.
MEANS = {torch.int64, *QUANTIZED}
TAKEN = {
    "adaptive_avg": MEANS, "adaptive_max": {*INTEGERS, *QUANTIZED}, "avg": MEANS,
    "max": {*INTEGERS, *QUANTIZED}, "none": {*INTEGERS, *QUANTIZED, torch.bool, torch.complex64},
    "subsample": {*INTEGERS, *QUANTIZED, torch.bool, torch.complex64}, "sum": {torch.int64}
}  # fmt: skip


def quantized(x, dtype):
    return torch.quantize_per_tensor(x, 0.5, 3, dtype)


def noise(*shape):
    return torch.randint(0, 100, shape).float()


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_maxima_of_integers_are_torchs_in_either_memory_format(dtype):
    # 16 x 17 pixels are more than int8 can count, which torch refuses in channels_last.
    x = noise(2, 3, 16, 17).to(dtype)
    for layout, window in product(LAYOUTS, [(2,), (3, 2, 1), ((2, 3), 1, 0, 2, True)]):
        expected = F.max_pool2d(x, *window).contiguous(memory_format=layout)
        for ties in ("first", "last", "split"):
            y = max_pool2d(x.contiguous(memory_format=layout), *window, ties=ties)
            assert_close(y, expected, rtol=0, atol=0, check_stride=True)
            pair = pool.max_pool2d_with_winners(x.contiguous(memory_format=layout), *window, ties=ties)
            winners = pool.max_pool2d_with_winners(x.double(), *window, ties=ties)[1]
            assert_close(pair, (expected, winners.contiguous(memory_format=layout)), check_stride=True)
        found = max_pool2d(x.contiguous(memory_format=layout), *window, return_indices=True)
        pair = F.max_pool2d(x.double(), *window, return_indices=True)
        indices = pair[1].contiguous(memory_format=layout)
        assert_close(found, (expected, indices), check_stride=True)
        assert torch.equal(max_pool2d(x[0], *window), expected[0])


@pytest.mark.parametrize("dtype", QUANTIZED, ids=str)
def test_quantized_maps_are_pooled_as_by_torch(dtype):
    for size, layout in product([(2, 3, 8, 9), (2, 3, 64, 64)], LAYOUTS):
        x = quantized(noise(*size).contiguous(memory_format=layout), dtype)
        for ours, theirs in (
            (lambda x: max_pool2d(x, 3, 2, 1), lambda x: F.max_pool2d(x, 3, 2, 1)),
            (MaxPool2d(3, ties="last"), lambda x: F.max_pool2d(x, 2)),
            (lambda x: pool.avg_pool2d(x, 3, 2, 1), lambda x: F.avg_pool2d(x, 3, 2, 1)),
            (pool.AdaptiveAvgPool2d(3, output_size=4), lambda x: F.adaptive_avg_pool2d(x, 4)),
        ):
            y, expected = ours(x), theirs(x)
            assert y.dtype == dtype and y.q_scale() == 0.5 and y.q_zero_point() == 3
            assert torch.equal(y.int_repr(), expected.int_repr())


def test_an_operator_pools_the_numbers_it_can_and_refuses_others_in_a_sentence(stem):
    operator = OPERATORS[stem](4).eval()
    for dtype in (*INTEGERS, *QUANTIZED, torch.bool, torch.complex64):
        x = noise(1, 4, 8, 8)
        x = quantized(x, dtype) if dtype in QUANTIZED else x.to(dtype)
        if dtype not in TAKEN.get(stem, ()):
            with pytest.raises((ValueError, RuntimeError)) as refused:
                operator(x)
            assert "\n" not in str(refused.value) and len(str(refused.value)) < 160
            continue
        y = operator(x)
        assert y.dtype == dtype
        if dtype not in (torch.bool, torch.complex64):
            # Means are rounded, and may not be off by more than a step.
            exact, y = (t.dequantize() if dtype in QUANTIZED else t for t in (x, y))
            assert (y.double() - operator(exact.double())).abs().max() < 1, dtype


def test_a_quantized_map_is_refused_by_its_dtype_where_torch_has_no_such_function():
    for call in (
        lambda x: max_pool2d(x, 2, return_indices=True),
        lambda x: pool.max_pool2d_with_winners(x, 2),
        lambda x: pool.max_unpool2d(x, torch.zeros(1, 4, 8, 8, dtype=torch.int64), 2),
        lambda x: pool.AdaptiveMaxPool2d(4, output_size=3)(x),
        lambda x: pool.sum_pool2d(x, 2),
    ):
        with pytest.raises(ValueError, match=r"torch\.quint8") as refused:
            call(quantized(noise(1, 4, 8, 8), torch.quint8))
        assert "\n" not in str(refused.value)
