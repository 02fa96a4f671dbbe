"""When compiled kernels work, and when torch does: by what a tensor is, by what is asked, by size."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import func
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.flop_counter import FlopCounterMode

from cnnpool.pool import kernels, max_pool2d

pytest.importorskip("numba")
ROOT = Path(__file__).parents[2]


def python(code, **environment):
    known = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", **environment}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=known, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_plain_floating_tensors_are_taken_and_no_others():
    plain = torch.randn(2, 3, 8, 8)
    with kernels.use(True):
        assert kernels.take(plain) and kernels.take(plain.requires_grad_()) and kernels.take(plain.mT)
        assert kernels.take(plain.bfloat16(), plain.double())
        assert not kernels.take(plain, plain.int())
        assert not kernels.take(plain.to("meta"))
        assert not kernels.take(torch.nn.Parameter(plain)), "a subclass may mean something else"
        assert not kernels.take(FakeTensorMode().from_tensor(plain.detach()))
        with FlopCounterMode(display=False):
            assert not kernels.take(plain)
    with kernels.use(False):
        assert not kernels.take(plain)


def test_tensors_under_a_transform_are_left_to_torch():
    taken = []

    def look(x):
        taken.append(kernels.take(x))
        return x.sum()

    with kernels.use(True):
        func.vmap(look)(torch.randn(2, 3))
        func.grad(look)(torch.randn(3))
    assert taken == [False, False]


def test_a_trace_holds_operators_and_no_constant():
    x, other = torch.randn(1, 2, 8, 8), torch.randn(1, 2, 8, 8)
    with kernels.use(True):
        traced = make_fx(lambda x: max_pool2d(x, 2))(x)
        assert torch.equal(traced(other), max_pool2d(other, 2))


def test_compiled_graphs_are_whole_and_right():
    x = torch.randn(2, 3, 16, 16, requires_grad=True)
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: max_pool2d(x, 3, 2, 1), fullgraph=True, backend="aot_eager")
    with kernels.use(True):
        y, expected = compiled(x), max_pool2d(x, 3, 2, 1)
        assert torch.equal(y, expected)
        upstream = torch.randn_like(y)
        assert torch.equal(*(torch.autograd.grad(out, x, upstream)[0] for out in (y, expected)))


def test_torch_does_small_maps_where_that_changes_no_gradient():
    small, large = torch.randn(1, 8, 8, 8), torch.randn(8, 32, 32, 32)
    name = {True: "MaxPool2DWithIndicesBackward0", False: "MaxBackward"}
    for x, dtype, kernel, by_torch in [
        (small, torch.float32, 3, True),
        (small, torch.bfloat16, 2, True),
        (small, torch.bfloat16, 3, False),
        (large, torch.float32, 2, False),
    ]:
        with kernels.use(None):
            y = max_pool2d(x.to(dtype).requires_grad_(), kernel, 2)
        assert type(y.grad_fn).__name__ == name[by_torch]
    with kernels.use(True):
        assert type(max_pool2d(small.requires_grad_(), 2).grad_fn).__name__ == name[False]


def test_importing_the_operators_does_not_import_numba():
    assert python("import sys, cnnpool.pool; print('numba' in sys.modules)") == "False"


@pytest.mark.parametrize(("value", "wanted"), [("0", "False"), ("1", "True"), ("", "None")])
def test_environment_variable_decides(value, wanted):
    assert python("from cnnpool.pool import kernels; print(kernels._wanted)", CNNPOOL_KERNELS=value) == wanted


def test_where_nothing_can_be_cached_kernels_are_compiled_anew():
    code = """
import torch
from numba.core import caching
for place in vars(caching).values():
    if hasattr(place, "_locator_classes"):
        place._locator_classes = []
from cnnpool.pool import kernels, max_pool2d
with kernels.use(True):
    print(max_pool2d(torch.arange(16.0).reshape(1, 1, 4, 4), 2).flatten().tolist())
from cnnpool.pool.kernels import tiles
print(tiles.forward.stats.cache_path)
"""
    assert python(code).splitlines() == ["[5.0, 7.0, 13.0, 15.0]", "None"]


def test_without_numba_torch_does_everything():
    code = """
import importlib.util, sys
find, sys.modules["numba"] = importlib.util.find_spec, None
importlib.util.find_spec = lambda name, *rest: None if name == "numba" else find(name, *rest)
import torch
from cnnpool.pool import kernels, max_pool2d
print(max_pool2d(torch.arange(16.0).reshape(1, 1, 4, 4), 2).flatten().tolist())
try:
    with kernels.use(True):
        pass
except ValueError as error:
    print(error)
"""
    said = python(code).splitlines()
    assert said[0] == "[5.0, 7.0, 13.0, 15.0]" and "pip install numba" in said[1]


@pytest.mark.slow
@pytest.mark.parametrize("wanted", ["0", "1"])
def test_contract_and_torchs_own_samples_hold_with_kernels_on_and_off(wanted):
    """Operators that have kernels, all promises of every operator, in a process of their own."""
    files = ["test_contract.py", "test_contract_gradients.py", "test_contract_tensors.py", "test_opinfo.py"]
    files += ["test_max.py", "test_max_gradient.py", "test_avg.py", "test_sum.py", "test_blur.py"]
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider"]
    command += ["-k", "max or avg or sum or blur", *(str(ROOT / "tests" / "pool" / file) for file in files)]
    environment = {**os.environ, "CNNPOOL_KERNELS": wanted, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment, timeout=900)
    assert done.returncode == 0, done.stdout[-3000:]
