"""PyTorch's own samples for its pooling operators, asked of ours: all of them.

``torch.testing._internal`` is private: where a torch version moved it, this file is skipped and says so.
"""

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import grad, gradcheck, gradgradcheck
from torch.testing import assert_close

from cnnpool.pool import avg_pool2d, max_pool2d, max_pool2d_with_winners

# The import would forbid to set torch's global flags for the rest of the process, which Lightning does.
_disable_global_flags = torch.backends.disable_global_flags
torch.backends.disable_global_flags = lambda: None
try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its deprecated imports are not ours
        from torch.testing._internal.common_methods_invocations import op_db
        from torch.testing._internal.common_utils import noncontiguous_like
except ImportError as error:
    pytest.skip(f"torch {torch.__version__} has no OpInfo to import: {error}", allow_module_level=True)
finally:
    torch.backends.disable_global_flags = _disable_global_flags

OPINFOS = {op.name: op for op in op_db}
MAX, AVG = OPINFOS["nn.functional.max_pool2d"], OPINFOS["nn.functional.avg_pool2d"]
FLOATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def samples(op, dtype=torch.float64, requires_grad=False, **wanted):
    """(input, options) of every sample; ``return_indices`` is no option of ours, so it is left out."""
    torch.manual_seed(0)
    count = 0
    for sample in op.sample_inputs("cpu", dtype, requires_grad=requires_grad):
        names = ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override")
        options = dict(zip(names, sample.args, strict=False)) | sample.kwargs
        if any(options.pop(name) != value for name, value in wanted.items()):
            continue
        options.pop("return_indices", None)
        count += 1
        yield sample.input, options
    assert count, "no sample was asked"


def index_of(winners, shape, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
    """Flat index into the map, aten's way, of every winner."""
    given = (kernel_size, stride or kernel_size, padding, dilation)
    (_, width), (sh, sw), (ph, pw), (dh, dw) = (v if isinstance(v, tuple) else (v, v) for v in given)
    place = winners.long()
    rows = torch.arange(place.shape[-2])[:, None] * sh - ph + place // width * dh
    columns = torch.arange(place.shape[-1]) * sw - pw + place % width * dw
    return rows * shape[-1] + columns


def test_the_suite_has_the_samples_that_were_counted():
    assert sum(1 for _ in samples(MAX)) == 1440
    assert sum(1 for _ in samples(AVG)) >= 7


@pytest.mark.parametrize(
    ("op", "ours", "theirs"),
    [(MAX, max_pool2d, F.max_pool2d), (AVG, avg_pool2d, F.avg_pool2d)],
    ids=["max", "avg"],
)
@pytest.mark.parametrize("dtype", (torch.float64, torch.float32, torch.int64), ids=str)
def test_samples_pass_as_they_are(op, ours, theirs, dtype):
    asked = 0
    rounding = 8 * torch.finfo(dtype).eps if dtype.is_floating_point and op is AVG else 0
    for sample in op.sample_inputs("cpu", dtype, requires_grad=dtype.is_floating_point):
        results = [f(sample.input, *sample.args, **sample.kwargs) for f in (ours, theirs)]
        assert_close(*results, rtol=rounding, atol=rounding, check_stride=True)
        if dtype.is_floating_point:
            outputs = [result[0] if isinstance(result, tuple) else result for result in results]
            upstream = torch.randn_like(outputs[0])
            gradients = [grad(output, sample.input, upstream)[0] for output in outputs]
            assert_close(*gradients, rtol=8 * torch.finfo(dtype).eps, atol=8 * torch.finfo(dtype).eps)
        asked += 1
    assert asked >= 7


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS, ids=str)
def test_max_values_winners_and_layout_are_torchs_to_the_last_bit(dtype):
    for x, options in samples(MAX, dtype, return_indices=True):
        y, winners = max_pool2d_with_winners(x, **options)
        expected, index = F.max_pool2d(x, **options, return_indices=True)
        assert_close(y, expected, rtol=0, atol=0, equal_nan=True, check_stride=True)
        assert torch.equal(torch.signbit(y), torch.signbit(expected))
        assert torch.equal(index_of(winners, x.shape, **options), index), options


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_max_of_ties_infinities_and_nan_has_torchs_values_and_winners(dtype):
    special = torch.tensor([torch.nan, torch.inf, -torch.inf, 0.0, -0.0, 1.0, 1.0, -1.0], dtype=dtype)
    for x, options in samples(MAX, dtype, return_indices=True):
        x = special[torch.randint(len(special), x.shape)]
        for layout in (torch.contiguous_format, torch.channels_last)[: 1 + (x.dim() == 4)]:
            x = x.contiguous(memory_format=layout)
            y, winners = max_pool2d_with_winners(x, **options)
            expected, index = F.max_pool2d(x, **options, return_indices=True)
            assert_close(y, expected, rtol=0, atol=0, equal_nan=True, check_stride=True)
            assert torch.equal(index_of(winners, x.shape, **options), index), options


