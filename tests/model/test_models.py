import pytest
import torch
from small_nets import network
from torch import nn
from torch.testing import assert_close

from cnnpool import swap
from cnnpool.model import MODELS
from cnnpool.model.airbench import Whitening
from cnnpool.model.sprint import WholeConv2d
from cnnpool.pool import OPERATORS, MaxPool2d


def build(name, operator="max", *, channels=3, size=(32, 32), **options):
    return network(name, channels, size, 10, operator, **options)


def small(name):
    return {"width": 4, "blocks": 1} if name == "resnet20" else {"width": 4}


def count(net):
    return sum(p.numel() for p in net.parameters())


@pytest.mark.parametrize("name", MODELS)
def test_every_model_trains_a_step_with_every_kind_of_operator_and_readout(name):
    for operator in ("max", "avg", "strided", "conv_pool", "none", "subsample"):
        for head in ("flatten", "gap") if operator in ("max", "none") else ("gmp",):
            torch.manual_seed(0)
            net = build(name, operator, size=(16, 12), head=head, **small(name))
            logits = net(torch.randn(2, 3, 16, 12))
            assert logits.shape == (2, 10)
            logits.square().sum().backward()
            grads = [p.grad for p in net.parameters()]
            assert all(g is not None and g.isfinite().all() for g in grads), (operator, head)


@pytest.mark.parametrize("name", MODELS)
def test_a_stage_may_overlap_and_pad_and_sizes_still_fit(name):
    for options in ({"kernel_size": 3}, {"kernel_size": 3, "padding": 1}, {"kernel_size": 2, "stride": 1}):
        net = build(name, size=(28, 28), of_pool=options, head="flatten", **small(name))
        assert net(torch.zeros(1, 3, 28, 28)).shape == (1, 10)


def test_images_too_small_name_the_stage_the_operator_and_the_sizes():
    with pytest.raises(ValueError, match=r"stage s3 \(MaxPool2d\): a 1x1 map .*images are 9x9"):
        build("vgg", size=(9, 9), of_pool={"kernel_size": 3})


@pytest.mark.parametrize(
    ("made", "came"),
    [
        (lambda y, x: x, r"torch.float32 of shape \(1, 4, 32, 32\)"),
        (lambda y, x: y[:, ::2], r"torch.float32 of shape \(1, 2, 16, 16\)"),
        (lambda y, x: y.flatten(2), r"torch.float32 of shape \(1, 4, 256\)"),
        (lambda y, x: y.long(), r"torch.int64 of shape \(1, 4, 16, 16\)"),
        (lambda y, x: (y, y), "a tuple"),
    ],
)
def test_the_output_of_an_operator_is_checked_before_a_network_is_made_or_changed(made, came, monkeypatch):
    class Odd(MaxPool2d):
        def forward(self, x):
            return made(super().forward(x), x)

    said = rf"returned {came} for a map \(1, 4, 32, 32\); by its output_size .*\(1, 4, 16, 16\) is due"
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.MaxPool2d(2), nn.Conv2d(4, 4, 3))
    with pytest.raises(ValueError, match=rf"Odd cannot replace 1: .*Odd {said}"):
        swap(model, Odd, example=torch.zeros(1, 3, 32, 32))
    monkeypatch.setitem(OPERATORS, "odd", Odd)
    with pytest.raises(ValueError, match=rf"^stage s1 \(Odd\): {said}$"):
        build("convnet", "odd", width=4)


def test_the_dry_run_leaves_no_hooks_and_training_mode():
    net = build("convnet")
    assert net.training and all(m.training for m in net.modules())
    assert not any(m._forward_pre_hooks or m._forward_hooks for m in net.modules())


def conv(kernel, inputs, outputs):
    return kernel**2 * inputs * outputs + outputs


