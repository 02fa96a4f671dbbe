"""Operators in place of torch's: its signatures, its modules, its samples, timm's ``aa_layer``."""

import inspect
import warnings
from itertools import product

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import fx, nn
from torch.autograd import grad, gradcheck, gradgradcheck
from torch.testing import assert_close

from cnnpool import pool, swap
from cnnpool.probe.windows import stride_of, winner_sums
from cnnpool.registry import options_of

PLACED = {"device": "meta", "dtype": torch.float64}


@pytest.mark.parametrize(
    ("kernels", "dtype"),
    [(True, torch.float64), (False, torch.float32), (False, torch.bfloat16), (None, torch.bfloat16)],
)
def test_indices_are_torchs(dtype, kernels):
    for layout, window in product(
        (torch.contiguous_format, torch.channels_last),
        [(2,), (3, 2, 1), ((2, 3), (1, 2), (1, 0), 2, True), (5, 1, 2)],
    ):
        x = torch.randn(2, 3, 9, 12).round().to(dtype).contiguous(memory_format=layout).requires_grad_()
        with pool.dispatch.use(kernels):
            y, index = pool.max_pool2d(x, *window, return_indices=True)
            expected, theirs = F.max_pool2d(x, *window, return_indices=True)
            assert_close((y, index), (expected, theirs), rtol=0, atol=0, check_stride=True)
            if x.dtype != torch.bfloat16:
                assert torch.equal(grad(y.sum(), x)[0], grad(expected.sum(), x)[0])


def test_unpooling_by_indices_and_by_winners_is_torchs():
    x = torch.randn(2, 3, 9, 12, dtype=torch.float64)
    for window in [(2,), (3, 2, 1), (2, 3), ((3, 2), (2, 3))]:
        y, index = F.max_pool2d(x, *window, return_indices=True)
        winners = pool.max_pool2d_with_winners(x, *window)[1]
        theirs = F.max_unpool2d(y, index, *window, output_size=(9, 12))
        # The same places in wider integers than the kernels read.
        for places in (index, winners, winners.short(), winners.int()):
            assert torch.equal(pool.max_unpool2d(y, places, *window, output_size=(9, 12)), theirs)
            last = y.contiguous(memory_format=torch.channels_last)
            back = pool.max_unpool2d(last, places, *window, output_size=(9, 12))
            assert torch.equal(back, theirs) and back.is_contiguous(memory_format=torch.channels_last)
            assert torch.equal(pool.max_unpool2d(y[0], places[0], *window, output_size=(2, 9, 12)), theirs[0])


