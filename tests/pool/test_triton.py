"""Triton's kernels against torch's operators, on the CPU by Triton's interpreter."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.autograd import grad
from torch.testing import assert_close

from cnnpool.pool import (
    avg_pool2d,
    blur_pool2d,
    gem_pool2d,
    kernels,
    lp_pool2d,
    max_blur_pool2d,
    max_pool2d,
    max_pool2d_with_winners,
    soft_pool2d,
    triton,
)

pytest.importorskip("triton")
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
# Both sides of a tl.where are computed, as numbers of numpy, which warns of the side that is not taken.
pytestmark = pytest.mark.filterwarnings("ignore:.* encountered in .*:RuntimeWarning")
by_interpreter = pytest.mark.skipif(not INTERPRETED, reason="in a process of its own: Triton asks once")
LAYOUTS = (torch.contiguous_format, torch.channels_last)
DTYPES = (torch.float32, torch.bfloat16)

OPERATORS = {
    "max 3/2": lambda x: max_pool2d(x, 3, 2, 1),
    "max dilated": lambda x: max_pool2d(x, (2, 3), (2, 1), (1, 0), 2, True),
    "avg 2/2": lambda x: avg_pool2d(x, 2),
    "avg 3/2": lambda x: avg_pool2d(x, 3, 2, 1, True, False),
    "avg divided": lambda x: avg_pool2d(x, (3, 2), (2, 3), (1, 0), divisor_override=5),
    "blur": lambda x: blur_pool2d(x),
    "blur circular": lambda x: blur_pool2d(x, (5, 4), (2, 1), "circular"),
    "max_blur": lambda x: max_blur_pool2d(x),
    "lp": lambda x: lp_pool2d(x, 3, 2),
    "lp mean": lambda x: lp_pool2d(x, 1.5, 3, 2, True, padding=1, form="mean"),
    "gem": lambda x: gem_pool2d(x, 3, 2, 1, p=2.5, eps=0.1),
    "soft": lambda x: soft_pool2d(x, 3, 2, 1, beta=2.0),
}


def answers(function, x, upstream=None):
    x = x.detach().requires_grad_()
    y = function(x)
    upstream = torch.ones_like(y) if upstream is None else upstream
    return y.detach(), grad(y, x, upstream.to(y.dtype))[0]


@by_interpreter
@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_values_and_gradients_are_those_of_torch_in_float64(name, dtype, monkeypatch):
    for layout in LAYOUTS:
        x = torch.randn(1, 3, 7, 9, dtype=torch.float64).to(dtype).contiguous(memory_format=layout)
        with kernels.use(False):
            assert triton.take(x)
            upstream = torch.randn(OPERATORS[name](x).shape, dtype=torch.float64).to(dtype)
            ours = answers(OPERATORS[name], x, upstream)
            with monkeypatch.context() as patch:
                patch.setattr(triton, "_allowed", False)
                exact = answers(OPERATORS[name], x.double(), upstream.double())
        wide = torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32).eps
        tolerance = 2 * torch.finfo(dtype).eps + 100 * wide
        assert ours[0].stride() == exact[0].stride()
        for a, b in zip(ours, exact, strict=True):
            assert a.dtype == dtype
            assert_close(a.double(), b, rtol=tolerance, atol=tolerance)


@by_interpreter
def test_maxima_and_winners_are_torchs_to_the_last_bit(monkeypatch):
    special = torch.tensor([float("nan"), -float("inf"), float("inf"), 0.0, 1.0])
    x = special[torch.randint(5, (2, 3, 8, 8))]
    with kernels.use(False):
        y, winners = max_pool2d_with_winners(x, 3, 2, 1)
        monkeypatch.setattr(triton, "_allowed", False)
        expected, places = max_pool2d_with_winners(x, 3, 2, 1)
    assert_close(y, expected, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(winners, places)


@by_interpreter
@pytest.mark.parametrize("name", ["max 3/2", "avg 3/2", "blur", "lp", "soft"])
def test_second_gradients_and_batches_of_none_are_as_ever(name):
    x = (torch.randperm(36).double().view(1, 1, 6, 6) / 9 - 1.9).requires_grad_()
    with kernels.use(False):
        assert torch.autograd.gradgradcheck(OPERATORS[name], x, fast_mode=True)
        y, slope = answers(OPERATORS[name], torch.randn(0, 2, 6, 6))
    assert len(y) == 0 and slope.shape == (0, 2, 6, 6)


@by_interpreter
def test_compiled_graphs_hold_the_kernels():
    graphs = []

    def look(graph, inputs):
        graphs.append(graph)
        return graph.forward

    def function(x):
        return blur_pool2d(avg_pool2d(max_pool2d(x, 3, 2, 1), 2))

    x = torch.randn(2, 3, 16, 16, requires_grad=True)
    with kernels.use(False):
        expected = answers(function, x)
        compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
        assert_close(answers(compiled, x), expected)
        from torch._dynamo.backends.common import aot_autograd

        torch._dynamo.reset()
        torch.compile(function, fullgraph=True, backend=aot_autograd(fw_compiler=look))(x)
    assert {"triton_max_pool2d", "triton_sums"} <= {
        str(node.target).split(".")[1]
        for graph in graphs
        for node in graph.graph.nodes
        if "cnnpool" in str(node.target)
    }


@pytest.mark.skipif(INTERPRETED, reason="this is the process of its own")
def test_all_of_it_holds_under_the_interpreter():
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", __file__]
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, env=environment, timeout=300
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert "passed" in done.stdout
