"""Promises of every readout, whatever it computes.

Sizes differ along the axes so that a mix-up shows, and are no smaller than 4, the finest default grid.
"""

import copy
import inspect
import pickle

import pytest
import torch
from random_maps import distinct
from torch import func
from torch.autograd import gradcheck, gradgradcheck
from torch.testing import assert_close

from cnnpool import registry, schema
from cnnpool.pool import dispatch
from cnnpool.readout import READOUTS, Readout, build

STEMS = sorted(schema.names("readout"))
SIZE = (4, 6)
pytestmark = pytest.mark.parametrize("stem", STEMS)


def make(stem, channels=3, size=SIZE, dtype=torch.float64, **options):
    return build(stem, channels, size, **options).to(dtype)


def flat_function(readout):
    names = [name for name, _ in readout.named_parameters()]

    def call(x, *values):
        return func.functional_call(readout, dict(zip(names, values, strict=True)), (x,))

    return call


def test_schema_and_table_share_one_stem(stem):
    assert issubclass(READOUTS[stem], Readout)
    assert set(STEMS) == set(READOUTS)


def test_facts_are_stated(stem):
    readout = READOUTS[stem]
    assert all(getattr(readout, fact).strip() for fact in ("formula", "paper", "shift"))
    doc = inspect.getdoc(readout)
    assert doc != inspect.getdoc(Readout)
    assert all(f"{name}:" in doc for name in registry.options_of(readout))


def test_length_of_the_vector_is_known_before_the_first_batch(stem):
    for channels in (1, 4, 64):
        readout = make(stem, channels)
        out = readout(torch.randn(2, channels, *SIZE, dtype=torch.float64))
        assert out.shape == (2, readout.out_features) and out.is_contiguous()


def test_map_of_another_size_is_read_or_refused_as_stated(stem):
    readout = make(stem)
    for size in [(4, 4), (5, 7), (8, 12)]:
        x = torch.randn(2, 3, *size, dtype=torch.float64)
        if readout.any_size:
            assert readout(x).shape == (2, readout.out_features)
        else:
            with pytest.raises(ValueError, match=f"made for 4x6 maps and received {size[0]}x{size[1]}"):
                readout(x)


def test_a_map_that_does_not_fit_is_refused_in_a_line(stem):
    x = torch.rand(2, 3, *SIZE, dtype=torch.float64)
    misfits = [x.to(torch.complex64), x > 0.5, x.long(), x[0, 0, 0], x[0, 0], x[0], x[None]]
    misfits += [x.to(torch.float8_e5m2), x[:, :0], x[:, :, :0], x[..., :0]]
    each = [make(stem)] if make(stem).fixed_channels else []
    each += [make(stem, per="channel")] if "per" in registry.options_of(READOUTS[stem]) else []
    calls = [(make(stem), misfit) for misfit in misfits] + [(readout, x[:, :2]) for readout in each]
    for readout, misfit in calls:
        # torch raises a RuntimeError: code that catches it goes on.
        with pytest.raises(RuntimeError, match=r"2d|Flatten") as refused:
            readout(misfit)
        assert isinstance(refused.value, ValueError) and "\n" not in str(refused.value), misfit.shape
    # As those of operators, weights for the whole map take any number of channels.
    weights = [tuple(p.shape for p in make(stem, c).parameters()) for c in (4, 8)]
    assert (weights[0] != weights[1]) == make(stem).fixed_channels


def test_circular_shift_changes_the_vector_exactly_as_stated(stem):
    readout, x = make(stem), distinct(3, 3, *SIZE)
    moved = [(readout(x.roll((i, j), (2, 3))) - readout(x)).abs().max() for i in range(4) for j in range(6)]
    if readout.shift == "invariant":
        assert max(moved) < 1e-12
    else:
        assert max(moved) > 1e-3


def test_every_input_gets_gradient_in_some_sample_and_channel(stem):
    readout, x = make(stem), distinct(256, 3, *SIZE).requires_grad_()
    # The map is so large that kernels would be compiled for it, which are torch's to the last bit.
    with dispatch.use(False):
        out = readout(x)
        (grad,) = torch.autograd.grad(out, x, torch.rand_like(out) + 0.5)
    assert (grad != 0).any(0).all()


def test_every_floating_dtype_is_kept_in_both_directions_and_near_float64(stem):
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        readout, x = make(stem, dtype=dtype), torch.randn(4, 3, *SIZE, dtype=dtype, requires_grad=True)
        out = readout(x)
        out.sum().backward()
        assert out.dtype == x.grad.dtype == dtype and x.grad.isfinite().all()
        exact = copy.deepcopy(readout).double()(x.detach().double())
        assert (out.double() - exact).abs().max() <= 4 * torch.finfo(dtype).eps * exact.abs().max(), dtype


