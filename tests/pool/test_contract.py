"""What every operator of conf/pool promises, whatever it computes.

An operator is excused from a promise by its own class attributes alone: ``gain = None`` (no fixed gain),
``random = True`` (draws in training mode), ``twice_differentiable = False``, ``equivariant = False`` (does
not commute with shifts by the stride) and ``dilates > 1`` (keeps the resolution, may hand its input through).
"""

import copy
import inspect
import itertools
import pickle

import pytest
import torch
import yaml
from torch import func
from torch.autograd import gradcheck, gradgradcheck
from torch.testing import assert_close

from cnnpool import table
from cnnpool.pool import OPERATORS, Pool2d, build

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


def make(stem, channels=3, dtype=torch.float64, training=False, **options):
    return build(stem, channels, **options).to(dtype).train(training)


def halved(op, height, width):
    return (height, width) if op.dilates > 1 else (height // 2, width // 2)


def as_function(op, seed=0):
    """A pure function of the parameters and the input; random operators draw the same every time."""

    def call(parameters, x):
        if op.training:
            torch.manual_seed(seed)
        return func.functional_call(op, parameters, (x,))

    return call


def flat_function(op):
    names = [name for name, _ in op.named_parameters()]

    def call(x, *values):
        return as_function(op)(dict(zip(names, values, strict=True)), x)

    return call


def test_yaml_holds_every_option_at_its_default(stem, conf):
    written = yaml.safe_load((conf / f"{stem}.yaml").read_text())
    assert written.pop("name") == stem
    defaults = {name: option.default for name, option in table.options_of(OPERATORS[stem]).items()}
    assert {k: tuple(v) if isinstance(v, list) else v for k, v in written.items()} == defaults
    assert [type(v) for v in table.check(OPERATORS[stem], stem, written).values()] == [
        type(defaults[k]) for k in written
    ]


def test_yaml_module_and_table_share_one_stem(stem):
    assert OPERATORS[stem].__module__ == f"cnnpool.pool.{stem}"
    assert issubclass(OPERATORS[stem], Pool2d) and OPERATORS[stem].__name__.endswith("2d")


def test_every_operator_of_the_table_has_a_yaml(conf):
    assert {path.stem for path in conf.glob("*.yaml")} - {"inherit"} == set(OPERATORS)


def test_facts_are_stated(stem):
    operator = OPERATORS[stem]
    assert all(getattr(operator, fact).strip() for fact in ("formula", "paper", "shift"))
    doc = inspect.getdoc(operator)
    assert doc != inspect.getdoc(Pool2d) and "Args:" in doc
    assert all(f"{name}:" in doc for name in ["channels", *table.options_of(operator)])


def test_stated_gradient_density_is_the_measured_one(stem, distinct):
    op, x = make(stem), distinct(16, 3, 8, 8).requires_grad_()
    out = op(x)
    reached = torch.autograd.grad(out, x, torch.rand_like(out) + 0.5)[0] != 0
    assert OPERATORS[stem].gradient in ("dense", "sparse", "uneven")
    if OPERATORS[stem].gradient == "sparse":
        assert not reached.flatten(1).all(1).any(), "a sparse operator leaves inputs without gradient"
    else:
        assert reached.any(0).all(), "an operator that is not sparse reaches every input"


@pytest.mark.parametrize("channels", [1, 4])
def test_defaults_halve_even_sizes(stem, channels):
    op = make(stem, channels)
    for height, width in [(8, 8), (12, 6), (32, 28)]:
        x = torch.randn(2, channels, height, width, dtype=torch.float64)
        assert op.output_size(height, width) == halved(op, height, width)
        assert op(x).shape == (2, channels, *halved(op, height, width))


def test_odd_sizes_follow_output_size(stem):
    op = make(stem)
    for height, width in [(7, 9), (5, 8), (12, 11), (15, 15)]:
        out = op(torch.randn(1, 3, height, width, dtype=torch.float64))
        assert out.shape[2:] == op.output_size(height, width)


def test_output_size_is_right_for_every_accepted_option(stem):
    values = {"kernel_size": (1, 2, 3, (3, 2)), "stride": (1, 2, 3, (2, 1)), "padding": (0, 1)}
    values |= {"dilation": (1, 2), "ceil_mode": (False, True)}
    swept = {k: v for k, v in values.items() if k in table.options_of(OPERATORS[stem])}
    accepted = 0
    for combination in itertools.product(*swept.values()):
        try:
            op = make(stem, **dict(zip(swept, combination, strict=True)))
        except ValueError:
            continue
        for size in [(6, 9), (7, 4)]:
            x = torch.randn(1, 3, *size, dtype=torch.float64)
            try:
                expected = op.output_size(*size)
            except ValueError:
                with pytest.raises(ValueError):
                    op(x)
            else:
                assert op(x).shape == (1, 3, *expected), (combination, size)
                accepted += 1
    assert accepted


@pytest.mark.parametrize("size", [(1, 1), (1, 8), (8, 1), (2, 2), (3, 2)])
def test_size_that_leaves_nothing_is_named(stem, size):
    op, x = make(stem), torch.randn(1, 3, *size, dtype=torch.float64)
    try:
        expected = op.output_size(*size)
    except ValueError as error:
        assert f"{size[0]}x{size[1]}" in str(error)
        with pytest.raises(ValueError, match=f"{size[0]}x{size[1]}"):
            op(x)
    else:
        assert min(expected) >= 1
        assert op(x).shape == (1, 3, *expected)


@pytest.mark.parametrize("bad", ["kernel_size=0", "stride=0", "padding=-1", "dilation=0", "colour=1"])
def test_bad_option_is_refused_with_its_name(stem, bad):
    name, value = bad.split("=")
    if name != "colour" and name not in table.options_of(OPERATORS[stem]):
        name = "colour"
    with pytest.raises(ValueError, match=name):
        build(stem, 3, **{name: int(value)})


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtype_is_kept_forward_and_backward(stem, dtype):
    x = torch.randn(2, 3, 8, 8, dtype=dtype, requires_grad=True)
    out = make(stem, dtype=dtype)(x)
    out.sum().backward()
    assert out.dtype == x.grad.dtype == dtype
    assert out.isfinite().all() and x.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_is_near_float64(stem, dtype):
    op, x = make(stem, dtype=dtype), torch.randn(4, 3, 8, 8, dtype=dtype)
    exact = copy.deepcopy(op).double()(x.double())
    error = (op(x).double() - exact).abs().max()
    assert error <= 4 * torch.finfo(dtype).eps * exact.abs().max()


@pytest.mark.parametrize("training", [False, True])
def test_channels_last_is_kept(stem, training):
    x = torch.randn(2, 3, 8, 12, dtype=torch.float64)
    op = make(stem, training=training)
    plain = as_function(op)({}, x)
    last = as_function(op)({}, x.contiguous(memory_format=torch.channels_last))
    assert plain.is_contiguous()
    assert last.is_contiguous(memory_format=torch.channels_last)
    assert_close(last, plain)


def test_non_contiguous_input_gives_the_same(stem):
    op, x = make(stem), torch.randn(2, 3, 8, 12, dtype=torch.float64)
    spread = torch.full((2, 3, 8, 24), torch.nan, dtype=torch.float64)
    spread[..., ::2] = x
    turned = x.transpose(2, 3).contiguous().transpose(2, 3)
    for view in (spread[..., ::2], turned, x[:1].expand(2, -1, -1, -1)):
        assert_close(op(view), op(view.contiguous()))


def test_non_contiguous_gradient_gives_the_same(stem):
    op, x = make(stem), torch.randn(2, 3, 8, 8, dtype=torch.float64, requires_grad=True)
    grad = torch.randn_like(op(x)).mT.contiguous().mT
    (strided,) = torch.autograd.grad(op(x), x, grad)
    (plain,) = torch.autograd.grad(op(x), x, grad.contiguous())
    assert_close(strided, plain)


@pytest.mark.parametrize("training", [False, True])
def test_input_is_left_alone_and_not_handed_out(stem, training):
    op, x = make(stem, training=training), torch.randn(2, 3, 8, 8, dtype=torch.float64)
    before, version = x.clone(), x._version
    out = op(x)
    assert torch.equal(x, before) and x._version == version
    if op.dilates == 1:
        assert out.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()


def test_empty_batch_gives_an_empty_batch(stem):
    x = torch.randn(0, 3, 8, 8, dtype=torch.float64, requires_grad=True)
    op = make(stem)
    out = op(x)
    assert out.shape == (0, 3, *halved(op, 8, 8))
    out.sum().backward()
    assert x.grad.shape == x.shape


@pytest.mark.parametrize("training", [False, True])
def test_gradient_is_the_numerical_one(stem, training, distinct):
    op = make(stem, training=training)
    inputs = (distinct(2, 3, 6, 6).requires_grad_(), *(p.detach().requires_grad_() for p in op.parameters()))
    assert gradcheck(flat_function(op), inputs, fast_mode=True)
    if getattr(op, "twice_differentiable", True):
        assert gradgradcheck(flat_function(op), inputs, fast_mode=True)


def test_gradient_of_an_all_zero_map_is_finite(stem):
    op, x = make(stem), torch.zeros(2, 3, 8, 8, dtype=torch.float64, requires_grad=True)
    op(x).sum().backward()
    assert all(t.grad is None or t.grad.isfinite().all() for t in [x, *op.parameters()])


@pytest.mark.parametrize("value", [0.0, 0.5, 3.0])
def test_constant_map_comes_out_scaled_by_the_gain_borders_included(stem, value):
    op = make(stem)
    if op.gain is None:
        pytest.skip("the operator promises no gain")
    for size in [(8, 8), (10, 6), (7, 9)]:
        out = op(torch.full((1, 3, *size), value, dtype=torch.float64))
        assert_close(out, torch.full_like(out, op.gain * value), rtol=1e-6, atol=2e-6)


def test_shift_by_the_stride_shifts_the_output(stem, distinct):
    op, x = make(stem), distinct(2, 3, 24, 24)
    if not getattr(op, "equivariant", True):
        pytest.skip("the operator promises no equivariance")
    step = 1 if op.dilates == 1 else 2
    shifted = op(x.roll((2, 4), (2, 3))).roll((-step, -2 * step), (2, 3))
    tiles = getattr(op, "kernel_size", (0, 0)) == getattr(op, "stride", None) and op.padding == (0, 0)
    crop = slice(None) if tiles else slice(3, -4)
    assert_close(shifted[..., crop, crop], op(x)[..., crop, crop])


def test_state_dict_brings_back_the_same_operator(stem):
    op, x = make(stem), torch.randn(2, 3, 8, 8, dtype=torch.float64)
    fresh = make(stem)
    fresh.load_state_dict(op.state_dict(), strict=True)
    assert torch.equal(fresh(x), op(x))
    assert torch.equal(pickle.loads(pickle.dumps(op))(x), op(x))


def test_eval_mode_is_deterministic_and_draws_nothing(stem):
    op, x = make(stem), torch.randn(2, 3, 8, 8, dtype=torch.float64)
    state = torch.get_rng_state()
    assert torch.equal(op(x), op(x))
    assert torch.equal(torch.get_rng_state(), state)


def test_training_mode_draws_as_stated_and_repeats_by_seed(stem):
    op, x = make(stem, training=True), torch.randn(4, 3, 16, 16, dtype=torch.float64)
    state = torch.get_rng_state()
    first = op(x)
    drew = not torch.equal(torch.get_rng_state(), state)
    assert drew == op.random
    assert torch.equal(op(x), first) != op.random
    torch.set_rng_state(state)
    assert torch.equal(op(x), first)


def test_inference_mode_gives_the_same(stem):
    op, x = make(stem), torch.randn(2, 3, 8, 8, dtype=torch.float64)
    with torch.inference_mode():
        out = op(x)
    assert torch.equal(out, op(x))


def test_autocast_runs_forward_and_backward(stem):
    op, x = make(stem, dtype=torch.float32, training=True), torch.randn(2, 3, 8, 8, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        out = op(x)
    out.float().sum().backward()
    assert out.dtype in (torch.float32, torch.bfloat16)
    assert out.isfinite().all() and x.grad.dtype == torch.float32 and x.grad.isfinite().all()


def test_compiles_whole_and_trains_the_same(stem):
    op, x = make(stem, training=True), torch.randn(2, 3, 8, 8, dtype=torch.float64, requires_grad=True)
    torch._dynamo.reset()
    compiled = torch.compile(op, fullgraph=True, backend="aot_eager")
    results = []
    for call in (op, compiled):
        torch.manual_seed(1)
        out = call(x)
        inputs = [x, *op.parameters()]
        results.append((out, torch.autograd.grad(out.square().sum(), inputs, allow_unused=True)))
    assert_close(results[1], results[0])


def test_exports_and_runs_at_other_batch_sizes(stem):
    op = make(stem, dtype=torch.float32)
    batch = torch.export.Dim("batch", min=2, max=64)
    program = torch.export.export(op, (torch.randn(2, 3, 8, 8),), dynamic_shapes=({0: batch},))
    x = torch.randn(5, 3, 8, 8)
    assert_close(program.module()(x), op(x))


def test_per_sample_gradients_are_those_of_each_sample_alone(stem, distinct):
    op, x = make(stem), distinct(3, 3, 8, 8)
    parameters = {name: p.detach() for name, p in op.named_parameters()}

    def loss(parameters, x):
        return as_function(op)(parameters, x.unsqueeze(0)).square().sum()

    per_sample = func.vmap(func.grad(loss, argnums=(0, 1)), in_dims=(None, 0))(parameters, x)
    alone = [func.grad(loss, argnums=(0, 1))(parameters, sample) for sample in x]
    assert_close(per_sample[1], torch.stack([inputs for _, inputs in alone]))
    for name in parameters:
        assert_close(per_sample[0][name], torch.stack([weights[name] for weights, _ in alone]))
    whole = torch.autograd.functional.vjp(lambda x: op(x).square().sum(), x)[1]
    assert_close(per_sample[1], whole)


def test_forward_mode_agrees_with_reverse_mode(stem, distinct):
    op, x = make(stem), distinct(2, 3, 8, 8)
    tangent = torch.randn_like(x)
    out, pushed = func.jvp(op, (x,), (tangent,))
    cotangent = torch.randn_like(out)
    (pulled,) = func.vjp(op, x)[1](cotangent)
    assert_close((pushed * cotangent).sum(), (pulled * tangent).sum())


def test_meta_tensors_give_the_shape_and_cost_nothing(stem):
    op = make(stem, dtype=torch.float32).to("meta")
    out = op(torch.empty(2, 3, 9, 16, device="meta"))
    assert out.device.type == "meta" and out.shape == (2, 3, *op.output_size(9, 16))


def test_flops_count_grows_with_the_map_and_zero_means_selection(stem):
    op, x = make(stem), torch.randn(2, 3, 8, 8, dtype=torch.float64)
    count = op.flops(8, 8)
    assert type(count) is int and count >= 0
    if count == 0:
        assert torch.isin(op(x), x).all(), "an operator without arithmetic only picks values"
    else:
        assert op.flops(16, 16) > count and make(stem, 6).flops(8, 8) > count
