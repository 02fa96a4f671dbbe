"""Triton's kernels against torch's operators: on a GPU where there is one, else by Triton's interpreter."""

import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import grad
from torch.testing import assert_close

from cnnpool import pool

pytest.importorskip("triton")
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
ON_GPU = torch.cuda.is_available() and not INTERPRETED
DEVICE = "cuda" if ON_GPU else "cpu"
# Both sides of a tl.where are computed, as numbers of numpy, which warns of the side that is not taken.
pytestmark = pytest.mark.filterwarnings("ignore:.* encountered in .*:RuntimeWarning")
by_triton = pytest.mark.skipif(not INTERPRETED and not ON_GPU, reason="in its own process: Triton asks once")
LAYOUTS = (torch.contiguous_format, torch.channels_last)
DTYPES = (torch.float32, torch.bfloat16, torch.float64, torch.float16)


def cases(*options):
    """All combinations on a GPU; by the interpreter, which is slow, the first of all, then the second."""
    return list(product(*options) if ON_GPU else zip(*options, strict=False))


OPERATORS = {
    "max 3/2": lambda x: pool.max_pool2d(x, 3, 2, 1), "max 2/2": lambda x: pool.max_pool2d(x, 2),
    "max 2/2 padded": lambda x: pool.max_pool2d(x, 2, 2, 1), "max 2/3": lambda x: pool.max_pool2d(x, 2, 3),
    "max dilated": lambda x: pool.max_pool2d(x, (2, 3), (2, 1), (1, 0), 2, True),
    "avg 2/2": lambda x: pool.avg_pool2d(x, 2),
    "avg 3/2": lambda x: pool.avg_pool2d(x, 3, 2, 1, True, False),
    "avg divided": lambda x: pool.avg_pool2d(x, (3, 2), (2, 3), (1, 0), divisor_override=5),
    "blur": lambda x: pool.blur_pool2d(x),
    "blur circular": lambda x: pool.blur_pool2d(x, (5, 4), (2, 1), "circular"),
    "max_blur": lambda x: pool.max_blur_pool2d(x),
    "max_blur zeros": lambda x: pool.max_blur_pool2d(x, 2, (4, 3), (2, 3), "zeros"),
    "lp": lambda x: pool.lp_pool2d(x, 3, 2, form="mean"),
    "lp mean": lambda x: pool.lp_pool2d(x, 1.5, (3, 2), 2, True, padding=1, form="mean"),
    "lp signed": lambda x: pool.lp_pool2d(x, 3, 2),
    "gem": lambda x: pool.gem_pool2d(x, (2, 3), 2, 1, p=2.2, eps=0.1),
    "soft": lambda x: pool.soft_pool2d(x, 3, 2, 1, beta=2.2),
    "soft tiles": lambda x: pool.soft_pool2d(x, 2),
    "expectation": lambda x: pool.stochastic_pool2d(x, (3, 2), 2, 1, training=False),
    "aps": lambda x: pool.aps_pool2d(x)[0],
    "aps p=1": lambda x: pool.aps_pool2d(x, (2, 3), p=1, choose="min")[0],
    "window of all": lambda x: pool.max_pool2d(pool.avg_pool2d(x[..., :3, :4], 3, 1, 1), (3, 4))
}  # fmt: skip
SPOILT = ("lp", "lp mean", "lp signed", "gem", "soft", "soft tiles", "avg 3/2", "blur")
"""Those of which a map with infinities and NaN is asked for, too."""
LEARNT = {
    "gem": lambda x, p: pool.gem_pool2d(x, (3, 2), 2, 1, p=p, eps=0.1),
    "lp": lambda x, p: pool.lp_pool2d(x, p, 2),
    "lp sum": lambda x, p: pool.lp_pool2d(x, p, (2, 3), 2),
    "soft": lambda x, beta: pool.soft_pool2d(x, 3, 2, beta=beta),
    "soft tiles": lambda x, beta: pool.soft_pool2d(x, 2, beta=beta),
}


