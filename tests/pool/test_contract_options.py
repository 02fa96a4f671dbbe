"""Promises of operators with other options than their defaults."""

import pytest
import torch
import torch.nn.functional as F
from torch import func
from torch.autograd import gradcheck, gradgradcheck
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

from cnnpool.pool import OPERATORS, build
from cnnpool.registry import options_of

WINDOW = {"kernel_size": 3, "padding": 1, "ceil_mode": True}
VARIANTS = {
    "adaptive_blur grouped": ("adaptive_blur", {"groups": 2}),
    "aps": ("aps", {"stride": (2, 3), "filter_size": 2, "p": 1.0}),
    "avg": ("avg", {**WINDOW, "count_include_pad": False}),
    "blur replicate": ("blur", {"filter_size": (4, 5), "stride": (2, 3), "padding_mode": "replicate"}),
    "conv_pool circular": ("conv_pool", {"padding_mode": "circular"}),
    "lift": ("lift", {"kernel_size": 5, "padding_mode": "circular"}),
    "max dilated": ("max", {"kernel_size": (2, 3), "stride": 2, "padding": 1, "dilation": (2, 1)}),
    "max last": ("max", {**WINDOW, "ties": "last"}), "max split": ("max", {**WINDOW, "ties": "split"}),
    "max_blur": ("max_blur", {"kernel_size": 3, "filter_size": 4, "stride": 3, "padding_mode": "zeros"}),
    "patchify": ("patchify", {"norm": "layer"}),
    "reduction circular": ("reduction", {"padding_mode": "circular"}),
    "resize": ("resize", {"stride": (3, 1)}), "soft learnt": ("soft", {**WINDOW, "learnable": True}),
    "spectral": ("spectral", {"stride": 1.5}),
    "unshuffle": ("unshuffle", {"stride": (2, 3), "kernel_size": 3, "order": "cell", "norm": "layer"}),
    "wavelet": ("wavelet", {"order": 3, "edges": "symmetric"})
}  # fmt: skip
variants = pytest.mark.parametrize(("name", "options"), VARIANTS.values(), ids=VARIANTS)


@variants
def test_gradients_are_the_numerical_ones_in_both_modes_and_twice(name, options, make, pure, distinct):
    op = make(name, 4, **options)
    for parameter in op.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    inputs = (distinct(2, 4, 6, 7).requires_grad_(), *(p.detach().requires_grad_() for p in op.parameters()))
    call = pure(op, flat=True)
    assert gradcheck(call, inputs, fast_mode=True, check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(call, inputs, fast_mode=True)


@variants
def test_under_vmap_it_is_the_same_function(name, options, make, distinct):
    op, x = make(name, 4, **options), distinct(3, 2, 4, 6, 7)
    assert_close(func.vmap(op)(x), torch.stack([op(batch) for batch in x]))


@variants
def test_memory_format_is_kept_in_both_directions(name, options, make):
    for channels in (1, 3, 4):
        if channels % options.get("groups", 1):
            continue
        op = make(name, channels, **options)
        plain = torch.randn(2, channels, 6, 9, dtype=torch.float64)
        last = plain.contiguous(memory_format=torch.channels_last).requires_grad_()
        y = op(last)
        assert op(plain).is_contiguous()
        assert y.is_contiguous(memory_format=torch.channels_last)
        assert_close(y, op(plain))
        (grad,) = torch.autograd.grad(y, last, torch.randn_like(y))
        assert grad.shape == plain.shape


CIRCULAR = ("blur", "conv_pool", "depthwise", "lift", "reduction", "strided")


@pytest.mark.parametrize("name", CIRCULAR)
def test_with_circular_edges_it_commutes_with_shifts_by_the_stride(name, make, distinct):
    op, x = make(name, 4, padding_mode="circular"), distinct(2, 4, 8, 8)
    assert_close(op(x.roll((2, -4), (2, 3))), op(x).roll((1, -2), (2, 3)), rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", ["avg_conv", "depthwise", "patchify", "strided", "unshuffle"])
def test_a_norm_stands_in_place_of_the_bias_and_an_activation_behind_it(name, make):
    x = torch.randn(4, 4, 8, 8, dtype=torch.float64)
    for activation in ("none", "relu", "gelu", "silu"):
        known = "activation" in options_of(OPERATORS[name])
        op = make(name, 4, norm="batch", training=True, **({"activation": activation} if known else {}))
        plain = make(name, 4, **({"activation": "none"} if known else {}))
        plain.load_state_dict(op.state_dict(), strict=False)
        for key, parameter in plain.named_parameters():
            assert not key.endswith("bias") or key not in dict(op.named_parameters())
            parameter.data *= not key.endswith("bias")
        normed = F.batch_norm(plain(x), None, None, training=True)
        assert_close(op(x), getattr(F, activation)(normed) if known and activation != "none" else normed)


def test_flops_are_those_torch_counts_and_those_of_the_pooling_beside():
    options = {name: {} for name in ("conv_blur", "conv_pool", "depthwise", "patchify", "strided")}
    options["unshuffle"] = {"kernel_size": 3, "stride": 3}
    for name, given in options.items():
        op, size = build(name, 4, **given), (9, 12)
        with FlopCounterMode(display=False) as counter:
            op(torch.randn(1, 4, *size))
        rest = sum(getattr(op, part).flops(*size) for part in ("blur", "pool") if hasattr(op, part))
        assert op.flops(*size) == counter.get_total_flops() + rest, name


def test_gain_stays_exact_under_autocast():
    x = torch.full((1, 2, 16, 16), 3.0)
    for name in ("avg", "blur", "haar", "ideal_lowpass", "max_blur", "spectral", "wavelet"):
        with torch.autocast("cpu", torch.bfloat16):
            out = build(name, 2)(x)
        assert out.dtype == torch.float32
        assert_close(out, torch.full_like(out, 3.0 * OPERATORS[name].gain), rtol=1e-6, atol=0)


@pytest.mark.parametrize("bottleneck", [None, 0, 2])
def test_filters_and_weights_are_computed_in_float32_under_autocast(bottleneck):
    x = torch.randn(2, 4, 8, 8)
    for name in ("adaptive_blur", "tips") if bottleneck is None else ("lip",):
        op = build(name, 4, **({} if bottleneck is None else {"bottleneck": bottleneck}))
        for parameter in op.parameters():
            torch.nn.init.normal_(parameter)
        with torch.autocast("cpu", torch.bfloat16):
            out = op(x)
        assert torch.equal(out, op(x)), name


LEARNING = [stem for stem in OPERATORS if [*build(stem, 4).parameters()]]


@pytest.mark.parametrize("name", LEARNING)
def test_every_parameter_learns(name):
    op, x = build(name, 4).train(), torch.randn(8, 4, 8, 8)
    before = [p.detach().clone() for p in op.parameters()]
    optimiser = torch.optim.SGD(op.parameters(), lr=1.0)
    for _ in range(5):
        optimiser.zero_grad()
        (op(x) - F.max_pool2d(x, 2)).square().mean().backward()
        optimiser.step()
    assert all(not torch.equal(a, b) for a, b in zip(before, op.parameters(), strict=True))
    assert op(x).isfinite().all()


@pytest.mark.parametrize("name", [stem for stem in OPERATORS if OPERATORS[stem].random])
def test_each_sample_draws_its_own_under_vmap(name):
    op, x = build(name, 1).train(), torch.rand(1, 1, 32, 32).expand(8, -1, -1, -1, -1)
    draws = func.vmap(op, randomness="different")(x)
    assert draws.shape == (8, 1, 1, 16, 16) and draws.unique(dim=0).shape[0] > 1