def test_of_several_maxima_from_one_place_the_last_stands_and_gets_the_gradient():
    x = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]], dtype=torch.float64, requires_grad=True)
    at = torch.tensor([[[[5, 5], [0, 5]]]])
    y = pool.max_unpool2d(x, at, 2)
    assert y.flatten()[[0, 5]].tolist() == [3.0, 4.0] and y.sum() == 7
    assert grad(y.sum(), x)[0].flatten().tolist() == [0.0, 0.0, 1.0, 1.0]
    assert gradcheck(lambda x: pool.max_unpool2d(x, at, 2), x, check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(lambda x: pool.max_unpool2d(x, at, 2).square(), x)


def test_arguments_have_torchs_names_and_order():
    for name, theirs in (
        ("max_pool2d", "input kernel_size stride padding dilation ceil_mode return_indices"),
        ("avg_pool2d", "input kernel_size stride padding ceil_mode count_include_pad divisor_override"),
        ("lp_pool2d", "input norm_type kernel_size stride ceil_mode"),
        ("max_unpool2d", "input indices kernel_size stride padding output_size"),
    ):
        ours = inspect.signature(getattr(pool, name)).parameters.values()
        positional = [p.name for p in ours if p.kind is p.POSITIONAL_OR_KEYWORD]
        assert positional == theirs.split(), name


def test_modules_take_device_and_dtype_and_work_on_meta(stem):
    with torch.device("meta"):
        within = pool.OPERATORS[stem](4).to(torch.float64)
    for operator in (pool.OPERATORS[stem](4, **PLACED), within):
        held = [*operator.parameters(), *operator.buffers()]
        assert all(t.is_meta for t in held)
        assert all(t.dtype == torch.float64 for t in held if t.is_floating_point())
        y = operator(torch.empty(2, 4, 8, 8, **PLACED))
        assert y.is_meta and y.dtype == torch.float64
    assert {"device", "dtype"}.isdisjoint(inspect.signature(pool.OPERATORS[stem]).parameters)


def test_an_operator_like_torchs_module_is_that():
    x = torch.rand(2, 3, 13, 15, dtype=torch.float64)
    for theirs in (
        *(nn.MaxPool2d(3), nn.MaxPool2d(3, 2, 1), nn.MaxPool2d((2, 3), 1, 0, (1, 2), ceil_mode=True)),
        *(nn.AvgPool2d(3), nn.AvgPool2d(3, 2, 1, True, False), nn.AvgPool2d(2, divisor_override=3)),
        *(nn.LPPool2d(2, 3, 2), nn.LPPool2d(3.0, 2)),
        *(nn.AdaptiveAvgPool2d((3, 5)), nn.AdaptiveMaxPool2d(3)),
    ):
        name = type(theirs).__name__.replace("LPPool", "LpPool")
        ours = getattr(pool, name).like(theirs)
        assert_close(ours(x), theirs(x), rtol=1e-12, atol=1e-12)


def test_what_stands_for_an_integer_is_one():
    x, two = torch.rand(2, 3, 8, 8), np.int64(2)
    assert torch.equal(pool.max_pool2d(x, two, [], np.int32(1)), F.max_pool2d(x, 2, padding=1))
    assert_close(pool.avg_pool2d(x, torch.tensor(2), two), F.avg_pool2d(x, 2))
    assert pool.build("max", 3, kernel_size=two, stride=(two,)).stride == (2, 2)
    for theirs in (nn.MaxPool2d(two), nn.MaxPool2d((3,), (2,), (1,)), nn.MaxPool2d(2, [])):
        assert torch.equal(pool.MaxPool2d.like(theirs)(x), theirs(x))
        assert stride_of(theirs) == (2, 2) and winner_sums(x, theirs)[-1, 0] == 2 * 3 * 16
        network = nn.Sequential(nn.Identity(), theirs)
        swap(network, "max", example=x)
        assert torch.equal(network(x), theirs(x))
    with warnings.catch_warnings():
        # Of tracing as such, and of checks that hold for the size at hand.
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(lambda x: pool.avg_pool2d(x, x.size(2)), x)
        assert torch.equal(traced(x[..., :4, :4]), F.avg_pool2d(x[..., :4, :4], 4))


def test_powers_of_negative_values_are_torchs():
    x = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    for p in (1.0, 2.0, 2.5, 3.0, 5.0):
        expected = F.lp_pool2d(x, p, 3, 2)
        assert expected.isnan().any() == (p > 2)
        assert_close(pool.lp_pool2d(x, p, 3, 2), expected, equal_nan=True)
        assert_close(pool.LpPool2d.like(nn.LPPool2d(p, 3, 2))(x), expected, equal_nan=True)
    signed = torch.tensor([[[[-0.5, 2.0], [1.0, 0.3]]]], dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda x: pool.lp_pool2d(x, 3, 2), signed, check_forward_ad=True)


def test_like_refuses_other_modules_and_what_operators_cannot_do():
    with pytest.raises(TypeError, match=r"torch\.nn\.MaxPool2d, got AvgPool2d"):
        pool.MaxPool2d.like(nn.AvgPool2d(2))
    with pytest.raises(ValueError, match="return_indices=True"):
        pool.MaxPool2d.like(nn.MaxPool2d(2, return_indices=True))
    with pytest.raises(ValueError, match="fixed output size"):
        pool.AdaptiveAvgPool2d.like(nn.AdaptiveAvgPool2d((None, 3)))
    assert "MaxPool2d.like" in pool.MaxPool2d.__doc__ and "AvgPool2d.like" in pool.AvgPool2d.__doc__


@pytest.mark.parametrize("name", ["Max", "Avg", "Lp", "Blur", "MaxBlur"])
def test_a_sequence_is_a_map_of_equal_rows(name):
    x, kind = torch.rand(2, 3, 16, dtype=torch.float64), getattr(pool, f"{name}Pool2d")
    operator = pool.Pool1d(kind, 3, dtype=torch.float64)
    rows = kind(3)(x.unsqueeze(2).expand(-1, -1, 16, -1))
    assert_close(operator(x), rows[:, :, 2], rtol=1e-12, atol=1e-12)
    assert torch.equal(operator(x[0]), operator(x)[0])
    assert operator(x).shape[-1] == operator.output_size(16) == 8
    with pytest.raises(ValueError, match="sequences"):
        operator(torch.rand(1, 3, 4, 4))


def test_every_weight_of_an_operator_for_sequences_learns():
    refused, x = set(), torch.randn(4, 4, 64, requires_grad=True)
    for name, kind in pool.OPERATORS.items():
        try:
            operator = pool.Pool1d(kind, 4)
        except ValueError as error:
            assert "\n" not in str(error)
            refused.add(name)
            continue
        for parameter in operator.parameters():
            nn.init.normal_(parameter)
        operator(x).square().sum().backward()
        # Two bands of DiffStride are one per axis.
        dead = [p.shape for p in operator.parameters() if (p.grad == 0).all(0).any() and name != "diffstride"]
        assert not dead, (name, dead)
    assert refused == {"fractional_max", "haar", "lift", "lip", "none", "wavelet"}


def test_an_adaptive_operator_makes_sequences_of_its_output_size():
    x = torch.randn(2, 3, 32)
    for name in ("Avg", "Max"):
        theirs = getattr(nn, f"Adaptive{name}Pool1d")(16)
        operator = pool.Pool1d(getattr(pool, f"Adaptive{name}Pool2d"), 3, output_size=16)
        assert_close(operator(x), theirs(x))
        assert operator.output_size(32) == 16
        network = nn.Sequential(nn.MaxPool1d(2), nn.Conv1d(3, 3, 3))
        swap(network, f"adaptive_{name.lower()}", example=x, output_size=16)
        assert_close(network[0](x), theirs(x))


# A small model of families that take ``aa_layer``.
TIMM = {
    "densenet": ("densenet121", {"growth_rate": 4, "block_config": (1, 1, 1, 1)}),
    "efficientnet": ("test_efficientnet", {}),
    "mobilenetv3": ("lcnet_035", {}),
    "res2net": ("res2net50_14w_8s", {"layers": (1, 1, 1, 1)}),
    "resnet": ("test_resnet", {}),
}


def of_timm(family, operator, **more):
    timm = pytest.importorskip("timm")
    arch, options = TIMM[family]
    more = more or {"num_classes": 3}
    return timm.create_model(arch, aa_layer=operator, **options, **more).eval()


@pytest.mark.slow
@pytest.mark.parametrize("family", TIMM)
def test_a_family_of_timm_computes_with_our_blur_what_it_does_with_its_own(family):
    layers = pytest.importorskip("timm.layers")
    model, x = of_timm(family, pool.BlurPool2d), torch.randn(1, 3, 64, 64)
    found = [module for module in model.modules() if isinstance(module, pool.BlurPool2d)]
    assert found and all(module.channels != 2 and module.stride == (2, 2) for module in found)
    with torch.no_grad():
        y = model(x)
        assert y.shape == (1, 3)
        if family == "mobilenetv3":
            # timm tells its layers another number of channels than it passes, so that its own fail.
            return
        theirs = of_timm(family, layers.BlurPool2d)
        theirs.load_state_dict(model.state_dict(), strict=False)
        assert_close(y, theirs(x), rtol=1e-3, atol=1e-4)


def is_free(operator):
    """Whether it has no weights, nor counts by channel, of which timm's mobilenetv3 passes a wrong number."""
    return not [*operator.parameters()] and not operator.fixed_channels


# One that keeps the size cannot stand where timm downsamples.
PARAMETER_FREE = [stem for stem in pool.OPERATORS if stem != "none" and is_free(pool.OPERATORS[stem](4))]


@pytest.mark.parametrize("name", PARAMETER_FREE)
def test_a_network_of_timm_trains_with_an_operator_without_parameters(name):
    model = of_timm("resnet", pool.OPERATORS[name]).train()
    model(torch.randn(2, 3, 64, 64)).square().sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
    assert model.conv1[0].weight.grad.count_nonzero()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["aps", "blur", "lip", "max_blur", "soft", "strided"])