@pytest.mark.parametrize(
    ("variant", "between"),
    [
        ("A", conv(5, 3, 96) + conv(5, 96, 192)),
        ("B", conv(5, 3, 96) + conv(1, 96, 96) + conv(5, 96, 192) + conv(1, 192, 192)),
        ("C", conv(3, 3, 96) + conv(3, 96, 96) + conv(3, 96, 192) + conv(3, 192, 192)),
    ],
)
def test_allconv_has_the_parameters_of_the_papers_tables(variant, between):
    head = conv(3, 192, 192) + conv(1, 192, 192) + conv(1, 192, 10)
    downsampling = conv(3, 96, 96) + conv(3, 192, 192)
    assert count(build("allconv", "max", variant=variant, norm=False)) == between + head
    assert count(build("allconv", "strided", variant=variant, norm=False)) == between + head + downsampling


def test_resnet20_has_he_s_parameters():
    assert count(build("resnet20", "subsample")) == 269_722


def test_resnet_with_subsampling_is_he_s_strided_convolution():
    net = build("resnet20", "subsample", width=4, blocks=1, size=(16, 16)).eval()
    block = net.features[2]
    x = torch.randn(2, 4, 16, 16)
    conv, norm, relu = block.first
    strided = torch.nn.functional.conv2d(x, conv.weight, stride=2, padding=1)
    main = block.second(relu(norm(strided)))
    shortcut = torch.nn.functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 2, 2))
    torch.testing.assert_close(block(x), torch.relu(main + shortcut))


def test_resnet_shortcuts_are_stages_of_their_own():
    assert list(build("resnet20").stages) == ["s1", "s1_shortcut", "s2", "s2_shortcut"]


@pytest.mark.parametrize("name", ["convnet", "vgg", "allconv", "resnet20"])
def test_no_downsampling_and_dilation_hold_the_strided_net_at_every_stride_th_pixel(name):
    strided = build(name, "subsample", size=(16, 16), padding_mode="circular", **small(name)).double().eval()
    dense = build(name, "none", size=(16, 16), padding_mode="circular", **small(name)).double().eval()
    dense.load_state_dict(strided.state_dict())
    x = torch.randn(2, 3, 16, 16, dtype=torch.float64)
    few, many = strided.features(x), dense.features(x)
    step = many.shape[-1] // few.shape[-1]
    assert many.shape[-1] == 16 and step in (4, 8)
    torch.testing.assert_close(many[..., ::step, ::step], few)


@pytest.mark.parametrize("operator", ["aps", "lps"])
@pytest.mark.parametrize("name", ["convnet", "resnet20", "vgg", "allconv"])
def test_polyphase_selection_makes_a_circular_model_invariant_to_every_circular_shift(name, operator):
    net = build(name, operator, size=(16, 16), padding_mode="circular", **small(name)).double().eval()
    x = torch.randn(2, 3, 16, 16, dtype=torch.float64)
    still = net(x)
    for shift in ((0, 1), (1, 0), (3, 5), (-2, 7)):
        torch.testing.assert_close(net(x.roll(shift, (2, 3))), still, rtol=1e-9, atol=1e-9)


def test_a_residual_shortcut_samples_the_phase_of_the_main_path():
    net = build("resnet20", "aps", width=4, blocks=1, size=(8, 8)).eval()
    for module in net.stages.values():
        module.keep_phase = True
    net(torch.randn(5, 3, 8, 8))
    for stage in ("s1", "s2"):
        assert torch.equal(net.stages[stage].phase, net.stages[f"{stage}_shortcut"].phase)


LINEAR = {"head": "flatten", "of_head": {"hidden": 0}, "width": 4}


def airbench(operator, **options):
    return build("airbench", operator, **LINEAR, **options)


def sprint(operator, size=28, padding_mode="zeros", pad_ends=True, **of_pool):
    options = {"channels": 1, "size": (size, size), "padding_mode": padding_mode, "pad_ends": pad_ends}
    return build("sprint", operator, **LINEAR, **options, of_pool=of_pool)


AIRBENCH = 24 + 9 * (24 * 4 + 4 * 4 + 4 * 16 + 3 * 16 * 16) + 2 * 2 * (4 + 16 + 16) + 10 * (16 * 3 * 3 + 1)
SPRINT = 25 * 4 + 9 * 4 * 8 + 9 * 8 * 8 + 2 * (4 + 8 + 8) + 10 * (8 * 3 * 3 + 1)


