"""Every operator under autograd, ``torch.func``, ``torch.compile``, and deterministic mode."""

import pytest
import torch
from torch import autograd, func
from torch.autograd import gradcheck, gradgradcheck
from torch.testing import assert_close

from cnnpool.pool import OPERATORS


def test_stated_gradient_density_is_the_measured_one(stem, make, distinct):
    op, x = make(stem), distinct(16, 3, 8, 8).requires_grad_()
    out = op(x)
    reached = torch.autograd.grad(out, x, torch.rand_like(out) + 0.5)[0] != 0
    assert OPERATORS[stem].gradient in ("dense", "sparse", "uneven")
    if OPERATORS[stem].gradient == "sparse":
        assert not reached.flatten(1).all(1).any(), "a sparse operator leaves inputs without gradient"
    else:
        assert reached.any(0).all(), "an operator that is not sparse reaches every input"


def test_gradient_is_the_numerical_one_in_either_mode(stem, pure, make, distinct):
    for training in (False, True):
        op = make(stem, training=training)
        leaves = (distinct(2, 3, 6, 6), *(p.detach() for p in op.parameters()))
        inputs = [leaf.requires_grad_() for leaf in leaves]
        assert gradcheck(pure(op, flat=True), inputs, fast_mode=True, check_forward_ad=True)
        assert gradgradcheck(pure(op, flat=True), inputs, fast_mode=True)


def test_gradient_of_an_all_zero_map_is_finite(stem, make):
    op, x = make(stem), torch.zeros(2, 3, 8, 8, dtype=torch.float64, requires_grad=True)
    op(x).sum().backward()
    assert all(t.grad is None or t.grad.isfinite().all() for t in [x, *op.parameters()])


def test_compiles_whole_and_trains_the_same(kind, make):
    op, x = make(kind, training=True), torch.randn(2, 3, 8, 8, dtype=torch.float64, requires_grad=True)
    torch._dynamo.reset()
    compiled = torch.compile(op, fullgraph=True, backend="aot_eager")
    results = []
    for call in (op, compiled):
        torch.manual_seed(1)
        out = call(x)
        inputs = [x, *op.parameters()]
        results.append((out, torch.autograd.grad(out.square().sum(), inputs, allow_unused=True)))
    assert_close(results[1], results[0])


@pytest.mark.parametrize(
    "name", ["max", "aps", "blur", "max_blur", "tips", "lps", "adaptive_blur", "strided"]
)
def test_maps_of_many_sizes_need_few_graphs(name, make):
    torch._dynamo.reset()
    op, graphs = make(name).eval(), []
    compiled = torch.compile(op, fullgraph=True, backend=lambda module, _: graphs.append(1) or module.forward)
    for i in range(10):
        x = torch.randn(2, 3, 8 + 2 * i, 12 + 2 * (i * 5 % 7), dtype=torch.float64)
        assert_close(compiled(x), op(x))
    assert len(graphs) <= 4


def test_per_sample_gradients_are_those_of_each_sample_alone(stem, pure, make, distinct):
    op, x = make(stem), distinct(3, 3, 8, 8)
    parameters = {name: p.detach() for name, p in op.named_parameters()}

    def loss(parameters, x):
        return pure(op)(parameters, x.unsqueeze(0)).square().sum()

    per_sample = func.vmap(func.grad(loss, argnums=(0, 1)), in_dims=(None, 0))(parameters, x)
    alone = [func.grad(loss, argnums=(0, 1))(parameters, sample) for sample in x]
    assert_close(per_sample[1], torch.stack([inputs for _, inputs in alone]))
    for name in parameters:
        assert_close(per_sample[0][name], torch.stack([weights[name] for weights, _ in alone]))
    whole = torch.autograd.functional.vjp(lambda x: op(x).square().sum(), x)[1]
    assert_close(per_sample[1], whole)


def test_autocast_runs_forward_and_backward(stem, make):
    op, x = make(stem, dtype=torch.float32, training=True), torch.randn(2, 3, 8, 8, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        out = op(x)
    out.float().sum().backward()
    assert out.dtype in (torch.float32, torch.bfloat16)
    assert out.isfinite().all() and x.grad.dtype == torch.float32 and x.grad.isfinite().all()


def test_non_contiguous_gradient_gives_the_same(stem, make):
    op, x = make(stem), torch.randn(2, 3, 8, 8, dtype=torch.float64, requires_grad=True)
    grad = torch.randn_like(op(x)).mT.contiguous().mT
    (strided,) = torch.autograd.grad(op(x), x, grad)
    (plain,) = torch.autograd.grad(op(x), x, grad.contiguous())
    assert_close(strided, plain)


def test_nothing_is_refused_and_gradients_repeat_bit_for_bit(stem, make):
    # Torch refuses what does not; the next test begins without.
    torch.use_deterministic_algorithms(True)
    op = make(stem, training=True, dtype=torch.float32)
    x = torch.randn(2, 3, 12, 12, requires_grad=True)
    wanted = [x, *op.parameters()]
    gradients = []
    for _ in range(2):
        torch.manual_seed(1)
        y = op(x)
        weights = torch.linspace(-1, 1, y.numel()).view_as(y)
        gradients.append(autograd.grad((y * weights).sum(), wanted, allow_unused=True))
    for first, second in zip(*gradients, strict=True):
        assert (first is None and second is None) or torch.equal(first, second)