@pytest.mark.parametrize("family", ["resnet", "efficientnet"])
def test_an_operator_passes_timms_tests_of_its_models(family, name):
    x = torch.randn(2, 3, 64, 64)
    model = of_timm(family, pool.OPERATORS[name])
    expected = model(x)
    assert expected.shape == (2, 3) and expected.isfinite().all()
    model.train()(x).mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    for kind in ("hook", "getter", "fx"):
        features = of_timm(family, pool.OPERATORS[name], features_only=True, feature_cls=kind)
        maps = features(x)
        assert [y.shape[1] for y in maps] == features.feature_info.channels()
        assert [64 // y.shape[2] for y in maps] == features.feature_info.reduction()
    graph = fx.symbolic_trace(model.eval())
    assert_close(graph(x), model(x))
    assert sum(isinstance(module, pool.OPERATORS[name]) for module in graph.modules()) > 2


OWN_WEIGHTS = [stem for stem in pool.OPERATORS if pool.OPERATORS[stem](4).fixed_channels]
WITH_PER = [stem for stem, operator in pool.OPERATORS.items() if "per" in options_of(operator)]
BY_CHANNEL = [stem for stem in WITH_PER if stem not in OWN_WEIGHTS]


@pytest.mark.parametrize("name", OWN_WEIGHTS)
def test_another_number_of_channels_than_the_weights_have_is_refused(name):
    for channels in (1, 3, 8):
        with pytest.raises(ValueError, match=rf"2d was made for 4 channels, got {channels}: input of shape"):
            pool.OPERATORS[name](4)(torch.zeros(2, channels, 8, 8))


@pytest.mark.parametrize("name", BY_CHANNEL)
def test_weights_for_the_whole_layer_take_any_channels_and_weights_by_channel_only_theirs(name):
    whole, single = pool.OPERATORS[name](4, per="layer"), pool.OPERATORS[name](4, per="channel")
    for channels in (1, 3, 4):
        assert whole(torch.rand(1, channels, 8, 8)).shape[1] == channels
    assert single(torch.rand(1, 4, 8, 8)).shape[1] == 4
    with pytest.raises(ValueError, match="was made for 4 channels, got 1"):
        single(torch.rand(1, 1, 8, 8))


def test_every_operator_with_weights_by_channel_is_known():
    # One whose state grows with the channels must say that they belong to these.
    for stem, operator in pool.OPERATORS.items():
        few, many = (sum(t.numel() for t in operator(c).state_dict().values()) for c in (4, 8))
        assert (few != many) == (stem in OWN_WEIGHTS), stem