@pytest.mark.parametrize(
    ("make", "size", "learnt", "maps"),
    [
        (airbench, 32, AIRBENCH, {"s1": (4, 31, 15), "s2": (16, 15, 7), "s3": (16, 7, 3)}),
        (sprint, 28, SPRINT, {"s1": (4, 14, 7), "s2": (8, 7, 3)}),
    ],
)
def test_parameters_and_maps_are_those_of_the_plan(make, size, learnt, maps):
    net, seen = make("max"), {}
    assert count(net) == learnt
    for name, stage in net.stages.items():
        stage.register_forward_hook(lambda m, i, o, name=name: seen.update({name: (i[0].shape, o.shape)}))
    net(torch.zeros(2, 3 if make is airbench else 1, size, size))
    assert seen == {name: ((2, c, a, a), (2, c, b, b)) for name, (c, a, b) in maps.items()}


def test_an_operator_that_keeps_the_resolution_dilates_what_follows():
    for make, expected in ((airbench, [1, 2, 2, 4, 4, 8]), (sprint, [1, 2, 4])):
        convolutions = [m for m in make("none").modules() if isinstance(m, torch.nn.Conv2d)]
        assert [c.dilation[0] for c in convolutions] == expected
    assert sprint("none").feature_size == (14, 14)
    assert sprint("none", pad_ends=False).feature_size == (12 - 8, 12 - 8)


@pytest.mark.parametrize("channels", [1, 3])
def test_patches_come_out_uncorrelated_each_as_large_as_any_other_and_negated(channels):
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
    net, other = airbench("max"), airbench("max")
    net.initialize([(torch.randn(8, 3, 32, 32), torch.zeros(8))])
    other.load_state_dict(net.state_dict())
    assert torch.equal(net.features[0].weight, other.features[0].weight)
    assert not torch.equal(net.features[0].weight, airbench("max").features[0].weight)
    assert not any(p is net.features[0].weight for p in net.parameters())


def test_circular_padding_commutes_with_shifts():
    net = airbench("none", padding_mode="circular").eval()
    x = torch.randn(1, 3, 32, 32)
    a, b = net.features(x.roll((3, 5), (2, 3))), net.features(x).roll((3, 5), (2, 3))
    assert a.shape[-2:] == (32, 32) and torch.allclose(a, b, atol=1e-4)


def test_the_last_convolution_is_padded_if_asked_to_or_larger_than_the_map():
    for size, last in ((28, 1), (48, 3), (24, 2), (13, 1)):
        assert sprint("max", size, pad_ends=False).feature_size == (last, last)
    assert sprint("max", pad_ends=False, kernel_size=2, stride=3).feature_size == (1, 1)
    assert sprint("max").feature_size == (3, 3)


def test_a_border_is_refused_where_there_is_to_be_none():
    with pytest.raises(ValueError, match="pad_ends=False makes borders"):
        sprint("max", padding_mode="circular", pad_ends=False)


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("window", [2, 3])
def test_a_window_as_large_as_the_map_is_the_convolution_that_torch_has(window, memory_format):
    ours = WholeConv2d(3, 5, window).double().to(memory_format=memory_format)
    torchs = torch.nn.Conv2d(3, 5, window, bias=False).double()
    torchs.load_state_dict(ours.state_dict())
    for size in ((2, 2), (3, 3), (5, 4)):
        if min(size) < window:
            continue
        x = torch.randn(4, 3, *size, dtype=torch.float64).to(memory_format=memory_format).requires_grad_()
        y, expected = ours(x), torchs(x)
        assert_close(y, expected)
        g = torch.randn_like(y)
        mine = torch.autograd.grad(y, [x, *ours.parameters()], g)
        theirs = torch.autograd.grad(expected, [x, *torchs.parameters()], g)
        assert_close(mine, theirs)


def test_a_dilated_window_is_no_product_with_the_map():
    ours = WholeConv2d(1, 1, 3, dilation=2)
    assert ours(torch.zeros(1, 1, 5, 5)).shape == (1, 1, 1, 1)
    with pytest.raises(RuntimeError, match="size"):
        ours(torch.zeros(1, 1, 3, 3))