def test_memory_format_and_strides_do_not_matter_and_the_input_is_left_alone(stem):
    readout, x = make(stem), torch.randn(2, 3, *SIZE, dtype=torch.float64)
    spread = torch.full((2, 3, 4, 12), torch.nan, dtype=torch.float64)
    spread[..., ::2] = x
    version, expected = x._version, readout(x)
    assert torch.equal(x, spread[..., ::2]) and x._version == version
    assert expected.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()
    for view in (x.contiguous(memory_format=torch.channels_last), spread[..., ::2], x.mT.contiguous().mT):
        assert_close(readout(view), expected)
    assert_close(readout(x[:1].expand(2, -1, -1, -1)), expected[:1].expand(2, -1))


def test_empty_batch_gives_an_empty_batch(stem):
    readout, x = make(stem), torch.randn(0, 3, *SIZE, dtype=torch.float64, requires_grad=True)
    out = readout(x)
    out.sum().backward()
    assert out.shape == (0, readout.out_features) and x.grad.shape == x.shape


def test_gradient_is_the_numerical_one_in_either_mode(stem):
    readout = make(stem)
    parameters = [p.detach().requires_grad_() for p in readout.parameters()]
    inputs = (distinct(2, 3, *SIZE).requires_grad_(), *parameters)
    assert gradcheck(flat_function(readout), inputs, fast_mode=True, check_forward_ad=True)
    assert gradgradcheck(flat_function(readout), inputs, fast_mode=True)


def test_every_parameter_is_trained_and_the_gradient_of_a_constant_map_is_finite(stem):
    readout, x = make(stem), torch.rand(8, 3, *SIZE, dtype=torch.float64, requires_grad=True)
    readout(x).square().sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in readout.parameters())
    for value in (0.0, 1.0, -3.0):
        x = torch.full((2, 3, *SIZE), value, dtype=torch.float64, requires_grad=True)
        readout(x).sum().backward()
        assert all(t.grad is None or t.grad.isfinite().all() for t in [x, *readout.parameters()])


def test_it_draws_nothing_trains_as_it_evaluates_and_infers_and_is_stored_whole(stem):
    readout, fresh, x = make(stem), make(stem), torch.randn(2, 3, *SIZE, dtype=torch.float64)
    state = torch.get_rng_state()
    out = readout.train()(x)
    assert torch.equal(out, readout.eval()(x))
    with torch.inference_mode():
        assert torch.equal(readout(x), out)
    assert torch.equal(torch.get_rng_state(), state)
    fresh.load_state_dict(readout.state_dict(), strict=True)
    assert torch.equal(fresh(x), out) and torch.equal(pickle.loads(pickle.dumps(readout))(x), out)


def test_autocast_runs_forward_and_backward_near_float64(stem):
    readout, x = make(stem, dtype=torch.float32), torch.randn(2, 3, *SIZE, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        out = readout(x)
        rounded = readout(x.detach().bfloat16())
    out.float().sum().backward()
    assert out.dtype in (torch.float32, torch.bfloat16)
    assert out.isfinite().all() and x.grad.dtype == torch.float32 and x.grad.isfinite().all()
    exact = copy.deepcopy(readout).double()(x.detach().bfloat16().double())
    assert (rounded.double() - exact).abs().max() <= 4 * torch.finfo(torch.bfloat16).eps * exact.abs().max()


def test_compiles_whole_and_trains_the_same(stem):
    readout, x = make(stem), torch.randn(2, 3, *SIZE, dtype=torch.float64, requires_grad=True)
    torch._dynamo.reset()
    compiled = torch.compile(readout, fullgraph=True, backend="aot_eager")
    results = []
    for call in (readout, compiled):
        out = call(x)
        results.append((out, torch.autograd.grad(out.square().sum(), [x, *readout.parameters()])))
    assert_close(results[1], results[0])


def test_per_sample_gradients_are_those_of_each_sample_alone(stem):
    readout, x = make(stem), distinct(3, 3, *SIZE)
    parameters = {name: p.detach() for name, p in readout.named_parameters()}

    def loss(parameters, x):
        return func.functional_call(readout, parameters, (x.unsqueeze(0),)).square().sum()

    per_sample = func.vmap(func.grad(loss, argnums=(0, 1)), in_dims=(None, 0))(parameters, x)
    alone = [func.grad(loss, argnums=(0, 1))(parameters, sample) for sample in x]
    assert_close(per_sample[1], torch.stack([inputs for _, inputs in alone]))
    for name in parameters:
        assert_close(per_sample[0][name], torch.stack([weights[name] for weights, _ in alone]))


def test_meta_tensors_give_the_shape_and_cost_nothing(stem):
    readout = make(stem, dtype=torch.float32).to("meta")
    out = readout(torch.empty(2, 3, *SIZE, device="meta"))
    assert out.device.type == "meta" and out.shape == (2, readout.out_features)


def test_flops_count_grows_with_the_map(stem):
    counts = [make(stem, size=size).flops(*size) for size in [(4, 6), (8, 6), (8, 12)]]
    assert all(type(count) is int for count in counts)
    assert 0 < counts[0] < counts[1] < counts[2]