def answers(function, x, upstream=None):
    x = x.detach().requires_grad_()
    y = function(x)
    upstream = torch.ones_like(y) if upstream is None else upstream
    return y.detach(), grad(y, x, upstream.to(y.dtype))[0]


def by_torch(function, *tensors, monkeypatch):
    """The same on the CPU in float64, by torch's operators."""
    with monkeypatch.context() as patch:
        patch.setattr(pool.dispatch, "_triton", False)
        return function(*(t.double().cpu() for t in tensors))


def check(ours, exact, dtype):
    wide = torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32).eps
    tolerance = 2 * torch.finfo(dtype).eps + 100 * wide
    for a, b in zip(ours, exact, strict=True):
        assert_close(a.double().cpu(), b, rtol=tolerance, atol=tolerance, equal_nan=True)


@by_triton
@pytest.mark.parametrize("name", OPERATORS)
def test_values_and_gradients_are_those_of_torch_in_float64(name, monkeypatch):
    for dtype, layout in cases(DTYPES, LAYOUTS):
        x = torch.randn(2, 3, 7, 9, dtype=torch.float64, device=DEVICE).to(dtype)
        x = x.contiguous(memory_format=layout)
        if name in SPOILT:
            x[0, 1, 3, 3], x[1, 0, 3, 3], x[1, 2, 3, 3] = float("inf"), float("nan"), -float("inf")
        with pool.dispatch.use(False):
            assert pool.dispatch.kernels("max", x).__name__ == "cnnpool.pool.gpu.max"
            upstream = torch.randn(OPERATORS[name](x).shape, dtype=torch.float64).to(DEVICE, dtype)
            ours = answers(OPERATORS[name], x, upstream)
            exact = by_torch(lambda *t: answers(OPERATORS[name], *t), x, upstream, monkeypatch=monkeypatch)
        assert ours[0].stride() == exact[0].stride()
        assert {t.dtype for t in ours} == {dtype}
        check(ours, exact, dtype)


@by_triton
@pytest.mark.parametrize("name", LEARNT)
def test_learnt_numbers_get_their_gradient(name, monkeypatch):
    def slopes(x, number):
        x, number = (t.detach().requires_grad_() for t in (x, number))
        y = LEARNT[name](x, number)
        return y.detach(), *grad(y.square().sum(), (x, number))

    shapes, dtypes = ((), (1, 1, 1), (3, 1, 1)), (torch.float32, torch.float64, torch.float16)
    for shape, dtype, layout in cases(shapes, dtypes, (*LAYOUTS, LAYOUTS[0])):
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        x = torch.randn(2, 3, 7, 9, device=DEVICE).to(dtype).contiguous(memory_format=layout)
        number = torch.rand(shape, dtype=wide, device=DEVICE) + 2
        with pool.dispatch.use(False):
            y, by_x, by_number = slopes(x, number)
            exact = by_torch(slopes, x, number, monkeypatch=monkeypatch)
        assert by_number.shape == shape
        if dtype == torch.float16:
            # Rounded values are squared and summed up.
            assert_close(by_number.double().cpu(), exact[2], rtol=1e-2, atol=1e-1)
        else:
            check((y, by_x, by_number), exact, dtype)


@by_triton
def test_draws_are_those_of_torch(monkeypatch):
    for dtype, layout in cases(DTYPES, LAYOUTS):
        x = torch.randn(2, 3, 7, 9, device=DEVICE).to(dtype).contiguous(memory_format=layout)
        x[0, 0, :4, :4] = 0
        x[0, 1, 0, 0] = float("inf")
        x[1, 1, 3, 3] = float("nan")

        def draw(seeded):
            torch.manual_seed(3)
            return pool.stochastic_pool2d(seeded, 3, 2, 1)

        with pool.dispatch.use(False):
            upstream = torch.randn_like(draw(x))
            ours = answers(draw, x, upstream)
            monkeypatch.setattr(pool.dispatch, "_triton", False)
            theirs = answers(draw, x, upstream)
            monkeypatch.undo()
        assert_close(ours[0], theirs[0], rtol=0, atol=0, equal_nan=True)
        tolerance = 2 * torch.finfo(dtype).eps
        assert_close(ours[1], theirs[1], rtol=tolerance, atol=tolerance)


