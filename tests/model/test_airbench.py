import pytest
import torch

from cnnpool import model, pool, readout
from cnnpool.model.airbench import Whitening


def build(operator, **options):
    return model.build(
        "airbench",
        3,
        (32, 32),
        10,
        pool=lambda stage, c: pool.build(operator, c),
        readout=lambda c, s: readout.build("flatten", c, s, hidden=0),
        width=4,
        **options,
    )


def test_parameters_and_maps_are_those_of_the_plan():
    net = build("max")
    convolutions = 9 * (24 * 4 + 4 * 4 + 4 * 16 + 3 * 16 * 16)
    learnt = 24 + convolutions + 2 * 2 * (4 + 16 + 16) + 10 * (16 * 3 * 3 + 1)
    assert sum(p.numel() for p in net.parameters()) == learnt
    seen = {}
    for name, stage in net.stages.items():
        stage.register_forward_hook(lambda m, i, o, name=name: seen.update({name: (i[0].shape, o.shape)}))
    net(torch.zeros(2, 3, 32, 32))
    assert seen == {
        "s1": ((2, 4, 31, 31), (2, 4, 15, 15)),
        "s2": ((2, 16, 15, 15), (2, 16, 7, 7)),
        "s3": ((2, 16, 7, 7), (2, 16, 3, 3)),
    }


def test_an_operator_that_keeps_the_resolution_dilates_what_follows():
    convolutions = [m for m in build("none").modules() if isinstance(m, torch.nn.Conv2d)]
    assert [c.dilation[0] for c in convolutions] == [1, 2, 2, 4, 4, 8]


@pytest.mark.parametrize("channels", [1, 3])
def test_patches_come_out_uncorrelated_each_as_large_as_any_other_and_negated(channels):
    torch.manual_seed(0)
    # Neighbouring pixels and channels alike, as in photographs.
    mixed = torch.nn.functional.avg_pool2d(torch.randn(64, channels, 20, 20), 3, 1)
    images = mixed + mixed.mean(1, keepdim=True) + 0.5
    layer = Whitening(channels)
    layer.whiten(images)
    y = layer(images).detach().double()
    half = 4 * channels
    assert torch.equal(y[:, :half], -y[:, half:])
    rows = y[:, :half].transpose(0, 1).flatten(1)
    covariance = torch.cov(rows)
    raw = torch.nn.functional.unfold(images, 2).transpose(1, 2).flatten(0, 1).double()
    variance = torch.linalg.eigvalsh(torch.cov(raw.T)).flip(0)
    assert torch.allclose(covariance, torch.diag(variance / (variance + 5e-4)), atol=2e-3)


def test_an_axis_without_content_is_not_blown_up():
    layer = Whitening(1)
    layer.whiten(torch.zeros(4, 1, 8, 8))
    assert layer.weight.abs().max() <= 5e-4**-0.5 * 1.001


def test_what_was_taken_from_the_images_is_kept_with_the_network_but_not_learnt():
    net, other = build("max"), build("max")
    net.initialize([(torch.randn(8, 3, 32, 32), torch.zeros(8))])
    other.load_state_dict(net.state_dict())
    assert torch.equal(net.features[0].weight, other.features[0].weight)
    assert not torch.equal(net.features[0].weight, build("max").features[0].weight)
    assert not any(p is net.features[0].weight for p in net.parameters())


def test_circular_padding_commutes_with_shifts():
    net = build("none", padding_mode="circular").eval()
    x = torch.randn(1, 3, 32, 32)
    a, b = net.features(x.roll((3, 5), (2, 3))), net.features(x).roll((3, 5), (2, 3))
    assert a.shape[-2:] == (32, 32) and torch.allclose(a, b, atol=1e-4)
