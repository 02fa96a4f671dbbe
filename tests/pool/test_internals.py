"""Private names of torch: in one file, known to the torch that is installed, and dispensable."""

import re
from pathlib import Path

import pytest
import torch
from torch import func

from cnnpool.pool import blur_pool2d, build, dispatch, internals, lp_pool2d, max_blur_pool2d, max_pool2d

POOL = Path(internals.__file__).parent
PRIVATE = re.compile(r"\b(torch|forward_ad|nn|F|numba|triton|tl)\b(\.\w+)*\._[A-Za-z]|\._cache\b")
OPERATORS = [
    lambda x: max_pool2d(x, 2),
    lambda x: max_pool2d(x, 3, 2, 1),
    blur_pool2d,
    max_blur_pool2d,
    lambda x: lp_pool2d(x, 3, 2),
]


def test_no_other_file_asks_for_private_names():
    found = {path.name for path in POOL.rglob("*.py") if PRIVATE.search(path.read_text(encoding="utf-8"))}
    assert found == {"internals.py"}


def test_this_torch_has_them_all():
    assert internals._count_modes is not None and internals._transforms_active is not None


@pytest.fixture(params=["_count_modes", "_transforms_active", "both"])
def missing(request, monkeypatch):
    for name in ("_count_modes", "_transforms_active") if request.param == "both" else (request.param,):
        monkeypatch.setattr(internals, name, None)
    return request.param


@pytest.mark.parametrize("operator", OPERATORS)
def test_without_them_results_and_gradients_are_the_same(operator, missing, monkeypatch):
    x = torch.randn(2, 3, 12, 14, dtype=torch.float64, requires_grad=True)

    def results():
        y = operator(x)
        (gradient,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(gradient.square().sum(), x)
        tangent = func.jvp(operator, (x,), (torch.ones_like(x),))[1]
        rows = func.vmap(operator)(x.unsqueeze(1))[:, 0]
        return [t.detach() for t in (y, gradient, second, tangent, rows)]

    without = results()
    monkeypatch.undo()
    for a, b in zip(without, results(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_what_cannot_be_told_keeps_kernels_away(missing):
    x = torch.randn(2, 3, 12, 14)
    with dispatch.use(True):
        if missing != "_transforms_active":
            assert dispatch.kernels("max", x) is None
        assert dispatch.kernels_without_forward_mode("max", x) is None


def test_random_draws_are_counted_as_far_as_can_be_told(missing):
    operator = build("random_mixed", channels=3)
    operator(torch.randn(4, 3, 8, 8))
    assert int(operator.draws) == (4 if missing == "_count_modes" else 0)
    assert operator.eval()(torch.randn(4, 3, 8, 8)).isfinite().all()
