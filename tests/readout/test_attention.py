"""The attention readouts against timm's layers, weight by weight."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from cnnpool.readout import AttentionPool2d, ClipAttentionPool2d, SimPool2d

C, SIZE = 12, (3, 5)


@pytest.fixture
def layers():
    return pytest.importorskip("timm.layers")


def image(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def copy_linear(source, target):
    with torch.no_grad():
        target.weight.copy_(source.weight)
        if target.bias is not None:
            target.bias.zero_() if source.bias is None else target.bias.copy_(source.bias)


@pytest.mark.parametrize("heads", [1, 4])
def test_attention_is_timms_latent_pooling_without_its_mlp(layers, heads):
    readout, x = AttentionPool2d(C, SIZE, heads=heads).double(), image(2, C, *SIZE)
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


def test_attention_of_a_zero_query_is_the_mean_of_the_values():
    readout, x = AttentionPool2d(C, SIZE).double(), image(2, C, *SIZE)
    nn.init.zeros_(readout.query)
    assert_close(readout(x), readout.out(readout.value(x.mean((2, 3)))))


@pytest.mark.parametrize("heads", [1, 3])
def test_clip_attention_is_timms(layers, heads):
    readout, x = ClipAttentionPool2d(C, SIZE, heads=heads).double(), image(2, C, *SIZE)
    theirs = layers.AttentionPool2d(C, SIZE, num_heads=heads, head_dim=None, qkv_separate=True).double()
    for ours, other in (("query", "q"), ("key", "k"), ("value", "v"), ("out", "proj")):
        copy_linear(getattr(readout, ours), getattr(theirs, other))
    with torch.no_grad():
        theirs.pos_embed.copy_(readout.positions)
    assert_close(readout(x), theirs(x))


def test_clip_attention_without_positions_is_shift_invariant():
    readout, x = ClipAttentionPool2d(C, SIZE).double(), image(2, C, *SIZE)
    nn.init.zeros_(readout.positions)
    assert_close(readout(x.roll((1, 2), (2, 3))), readout(x))


@pytest.mark.parametrize("gamma", [None, 1.25, 2.0])
@pytest.mark.parametrize("heads", [1, 3])
def test_simpool_is_timms(layers, gamma, heads):
    readout, x = SimPool2d(C, SIZE, gamma=gamma, heads=heads).double(), image(2, C, *SIZE)
    theirs = layers.SimPool2d(C, num_heads=heads, gamma=gamma).double()
    with torch.no_grad():
        readout.norm.weight.uniform_(0.5, 1.5)
        readout.norm.bias.normal_()
    theirs.norm.load_state_dict(readout.norm.state_dict())
    theirs.norm.eps = readout.norm.eps
    copy_linear(readout.query, theirs.q)
    copy_linear(readout.key, theirs.k)
    assert_close(readout(x), theirs(x).reshape(2, C))


def test_simpool_of_gamma_one_is_the_weighted_mean():
    x, plain, one = image(2, C, *SIZE), SimPool2d(C, SIZE, gamma=None), SimPool2d(C, SIZE, gamma=1.0)
    one.load_state_dict(plain.state_dict())
    lowest = plain.double().norm(x.flatten(2).mT).amin(1)
    assert_close(one.double()(x) - 1e-6 + lowest, plain(x))


def test_heads_default_to_one_per_64_channels_where_that_fits_and_must_divide_them():
    for readout in (AttentionPool2d, ClipAttentionPool2d):
        assert [readout(c, (2, 2)).heads for c in (32, 64, 100, 128)] == [1, 1, 1, 2]
    for readout in (AttentionPool2d, ClipAttentionPool2d, SimPool2d):
        with pytest.raises(ValueError, match="heads must divide the 12 channels, got 5"):
            readout(C, SIZE, heads=5)
