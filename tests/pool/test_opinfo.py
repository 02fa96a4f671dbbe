"""The inputs, arguments and mistakes by which torch tests its own pooling, through our functions."""

import warnings

import pytest
import torch
from torch.autograd import grad
from torch.testing import assert_close

from cnnpool import pool

NAMES = ("max_pool2d", "avg_pool2d", "max_unpool2d")


@pytest.fixture(scope="module")
def tested_by_torch():
    with warnings.catch_warnings():
        # Of libraries that torch's tests can use.
        warnings.simplefilter("ignore")
        # They would forbid, for this whole process, to set flags of cuDNN, as Lightning's Trainer does.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch.backends, "disable_global_flags", lambda: None)
            known = pytest.importorskip("torch.testing._internal.common_methods_invocations").op_db
    return {(one.name.removeprefix("nn.functional."), one.variant_test_name): one for one in known}


def outcome(call, sample, requires_grad):
    """The output and the gradient of a call, or the error."""
    given = sample.input.detach().clone().requires_grad_(requires_grad)
    try:
        y = call(given, *sample.args, **sample.kwargs)
    except Exception as error:
        return error
    first = y[0] if isinstance(y, tuple) else y
    return y, grad(first.square().sum(), given, allow_unused=True)[0] if requires_grad else None


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_function_does_on_torchs_samples_what_torchs_does(name, tested_by_torch):
    # Unpooled from one place several times, torch's gradient is none: its tests keep these samples apart.
    variants = {"": name != "max_unpool2d", "grad": True}
    count = 0
    for variant, differentiable in variants.items():
        known = tested_by_torch.get((name, variant))
        for sample in known.sample_inputs("cpu", torch.float64, requires_grad=False) if known else ():
            theirs = outcome(known.op, sample, differentiable)
            ours = outcome(getattr(pool, name), sample, differentiable)
            assert not isinstance(theirs, Exception) and not isinstance(ours, Exception), (sample, ours)
            assert_close(ours, theirs, equal_nan=True)
            count += 1
    assert count >= {"avg_pool2d": 7}.get(name, 300)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_function_raises_what_torchs_does_on_torchs_mistakes(name, tested_by_torch):
    for mistake in tested_by_torch[name, ""].error_inputs("cpu"):
        error = outcome(getattr(pool, name), mistake.sample_input, False)
        assert isinstance(error, mistake.error_type), (mistake.sample_input, mistake.error_regex, error)
        assert "\n" not in str(error)