@by_triton
def test_maxima_and_winners_are_torchs_to_the_last_bit(monkeypatch):
    special = torch.tensor([float("nan"), -float("inf"), float("inf"), 0.0, 1.0])
    x = special[torch.randint(5, (2, 3, 8, 8))].to(DEVICE)
    with pool.dispatch.use(False):
        y, winners = pool.max_pool2d_with_winners(x, 3, 2, 1)
        monkeypatch.setattr(pool.dispatch, "_triton", False)
        expected, places = pool.max_pool2d_with_winners(x.cpu(), 3, 2, 1)
    assert_close(y.cpu(), expected, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(winners.cpu(), places)


@by_triton
@pytest.mark.parametrize("name", ["max 3/2", "avg 3/2", "blur", "lp", "soft"])
def test_second_gradients_and_batches_of_none_are_as_ever(name):
    x = (torch.randperm(36, device=DEVICE).double().view(1, 1, 6, 6) / 9 - 1.9).requires_grad_()
    with pool.dispatch.use(False):
        assert torch.autograd.gradgradcheck(OPERATORS[name], x, fast_mode=True)
        y, slope = answers(OPERATORS[name], torch.randn(0, 2, 6, 6, device=DEVICE))
    assert len(y) == 0 and slope.shape == (0, 2, 6, 6)


@by_triton
@pytest.mark.parametrize("name", ["max 3/2", "avg 3/2", "blur", "max_blur", "lp", "soft", "aps"])
def test_what_is_watched_or_batched_goes_to_torch(name):
    x = torch.randn(1, 1, 4, 4, device=DEVICE)
    with pool.dispatch.use(False):
        whole = torch.autograd.functional.jacobian(OPERATORS[name], x, vectorize=True)
        assert_close(whole, torch.autograd.functional.jacobian(OPERATORS[name], x))
        with FakeTensorMode(allow_non_fake_inputs=True) as fake:
            shape = OPERATORS[name](fake.from_tensor(x)).shape
        assert OPERATORS[name](x).shape == shape, "and nothing fake is remembered"


@by_triton
@pytest.mark.parametrize("name", ["max 3/2", "max_blur", "gem", "blur", "aps", "soft tiles"])
def test_what_was_saved_may_come_back_in_another_format(name):
    def pack(saved):
        return torch.empty(saved.shape, dtype=saved.dtype, device=saved.device).copy_(saved)

    x = torch.randn(1, 2, 6, 6, device=DEVICE).contiguous(memory_format=torch.channels_last)
    with pool.dispatch.use(False):
        expected = answers(OPERATORS[name], x)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved):
            assert_close(answers(OPERATORS[name], x), expected)


# Older compilers warn of what they do themselves.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@by_triton
def test_compiled_graphs_hold_the_kernels():
    graphs = []

    def look(graph, inputs):
        graphs.append(graph)
        return graph.forward

    def function(x):
        return pool.blur_pool2d(pool.avg_pool2d(pool.max_pool2d(x, 3, 2, 1), 2))

    from torch._dynamo.backends.common import aot_autograd

    x = torch.randn(2, 3, 16, 16, device=DEVICE, requires_grad=True)
    with pool.dispatch.use(False):
        expected = answers(function, x)
        compiled = torch.compile(function, fullgraph=True, backend="inductor" if ON_GPU else "aot_eager")
        assert_close(answers(compiled, x), expected)
        torch._dynamo.reset()
        torch.compile(function, fullgraph=True, backend=aot_autograd(fw_compiler=look))(x)
    targets = [str(node.target) for graph in graphs for node in graph.graph.nodes]
    assert any("cnnpool.triton_max_pool2d" in target for target in targets)


@pytest.mark.slow
@pytest.mark.skipif(INTERPRETED, reason="this is the process of its own")
def test_all_of_it_holds_under_the_interpreter():
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", __file__]
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, env=environment, timeout=900
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert "passed" in done.stdout
