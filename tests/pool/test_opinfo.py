"""PyTorch's own samples for its pooling operators, asked of ours: all of them.

``torch.testing._internal`` is private: where a torch version moved it, this file is skipped and says so.
"""

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import grad
from torch.testing import assert_close

from cnnpool.pool import avg_pool2d, max_pool2d

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


DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.int64)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("op", "ours", "theirs", "least"),
    [(MAX, max_pool2d, F.max_pool2d, 1440), (AVG, avg_pool2d, F.avg_pool2d, 7)],
    ids=["max", "avg"],
)
def test_samples_pass_as_they_are(op, ours, theirs, least, dtype):
    floating, asked = dtype.is_floating_point, 0
    rounding = 8 * torch.finfo(dtype).eps if floating and op is AVG else 0
    for sample in op.sample_inputs("cpu", dtype, requires_grad=floating):
        results = [f(sample.input, *sample.args, **sample.kwargs) for f in (ours, theirs)]
        assert_close(*results, rtol=rounding, atol=rounding, check_stride=True)
        if floating and dtype != torch.bfloat16:
            # torch rounds half-precision gradients of overlapping windows at every sum.
            outputs = [result[0] if isinstance(result, tuple) else result for result in results]
            upstream = torch.randn_like(outputs[0])
            gradients = [grad(output, sample.input, upstream)[0] for output in outputs]
            assert_close(*gradients, rtol=rounding, atol=rounding, check_stride=True)
        asked += 1
    assert asked >= least


def test_non_contiguous_inputs_and_gradients_change_nothing():
    for sample in MAX.sample_inputs("cpu", torch.float64, requires_grad=False):
        options = {**sample.kwargs, "return_indices": False}
        spread, x = noncontiguous_like(sample.input).requires_grad_(), sample.input.requires_grad_()
        y, expected = (f(t, *sample.args, **options) for f, t in ((max_pool2d, spread), (F.max_pool2d, x)))
        assert torch.equal(y, expected)
        for upstream in (noncontiguous_like(torch.randn_like(y)), torch.ones(()).double().expand_as(y)):
            assert torch.equal(grad(y, spread, upstream, True)[0], grad(expected, x, upstream, True)[0])


@pytest.mark.parametrize(("op", "ours"), [(MAX, max_pool2d), (AVG, avg_pool2d)], ids=["max", "avg"])
def test_what_torch_refuses_is_refused(op, ours):
    asked = 0
    for error in op.error_inputs("cpu"):
        sample = error.sample_input
        with pytest.raises(ValueError):
            ours(sample.input, *sample.args, **sample.kwargs)
        asked += 1
    assert asked >= 5