@pytest.mark.parametrize("dtype", (torch.float64, torch.float32), ids=str)
def test_max_gradient_is_torchs_to_the_last_bit(dtype):
    for x, options in samples(MAX, dtype, requires_grad=True, return_indices=False):
        y, expected = max_pool2d(x, **options), F.max_pool2d(x, **options)
        upstream = torch.randn_like(y)
        ours, theirs = grad(y, x, upstream)[0], grad(expected, x, upstream)[0]
        assert_close(ours, theirs, rtol=0, atol=0, check_stride=True)


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16), ids=str)
def test_half_precision_gradient_is_the_rounded_exact_one(dtype):
    for x, options in samples(MAX, dtype, requires_grad=True, return_indices=False):
        y = max_pool2d(x, **options)
        upstream = torch.randn_like(y) * 10 ** torch.empty(y.shape).uniform_(-1, 1).to(dtype)
        exact = x.detach().double().requires_grad_()
        (expected,) = grad(F.max_pool2d(exact, **options), exact, upstream.double())
        assert torch.equal(grad(y, x, upstream)[0], expected.to(dtype)), options


def test_non_contiguous_inputs_and_gradients_change_nothing():
    for x, options in samples(MAX, return_indices=False):
        spread = noncontiguous_like(x).requires_grad_()
        x = x.requires_grad_()
        y, expected = max_pool2d(spread, **options), F.max_pool2d(x, **options)
        assert torch.equal(y, expected)
        for upstream in (noncontiguous_like(torch.randn_like(y)), torch.ones(()).double().expand_as(y)):
            assert torch.equal(grad(y, spread, upstream, True)[0], grad(expected, x, upstream, True)[0])


def test_max_gradients_are_the_numerical_ones_in_both_modes_and_twice():
    for x, options in samples(MAX, requires_grad=True, return_indices=False):

        def call(x, options=options):
            return max_pool2d(x, **options)

        assert gradcheck(call, (x,), fast_mode=True, check_forward_ad=True)
        assert gradgradcheck(call, (x,), fast_mode=True, gen_non_contig_grad_outputs=True)


def test_avg_is_torchs_forward_and_backward():
    for dtype in (torch.float64, torch.float32):
        for x, options in samples(AVG, dtype, requires_grad=True):
            y, expected = avg_pool2d(x, **options), F.avg_pool2d(x, **options)
            rounding = 8 * torch.finfo(dtype).eps
            assert_close(y, expected, rtol=rounding, atol=rounding, check_stride=True)
            upstream = torch.randn_like(y)
            assert_close(grad(y, x, upstream)[0], grad(expected, x, upstream)[0])
    for x, options in samples(AVG, torch.int64):
        assert torch.equal(avg_pool2d(x, **options), F.avg_pool2d(x, **options))


def test_avg_gradients_are_the_numerical_ones_in_both_modes_and_twice():
    for x, options in samples(AVG, requires_grad=True):

        def call(x, options=options):
            return avg_pool2d(x, **options)

        assert gradcheck(call, (x,), fast_mode=True, check_forward_ad=True, check_batched_grad=True)
        assert gradgradcheck(call, (x,), fast_mode=True)


@pytest.mark.parametrize(("op", "ours"), [(MAX, max_pool2d), (AVG, avg_pool2d)], ids=["max", "avg"])
def test_what_torch_refuses_is_refused(op, ours):
    asked = 0
    for error in op.error_inputs("cpu"):
        sample = error.sample_input
        with pytest.raises(ValueError):
            ours(sample.input, *sample.args, **sample.kwargs)
        asked += 1
    assert asked >= 5
