"""Every readout against torch's and timm's layers, scipy, its formula and its limits."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from random_maps import maps
from scipy.special import logsumexp
from torch import nn
from torch.testing import assert_close

from cnnpool import readout as readouts

SIZE = (5, 7)


def test_gap_and_gmp_are_torchs_adaptive_average_and_maximum():
    x = maps(2, 3, *SIZE)
    assert_close(readouts.GlobalAvgPool2d(3, SIZE)(x), F.adaptive_avg_pool2d(x, 1).flatten(1))
    for ties in ("first", "split"):
        ours = readouts.GlobalMaxPool2d(3, SIZE, ties=ties)(x)
        assert torch.equal(ours, F.adaptive_max_pool2d(x, 1).flatten(1))


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_gmp_gives_tied_gradient_to_the_first_as_torchs_adaptive_maximum(memory_format):
    x = torch.randint(0, 3, (4, 3, *SIZE)).double().contiguous(memory_format=memory_format).requires_grad_()
    upstream = torch.rand(4, 3, dtype=torch.float64)
    (ours,) = torch.autograd.grad(readouts.GlobalMaxPool2d(3, SIZE)(x), x, upstream)
    (theirs,) = torch.autograd.grad(F.adaptive_max_pool2d(x, 1).flatten(1), x, upstream)
    assert torch.equal(ours, theirs)
    assert (ours.flatten(2) != 0).sum(2).eq(1).all()


def test_gmp_splits_tied_gradient_evenly_when_asked():
    x = torch.tensor([[[[1.0, 4.0], [4.0, 4.0]]]], requires_grad=True)
    readouts.GlobalMaxPool2d(1, (2, 2), ties="split")(x).sum().backward()
    assert_close(x.grad.flatten(), torch.tensor([0, 1 / 3, 1 / 3, 1 / 3]))


@pytest.mark.parametrize("ties", ["first", "split"])
def test_gmp_passes_nan_and_infinity_on(ties):
    x = torch.stack([torch.zeros(2, 2), torch.full((2, 2), -math.inf), torch.ones(2, 2)])[None]
    x[0, 0, 1, 1] = math.nan
    out = readouts.GlobalMaxPool2d(3, (2, 2), ties=ties)(x)[0]
    assert out[0].isnan() and out[1] == -math.inf and out[2] == 1


@pytest.mark.parametrize(
    ("readout", "name"),
    [(readouts.GlobalAvgMaxPool2d, "avgmax"), (readouts.GlobalCatAvgMaxPool2d, "catavgmax")],
)
@pytest.mark.parametrize("ties", ["first", "split"])
def test_avgmax_and_catavgmax_are_timms(readout, name, ties):
    layers = pytest.importorskip("timm.layers")
    # timm's plain pooling breaks ties by the first, its fast one splits: values are the same, gradients not.
    kind = name if ties == "first" else f"fast{name}"
    theirs = layers.SelectAdaptivePool2d(pool_type=kind, flatten=True)
    x = torch.randint(0, 4, (3, 4, *SIZE)).double().requires_grad_()
    ours = readout(4, SIZE, ties=ties)(x)
    upstream = torch.rand_like(ours)
    assert_close(ours, theirs(x))
    assert_close(torch.autograd.grad(ours, x, upstream), torch.autograd.grad(theirs(x), x, upstream))


@pytest.mark.parametrize("size", [(4, 4), (5, 7), (13, 8)])
def test_pyramid_keeps_the_maximum_of_each_cell_level_after_level(size):
    levels, x = (1, 3, 4), maps(2, 3, *size)
    columns = []
    for level in levels:
        for c in range(3):
            for i in range(level):
                for j in range(level):
                    rows = slice(i * size[0] // level, math.ceil((i + 1) * size[0] / level))
                    cols = slice(j * size[1] // level, math.ceil((j + 1) * size[1] / level))
                    columns.append(x[:, c, rows, cols].flatten(1).amax(1))
    readout = readouts.SpatialPyramidPool2d(3, size, levels=levels)
    assert readout.out_features == len(columns) == 3 * 26
    assert torch.equal(readout(x), torch.stack(columns, 1))


def test_pyramid_finer_than_the_map_is_refused_at_the_start_and_later():
    with pytest.raises(ValueError, match=r"levels=\(1, 2, 4\) has a grid finer than the 3x9 map"):
        readouts.SpatialPyramidPool2d(3, (3, 9))
    with pytest.raises(ValueError, match="finer than the 8x2 map; levels up to 2 fit"):
        readouts.SpatialPyramidPool2d(3, (8, 8))(torch.zeros(1, 3, 8, 2))


def gem(x, p, eps=1e-6):
    return (x.clamp(min=eps) ** p).mean((2, 3)) ** (1 / p)


@given(st.floats(0.1, 20), st.booleans())
@settings(max_examples=50)
def test_gem_is_its_formula_whether_p_is_fixed_or_learnt(p, learnable):
    readout, x = readouts.GlobalGeM2d(3, SIZE, p=p, learnable=learnable).double(), maps(2, 3, *SIZE)
    # A learnt p has been a float32 parameter.
    assert_close(readout(x), gem(x, p), **({"rtol": 1e-5, "atol": 1e-7} if learnable else {}))


def test_gem_of_a_large_p_tends_to_the_maximum_without_overflow():
    x = maps(2, 3, *SIZE).abs() * 1e4
    ours = readouts.GlobalGeM2d(3, SIZE, p=1000.0, learnable=False)(x)
    assert_close(ours, x.amax((2, 3)), rtol=math.log(35) / 1000, atol=0)


def test_gem_gradient_is_the_stated_one():
    x, p, eps = maps(2, 3, *SIZE).requires_grad_(), 2.5, 1e-3
    y = readouts.GlobalGeM2d(3, SIZE, p=p, learnable=False, eps=eps)(x)
    (grad,) = torch.autograd.grad(y.sum(), x)
    expected = (x.clamp(min=eps) / y[..., None, None]) ** (p - 1) / 35 * (x > eps)
    assert_close(grad, expected)


def test_gem_of_a_channel_that_is_nowhere_positive_is_eps_and_dead():
    x = (-maps(2, 3, *SIZE).abs() - 0.1).requires_grad_()
    y = readouts.GlobalGeM2d(3, SIZE, eps=1e-4)(x)
    y.sum().backward()
    assert_close(y, torch.full_like(y, 1e-4))
    assert not x.grad.any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gem_of_half_precision_neither_overflows_nor_loses_the_small(dtype):
    x = torch.tensor([1e-3, 3e4], dtype=dtype)[None, :, None, None].expand(1, 2, 8, 8)
    y = readouts.GlobalGeM2d(2, (8, 8))(x)
    assert y.dtype == dtype
    assert_close(y, x[..., 0, 0])


def test_exponent_is_one_per_layer_or_per_channel_or_no_parameter():
    fixed = {"learnable": False}
    for readout in (readouts.GlobalGeM2d, readouts.GlobalLogSumExpPool2d):
        made = [
            readout(6, SIZE, **each) for each in ({}, {"per": "channel"}, fixed, fixed | {"per": "channel"})
        ]
        assert [sum(p.numel() for p in each.parameters()) for each in made] == [1, 6, 0, 0]


def test_gem_channels_have_their_own_p():
    readout, x = readouts.GlobalGeM2d(2, SIZE, per="channel").double(), maps(2, 2, *SIZE)
    with torch.no_grad():
        readout.p.raw.copy_(torch.tensor([2.0, 5.0]).double().expm1().log())
    assert_close(readout(x), torch.stack([gem(x, 2.0)[:, 0], gem(x, 5.0)[:, 1]], 1))


@pytest.mark.parametrize("r", [0.1, 1.0, 10.0])
def test_logsumexp_is_timms_and_scipys(r):
    layers = pytest.importorskip("timm.layers")
    readout, x = readouts.GlobalLogSumExpPool2d(3, SIZE, r=r, learnable=False), maps(2, 3, *SIZE)
    assert_close(readout(x), layers.LsePlus2d(r=r).double()(x), rtol=1e-6, atol=1e-6)
    exact = logsumexp(r * x.numpy(), axis=(2, 3), b=1 / 35) / r
    assert_close(readout(x), torch.from_numpy(exact))


def test_logsumexp_limits_are_average_and_maximum():
    x = maps(2, 3, *SIZE)
    average, maximum = (readouts.GlobalLogSumExpPool2d(3, SIZE, r=r, learnable=False)(x) for r in (1e-6, 1e4))
    assert_close(average, x.mean((2, 3)), rtol=0, atol=1e-5)
    assert_close(maximum, x.amax((2, 3)), rtol=0, atol=1.001 * math.log(35) / 1e4)


@pytest.mark.parametrize("learnable", [False, True])
@pytest.mark.parametrize("small", [1e-4, 1e-6, 1e-8])
def test_the_smallest_r_and_p_give_arithmetic_and_geometric_means_in_float32(small, learnable):
    x = torch.rand(2, 3, *SIZE, requires_grad=True)
    y = readouts.GlobalLogSumExpPool2d(3, SIZE, r=small, learnable=learnable)(x)
    assert_close(y, x.mean((2, 3)), rtol=2 * small + 1e-6, atol=0)
    (grad,) = torch.autograd.grad(y.sum(), x)
    assert_close(grad, torch.full_like(x, 1 / 35), rtol=2 * small + 1e-6, atol=0)
    y = readouts.GlobalGeM2d(3, SIZE, p=small, learnable=learnable)(x)
    assert_close(y, x.log().mean((2, 3)).exp(), rtol=10 * small + 1e-6, atol=0)
    (grad,) = torch.autograd.grad(y.sum(), x)
    assert_close(grad, y[..., None, None] / (35 * x), rtol=100 * small + 1e-5, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_logsumexp_of_large_activations_does_not_overflow(dtype):
    x = torch.full((1, 2, *SIZE), 6e4, dtype=dtype)
    assert torch.equal(readouts.GlobalLogSumExpPool2d(2, SIZE)(x), x[..., 0, 0])


def test_it_is_the_textbook_layer_with_its_columns_reordered():
    readout, x = readouts.Flatten(3, (4, 5), hidden=7).double(), torch.randn(2, 3, 4, 5).double()
    textbook = nn.Sequential(nn.Flatten(), nn.Linear(60, 7), nn.ReLU()).double()
    with torch.no_grad():
        weight = readout.layer[0].weight.unflatten(1, (4, 5, 3)).permute(0, 3, 1, 2)
        textbook[1].weight.copy_(weight.flatten(1))
        textbook[1].bias.copy_(readout.layer[0].bias)
    assert_close(readout(x), textbook(x))


def test_without_a_layer_it_is_the_entries_in_channels_last_order():
    x = torch.arange(12.0).reshape(1, 2, 2, 3)
    readout = readouts.Flatten(2, (2, 3), hidden=0)
    assert readout.out_features == 12 and not list(readout.parameters())
    assert readout(x).tolist() == [[0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11]]


def test_channels_last_maps_are_not_copied_but_read_in_place():
    x = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    readout = readouts.Flatten(3, (4, 5))
    seen = []
    readout.layer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].data_ptr()))
    readout(x)
    assert seen == [x.data_ptr()]


C = 12


@pytest.fixture
def layers():
    return pytest.importorskip("timm.layers")


def copy_linear(source, target):
    with torch.no_grad():
        target.weight.copy_(source.weight)
        if target.bias is not None:
            target.bias.zero_() if source.bias is None else target.bias.copy_(source.bias)


@pytest.mark.parametrize("heads", [1, 4])
def test_attention_is_timms_latent_pooling_without_its_mlp(layers, heads):
    readout, x = readouts.AttentionPool2d(C, SIZE, heads=heads).double(), maps(2, C, *SIZE)
    theirs = layers.AttentionPoolLatent(C, num_heads=heads).double()
    theirs.mlp = None
    with torch.no_grad():
        theirs.latent.copy_(readout.query)
        theirs.q.weight.copy_(torch.eye(C))
        theirs.q.bias.zero_()
        theirs.kv.weight.copy_(torch.cat([readout.key.weight, readout.value.weight]))
        theirs.kv.bias.copy_(torch.cat([torch.zeros(C), readout.value.bias]))
    copy_linear(readout.out, theirs.proj)
    assert_close(readout(x), theirs(x.flatten(2).mT).reshape(2, C))


@pytest.mark.parametrize("heads", [1, 3])
def test_clip_attention_is_timms(layers, heads):
    readout, x = readouts.ClipAttentionPool2d(C, SIZE, heads=heads).double(), maps(2, C, *SIZE)
    theirs = layers.AttentionPool2d(C, SIZE, num_heads=heads, head_dim=None, qkv_separate=True).double()
    for ours, other in (("query", "q"), ("key", "k"), ("value", "v"), ("out", "proj")):
        copy_linear(getattr(readout, ours), getattr(theirs, other))
    with torch.no_grad():
        theirs.pos_embed.copy_(readout.positions)
    assert_close(readout(x), theirs(x))


@pytest.mark.parametrize("gamma", [None, 1.25, 2.0])
@pytest.mark.parametrize("heads", [1, 3])
def test_simpool_is_timms(layers, gamma, heads):
    readout, x = readouts.SimPool2d(C, SIZE, gamma=gamma, heads=heads).double(), maps(2, C, *SIZE)
    theirs = layers.SimPool2d(C, num_heads=heads, gamma=gamma).double()
    with torch.no_grad():
        readout.norm.weight.uniform_(0.5, 1.5)
        readout.norm.bias.normal_()
    theirs.norm.load_state_dict(readout.norm.state_dict())
    theirs.norm.eps = readout.norm.eps
    copy_linear(readout.query, theirs.q)
    copy_linear(readout.key, theirs.k)
    assert_close(readout(x), theirs(x).reshape(2, C))


def test_simpool_of_its_authors_subtracts_one_minimum_of_the_batch():
    readout = readouts.SimPool2d(C, SIZE, gamma=1.25, variant="batch").double()
    x = maps(3, C, *SIZE)
    tokens = x.flatten(2).mT
    z = (tokens - tokens.mean(2, keepdim=True)) / (tokens.var(2, unbiased=False, keepdim=True) + 1e-6).sqrt()
    for n, (row, image) in enumerate(zip(z, tokens, strict=True)):
        query = readout.query.weight @ image.mean(0)
        weights = (row @ readout.key.weight.T @ query / C**0.5).softmax(0)
        mean = (weights[:, None] * (row - z.min() + 1e-6) ** 1.25).sum(0) ** (1 / 1.25)
        assert_close(readout(x)[n], mean)
    alone = torch.cat([readout(image[None]) for image in x])
    assert not torch.allclose(alone, readout(x)) and readout(x[:0]).shape == (0, C)


def test_simpool_keeps_to_the_numbers_that_there_are():
    equal = torch.ones(2, 4, 3, 3, requires_grad=True)
    readouts.build("simpool", 4, (3, 3), gamma=40.0)(equal).sum().backward()
    assert equal.grad.isfinite().all()
    assert readouts.build("simpool", 4, (3, 3), gamma=100.0)(torch.randn(2, 4, 3, 3)).isfinite().all()
    for _ in range(20):
        high = (1000 * torch.rand(2, 16, 4, 4)).requires_grad_()
        readouts.build("simpool", 16, (4, 4), gamma=8.0)(high).sum().backward()
        assert high.grad.isfinite().all()


def test_heads_default_to_one_per_64_channels_where_that_fits_and_must_divide_them():
    for readout in (readouts.AttentionPool2d, readouts.ClipAttentionPool2d):
        assert [readout(c, (2, 2)).heads for c in (32, 64, 100, 128)] == [1, 1, 1, 2]
    for readout in (readouts.AttentionPool2d, readouts.ClipAttentionPool2d, readouts.SimPool2d):
        with pytest.raises(ValueError, match="heads must divide the 12 channels, got 5"):
            readout(C, SIZE, heads=5)


def test_a_hidden_layer_as_wide_as_the_map_costs_its_arithmetic():
    assert readouts.Flatten(8, (4, 4), hidden=128).flops(4, 4) == (2 * 128 + 1) * 128
    assert readouts.Flatten(8, (4, 4), hidden=0).flops(4, 4) == 0
