"""Promises of every operator, whatever it computes: names, options, sizes, tensors, draws.

An operator is excused from a promise by its own class attributes alone: ``gain = None`` (no fixed gain),
``random = True`` (draws in training mode), ``equivariant = False`` (does not commute with shifts by the
stride) and ``dilates > 1`` (keeps the resolution, may hand its input through).
"""

import copy
import inspect
import itertools
import pickle
import re

import pytest
import torch
from functions import CALLS
from torch import fx, nn
from torch.testing import assert_close

from cnnpool import pool, registry, schema
from cnnpool.launch import names_of
from cnnpool.pool import OPERATORS, Pool2d
from cnnpool.registry import KEEP


def test_the_schema_holds_every_option_at_its_default(stem):
    written = {name: option.default for name, option in schema.options_of("pool", stem).items()}
    defaults = {name: option.default for name, option in registry.options_of(OPERATORS[stem]).items()}
    assert {k: tuple(v) if isinstance(v, list) else v for k, v in written.items()} == defaults
    checked = registry.check(OPERATORS[stem], stem, written)
    assert {k: type(v) for k, v in checked.items()} == {k: type(v) for k, v in defaults.items()}


def test_every_operator_of_the_table_is_a_choice():
    assert {*names_of("pool")} - {KEEP} == set(OPERATORS)


def test_facts_are_stated(stem):
    operator = OPERATORS[stem]
    assert issubclass(operator, Pool2d) and operator.__name__.endswith("2d")
    assert all(getattr(operator, fact).strip() for fact in ("formula", "paper", "shift"))
    assert inspect.getdoc(operator) != inspect.getdoc(Pool2d)
    assert all(option.text for option in schema.options_of("pool", stem).values())


def test_defaults_halve_even_sizes_and_odd_ones_follow_output_size(stem, make, halved):
    for channels in (1, 4):
        op = make(stem, channels)
        for size in [(8, 8), (12, 6), (32, 28), (7, 9), (5, 8), (12, 11), (15, 15)]:
            x = torch.randn(2, channels, *size, dtype=torch.float64)
            assert op(x).shape == (2, channels, *op.output_size(*size))
            assert any(n % 2 for n in size) or op.output_size(*size) == halved(op, *size)


def test_output_size_is_right_for_every_accepted_option(stem, make):
    values = {"kernel_size": (1, 2, 3, (3, 2)), "stride": (1, 2, 3, (2, 1)), "padding": (0, 1)}
    values |= {"dilation": (1, 2), "ceil_mode": (False, True)}
    swept = {k: v for k, v in values.items() if k in registry.options_of(OPERATORS[stem])}
    accepted = 0
    for combination in itertools.product(*swept.values()):
        try:
            op = make(stem, **dict(zip(swept, combination, strict=True)))
        except ValueError:
            continue
        for size in [(6, 9), (7, 4), (3, 2)]:
            x = torch.randn(1, 3, *size, dtype=torch.float64)
            try:
                expected = op.output_size(*size)
            except ValueError:
                with pytest.raises(ValueError, match=f"{size[0]}x{size[1]}"):
                    op(x)
            else:
                assert op(x).shape == (1, 3, *expected), (combination, size)
                accepted += 1
    assert accepted


def test_flops_count_grows_with_the_map_and_zero_means_selection(stem, make):
    op, x = make(stem), torch.randn(2, 3, 8, 8, dtype=torch.float64)
    count = op.flops(8, 8)
    assert type(count) is int and count >= 0
    if count == 0:
        assert torch.isin(op(x), x).all(), "an operator without arithmetic only picks values"
    else:
        assert op.flops(16, 16) > count and make(stem, 6).flops(8, 8) > count


def test_channels_that_are_no_count_are_refused_with_their_value(stem):
    for channels in (0, -1, 2.5, "4", True, (2, 2)):
        message = f"2d: channels must be a whole number from 1 to .*, got {re.escape(repr(channels))}"
        with pytest.raises(ValueError, match=message):
            OPERATORS[stem](channels)


def test_every_floating_dtype_is_kept_in_both_directions_and_near_float64(stem, make):
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        op, x = make(stem, dtype=dtype), torch.randn(4, 3, 8, 8, dtype=dtype, requires_grad=True)
        out = op(x)
        out.sum().backward()
        assert out.dtype == x.grad.dtype == dtype
        assert x.grad.isfinite().all()
        exact = copy.deepcopy(op).double()(x.detach().double())
        assert (out.double() - exact).abs().max() <= 4 * torch.finfo(dtype).eps * exact.abs().max(), dtype


def test_channels_last_is_kept(stem, pure, make):
    x = torch.randn(2, 3, 8, 12, dtype=torch.float64)
    for training in (False, True):
        op = make(stem, training=training)
        plain = pure(op)({}, x)
        last = pure(op)({}, x.contiguous(memory_format=torch.channels_last))
        assert plain.is_contiguous()
        assert last.is_contiguous(memory_format=torch.channels_last)
        assert_close(last, plain)


def test_non_contiguous_input_gives_the_same(stem, make):
    op, x = make(stem), torch.randn(2, 3, 8, 12, dtype=torch.float64)
    spread = torch.full((2, 3, 8, 24), torch.nan, dtype=torch.float64)
    spread[..., ::2] = x
    turned = x.transpose(2, 3).contiguous().transpose(2, 3)
    for view in (spread[..., ::2], turned, x[:1].expand(2, -1, -1, -1)):
        assert_close(op(view), op(view.contiguous()))


