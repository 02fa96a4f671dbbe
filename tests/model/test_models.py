import pytest
import torch

from cnnpool import model, pool, readout
from cnnpool.model import MODELS


def build(name, operator="max", *, channels=3, size=(32, 32), head="gap", operator_options=None, **options):
    return model.build(
        name,
        channels,
        size,
        10,
        pool=lambda stage, c: pool.build(operator, c, **(operator_options or {})),
        readout=lambda c, s: readout.build(head, c, s),
        **options,
    )


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
        net = build(name, size=(28, 28), operator_options=options, head="flatten", **small(name))
        assert net(torch.zeros(1, 3, 28, 28)).shape == (1, 10)


def test_images_too_small_name_the_stage_the_operator_and_the_sizes():
    with pytest.raises(ValueError, match=r"stage s3 \(MaxPool2d\): a 1x1 map .*images are 9x9"):
        build("vgg", size=(9, 9), operator_options={"kernel_size": 3})


def test_the_dry_run_leaves_no_hooks_and_training_mode():
    net = build("convnet")
    assert net.training and all(m.training for m in net.modules())
    assert not any(m._forward_pre_hooks for m in net.modules())


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
    torch.manual_seed(0)
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
    torch.manual_seed(0)
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
    torch.manual_seed(0)
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
