"""When compiled kernels work, and when torch does: by what a tensor is, by what is asked, by size."""

import os
import subprocess
import sys
from itertools import product

import pytest
import torch
from torch import func
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.flop_counter import FlopCounterMode

from cnnpool.pool import avg_pool2d, dispatch, max_pool2d

pytest.importorskip("numba")
LAYOUTS = (torch.contiguous_format, torch.channels_last)


def takes(*tensors):
    return dispatch.kernels("linear", *tensors) is not None


def python(code, **environment):
    known = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", **environment}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=known, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_plain_floating_tensors_are_taken_and_no_others():
    plain = torch.randn(2, 3, 8, 8)
    with dispatch.use(True):
        assert takes(plain) and takes(plain.requires_grad_()) and takes(plain.mT)
        assert takes(plain.bfloat16(), plain.double())
        assert not takes(plain, plain.int())
        assert not takes(plain.to("meta"))
        assert not takes(torch.nn.Parameter(plain)), "a subclass may mean something else"
        assert not takes(FakeTensorMode().from_tensor(plain.detach()))
        with FlopCounterMode(display=False):
            assert not takes(plain)
    with dispatch.use(False):
        assert not takes(plain)


def test_tensors_under_a_transform_are_left_to_torch():
    taken = []

    def look(x):
        taken.append(takes(x))
        return x.sum()

    with dispatch.use(True):
        func.vmap(look)(torch.randn(2, 3))
        func.grad(look)(torch.randn(3))
    assert taken == [False, False]


def test_a_trace_holds_operators_and_no_constant():
    x, other = torch.randn(1, 2, 8, 8), torch.randn(1, 2, 8, 8)
    with dispatch.use(True):
        traced = make_fx(lambda x: max_pool2d(x, 2))(x)
        assert torch.equal(traced(other), max_pool2d(other, 2))


@pytest.mark.parametrize("function", [
    lambda x: max_pool2d(x, 2),
    lambda x: max_pool2d(x, 3, 2, 1),
    lambda x: max_pool2d(x, (2, 3), (1, 2), (1, 0), 2, True),
    lambda x: avg_pool2d(x, 2),
    lambda x: avg_pool2d(x, 3, 2, 1, True, False),
    lambda x: avg_pool2d(x, 3, 1, 1, divisor_override=5),
])  # fmt: skip
def test_small_maps_are_torchs_and_the_results_the_same(function):
    for dtype, layout in product((torch.float32, torch.bfloat16), LAYOUTS):
        x = torch.randn(1, 4, 7, 8).round(decimals=1).to(dtype).contiguous(memory_format=layout)
        answers, names = [], []
        for wanted in (None, True):
            x = x.detach().requires_grad_()
            with dispatch.use(wanted):
                y = function(x)
            upstream = torch.randn(y.shape, generator=torch.Generator().manual_seed(0)).to(dtype)
            answers.append((y, torch.autograd.grad(y, x, upstream)[0]))
            names.append(type(y.grad_fn).__name__)
        assert names[0] in ("MaxPool2DWithIndicesBackward0", "AvgPool2DBackward0", "ToCopyBackward0")
        assert names[1] in ("MaxBackward", "MaxTilesBackward", "LinearBackward")
        for small, ours in zip(*answers, strict=True):
            tolerance = 0 if names[1].startswith("Max") else 2 * torch.finfo(dtype).eps
            torch.testing.assert_close(small, ours, rtol=tolerance, atol=tolerance, check_stride=True)


def test_large_maps_are_not_torchs():
    for function in (max_pool2d, avg_pool2d):
        with dispatch.use(None):
            y = function(torch.randn(8, 32, 32, 32, requires_grad=True), 2)
        assert type(y.grad_fn).__name__ in ("MaxTilesBackward", "LinearBackward")


def test_importing_the_operators_does_not_import_numba():
    assert python("import sys, cnnpool.pool; print('numba' in sys.modules)") == "False"


@pytest.mark.parametrize(("value", "wanted"), [("0", "False"), ("1", "True"), ("", "None")])
def test_environment_variable_decides(value, wanted):
    code = "from cnnpool.pool import dispatch; print(dispatch._wanted)"
    assert python(code, CNNPOOL_KERNELS=value) == wanted


def test_without_numba_torch_does_everything():
    code = """
import importlib.util, sys
find, sys.modules["numba"] = importlib.util.find_spec, None
importlib.util.find_spec = lambda name, *rest: None if name == "numba" else find(name, *rest)
import torch
from cnnpool.pool import avg_pool2d, dispatch, max_pool2d
print(max_pool2d(torch.arange(16.0).reshape(1, 1, 4, 4), 2).flatten().tolist())
try:
    with dispatch.use(True):
        pass
except ValueError as error:
    print(error)
"""
    said = python(code).splitlines()
    assert said[0] == "[5.0, 7.0, 13.0, 15.0]" and "pip install numba" in said[1]


def test_where_numba_is_switched_off_torch_does_everything():
    code = "import torch, cnnpool.pool as p; print(p.max_pool2d(torch.zeros(1, 4, 256, 256), 2).shape)"
    assert python(code, NUMBA_DISABLE_JIT="1") == "torch.Size([1, 4, 128, 128])"