def test_input_is_left_alone_and_not_handed_out(stem, make):
    for training in (False, True):
        op, x = make(stem, training=training), torch.randn(2, 3, 8, 8, dtype=torch.float64)
        before, version = x.clone(), x._version
        out = op(x)
        assert torch.equal(x, before) and x._version == version
        if op.dilates == 1:
            assert out.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()


def test_empty_batch_gives_an_empty_batch(stem, make, halved):
    x = torch.randn(0, 3, 8, 8, dtype=torch.float64, requires_grad=True)
    op = make(stem)
    out = op(x)
    assert out.shape == (0, 3, *halved(op, 8, 8))
    out.sum().backward()
    assert x.grad.shape == x.shape


def test_constant_map_comes_out_scaled_by_the_gain_borders_included(stem, make):
    op = make(stem)
    if op.gain is None:
        pytest.skip("the operator promises no gain")
    for size, value in itertools.product([(8, 8), (10, 6), (7, 9)], (0.0, 0.5, 3.0)):
        out = op(torch.full((1, 3, *size), value, dtype=torch.float64))
        assert_close(out, torch.full_like(out, op.gain * value), rtol=1e-6, atol=2e-6)


def test_shift_by_the_stride_shifts_the_output(stem, make, distinct):
    op, x = make(stem), distinct(2, 3, 24, 24)
    if not getattr(op, "equivariant", True):
        pytest.skip("the operator promises no equivariance")
    step = 1 if op.dilates == 1 else 2
    shifted = op(x.roll((2, 4), (2, 3))).roll((-step, -2 * step), (2, 3))
    tiles = getattr(op, "kernel_size", (0, 0)) == getattr(op, "stride", None) and op.padding == (0, 0)
    crop = slice(None) if tiles else slice(3, -4)
    assert_close(shifted[..., crop, crop], op(x)[..., crop, crop])


def test_state_dict_brings_back_the_same_operator(stem, make):
    op, x = make(stem), torch.randn(2, 3, 8, 8, dtype=torch.float64)
    fresh = make(stem)
    fresh.load_state_dict(op.state_dict(), strict=True)
    assert torch.equal(fresh(x), op(x))
    assert torch.equal(pickle.loads(pickle.dumps(op))(x), op(x))


def test_eval_mode_is_deterministic_draws_nothing_and_is_the_same_in_inference_mode(stem, make):
    op, x = make(stem), torch.randn(2, 3, 8, 8, dtype=torch.float64)
    state = torch.get_rng_state()
    assert torch.equal(op(x), op(x))
    with torch.inference_mode():
        out = op(x)
    assert torch.equal(out, op(x)) and torch.equal(torch.get_rng_state(), state)


def test_training_mode_draws_as_stated_and_repeats_by_seed(stem, make):
    op, x = make(stem, training=True), torch.randn(4, 3, 16, 16, dtype=torch.float64)
    state = torch.get_rng_state()
    first = op(x)
    drew = not torch.equal(torch.get_rng_state(), state)
    assert drew == op.random
    assert torch.equal(op(x), first) != op.random
    torch.set_rng_state(state)
    assert torch.equal(op(x), first)


def test_the_default_dtype_decides_nothing(stem, make, set_default_dtype):
    op, x = make(stem, dtype=torch.float32), torch.randn(3, 3, 8, 8).relu()
    x[..., :2, :2] = 0
    expected = None
    for default in (torch.float32, torch.float16, torch.float64):
        set_default_dtype(default)
        torch.manual_seed(0)
        copied, x = copy.deepcopy(op).train(), x.detach().requires_grad_()
        trained = copied(x)
        got = trained, *torch.autograd.grad(trained.sum(), x), copied.eval()(x)
        expected = got if expected is None else expected
        assert all(map(torch.equal, got, expected)), default


def test_input_that_is_no_batch_of_maps_is_refused_with_its_type_and_shape(make):
    names = "adaptive_blur aps flc fractional_max lift lps reduction resize s3 tips unshuffle"
    for name in names.split():
        for x in (torch.zeros(4, 8, 8), torch.zeros(2, 4, 8, 8, dtype=torch.int64)):
            message = rf"takes floating-point \(N, C, H, W\).*, got {x.dtype} of shape \({x.shape[0]},"
            with pytest.raises(ValueError, match=message):
                make(name, 4)(x)


def test_torch_fx_records_the_operator_as_one_call_and_its_hooks_run_once(stem, pure, make):
    for training in (False, True):
        op, before = make(stem, training=training), nn.Conv2d(3, 3, 1, dtype=torch.float64)
        op.register_forward_hook(lambda *given: 2 * given[-1])
        network = nn.Sequential(before, op)
        graph, alone = fx.symbolic_trace(network), fx.symbolic_trace(op)
        assert [node.target for node in graph.graph.nodes if node.op == "call_module"] == ["0", "1"]
        assert list(graph.state_dict()) == list(network.state_dict())
        for size in ((8, 8), (12, 10)):
            x = torch.randn(2, 3, *size, dtype=torch.float64)
            assert torch.equal(pure(graph)({}, x), pure(network)({}, x))
            assert torch.equal(pure(alone)({}, x), pure(op)({}, x))


def test_torch_fx_records_a_function_as_one_call():
    functions = {name for name in pool.__all__ if name.endswith("pool2d") or name in CALLS}
    assert functions == CALLS.keys()
    x = torch.rand(2, 4, 8, 8)
    for name, call in CALLS.items():
        graph = fx.symbolic_trace(call)
        assert next(n.target for n in graph.graph.nodes if n.op == "call_function") is getattr(pool, name)
        torch.manual_seed(0)
        expected = call(x)
        torch.manual_seed(0)
        assert torch.equal(graph(x), expected), name
