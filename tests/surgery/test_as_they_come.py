"""Networks as people write them: windows of stride 1, heads, positional arguments, hooks, keywords."""

from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import cnnpool
from cnnpool.pool import AvgPool2d, MaxPool2d
from cnnpool.probe import build
from cnnpool.readout import GlobalGeM2d
from cnnpool.surgery.stages import stages_of


def images(size=8):
    return torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(0))


def network(pooling, channels=4):
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, channels, 3, padding=1), pooling)


@pytest.mark.parametrize(
    ("pooling", "operator"),
    [
        (nn.MaxPool2d(3, 1), MaxPool2d),
        (nn.MaxPool2d(2, 1, dilation=2), MaxPool2d),
        (nn.MaxPool2d((3, 1), 1), MaxPool2d),
        (nn.AvgPool2d(5, 1), AvgPool2d),
    ],
)
def test_a_window_of_stride_1_is_kept(pooling, operator):
    model, x = network(pooling), images()
    expected = model(x)
    cnnpool.swap(model, "max" if operator is MaxPool2d else "avg", example=x)
    assert type(model[1]) is operator and torch.equal(model(x), expected)


def test_a_window_fitted_to_odd_maps_makes_even_ones_no_larger_than_the_original_did():
    model = nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1))
    dense = nn.Conv2d(3, 4, 3, 1, 1)
    dense.load_state_dict(model[0].state_dict())
    cnnpool.swap(model, "max", example=images(9), kernel_size=3)
    assert torch.equal(model(images(8)), F.max_pool2d(dense(images(8)), 3, 2, 1))


@pytest.mark.parametrize("pooling", [nn.AvgPool2d(8, 1), nn.AvgPool2d(8), nn.MaxPool2d(8, 3)])
def test_a_window_over_the_whole_map_is_a_head(pooling):
    x = images()
    model = nn.Sequential(nn.Conv2d(3, 4, 3, 1, 1), nn.MaxPool2d(2, 1), nn.Conv2d(4, 4, 2, 1, 1), pooling)
    model.append(nn.Flatten())
    expected = model(x)
    assert list(stages_of(model, x)) == ["1"]
    (change,) = cnnpool.swap(model, "max", example=x)
    assert change.name == "1" and torch.equal(model(x), expected)
    (head,) = cnnpool.swap(model, "gem", example=x, where="head")
    assert head.name == "3" and isinstance(head.after[0], GlobalGeM2d) and model(x).shape == expected.shape


class Positional(nn.Module):
    def forward(self, x):
        x = torch.max_pool2d(x, 3, 1, 0, 1, True)
        x = F.max_pool2d(input=x, kernel_size=2, stride=2)
        x, _ = F.max_pool2d(x, 2, 1, 0, 1, False, True)
        x = F.avg_pool2d(x, 3, 2, 1, True, False)
        return F.adaptive_max_pool2d(x, (1, 1), False)


def test_positional_arguments_of_calls_keep_their_meaning():
    x = torch.randn(2, 3, 21, 21)
    made = cnnpool.as_modules(Positional())
    assert torch.equal(made(x), Positional()(x))
    assert made.max_pool2d.ceil_mode and not made.avg_pool2d.count_include_pad
    assert made.max_pool2d_2.kernel_size == 2 and not hasattr(made, "max_pool2d_3")


@pytest.mark.parametrize("order", ["after", "before"])
def test_hooks_move_to_the_replacement(order):
    x = images(16)
    model = nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.ReLU(), nn.MaxPool2d(2))
    seen, plain = [], model[0](x).shape
    handles = [
        model[0].register_forward_hook(lambda module, args, output: seen.append(output.shape)),
        model[0].register_forward_pre_hook(lambda module, args: seen.append(args[0].shape)),
        model[2].register_forward_hook(lambda module, args, named, out: out * 0, with_kwargs=True),
        model[2].register_full_backward_hook(lambda module, into, out: seen.append("backward")),
    ]
    cnnpool.swap(model, "blur", example=x, order=order)
    seen.clear()
    y = model(x.requires_grad_())
    assert seen == [x.shape, plain] and not y.any()
    y.sum().backward()
    assert seen[2:] == ["backward"]
    for handle in handles:
        handle.remove()
    seen.clear()
    assert model(x).any() and not seen


def test_a_swap_that_is_undone_by_hand_has_its_hooks_again():
    model, seen = nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1)), []
    model[0].register_forward_hook(lambda module, args, output: seen.append(module))
    for change in cnnpool.swap(model, "blur", example=images(16)):
        model.set_submodule(change.name, change.before)
    seen.clear()
    model(images(16))
    assert seen == [model[0]]


def test_the_hook_that_normalises_weights_stays_with_the_convolution():
    conv = nn.utils.spectral_norm(nn.Conv2d(3, 4, 3, 2, 1)).eval()
    model, x, seen = nn.Sequential(conv), images(16), []
    model[0].register_forward_hook(lambda module, args, output: seen.append(output.shape))
    expected = model(x)
    cnnpool.swap(model, "subsample", example=x)
    seen.clear()
    with torch.no_grad():
        conv.weight_orig.mul_(0.5)
    # Normalised again, so that the scale does not matter.
    torch.testing.assert_close(model(x), expected)
    assert seen == [expected.shape]


class Observed(nn.Conv2d):
    """Its hook calls it, as that of torch's quantisation does."""

    def __init__(self, *args):
        super().__init__(*args)
        self.handle = self.register_forward_hook(lambda module, args, y: module.doubled(y))

    def doubled(self, y):
        return 2 * y


@pytest.mark.parametrize("order", ["after", "before"])
def test_a_module_whose_hook_fails_on_the_replacement_is_refused_and_keeps_its_hooks(order):
    conv = nn.utils.spectral_norm(Observed(3, 4, 3, 2)).eval()
    model, x = nn.Sequential(conv, nn.ReLU(), nn.MaxPool2d(2)), images(16)
    expected, layers = model(x), list(model.modules())
    message = r"blur cannot replace 0: .* 'InPlaceOf' .* 'doubled'; leave it out by where="
    with pytest.raises(ValueError, match=message):
        cnnpool.swap(model, "blur", example=x, order=order)
    assert list(model.modules()) == layers and torch.equal(model(x), expected)
    conv.handle.remove()
    assert torch.equal(2 * model(x), expected)
    # And a hook of the backward pass.
    conv.register_full_backward_hook(lambda module, into, out: (module.doubled(into[0]),))
    with pytest.raises(ValueError, match=r"blur cannot replace 0: .* no gradient: .* 'doubled'"):
        cnnpool.swap(model, "blur", example=x, order=order)


class Keyword(nn.Module):
    def __init__(self, pooling=None):
        super().__init__()
        self.conv, self.pool = nn.Conv2d(3, 4, 3, 2, 1), pooling or nn.MaxPool2d(2)
        self.head, self.linear = nn.AdaptiveAvgPool2d(1), nn.Linear(4, 5)

    def forward(self, x):
        maps = self.pool(input=F.relu(self.conv(input=x)))
        return self.linear(input=self.head(input=maps).flatten(1))


def test_modules_called_by_keyword_are_swapped_and_measured():
    model, x, labels = Keyword(), images(16), torch.tensor([0, 1])
    expected = model(x)
    assert list(stages_of(model, x)) == ["conv", "pool"]
    for name in ("gradient", "invariance", "aliasing", "cost"):
        found = build(name).measure(model, {"pool": model.pool}, x, labels)
        assert found if name != "gradient" else found["pool"]["zero_fraction"] >= 0.75
    changes = cnnpool.swap(model, "subsample", example=x, where="conv")
    assert [change.name for change in changes] == ["conv"]
    torch.testing.assert_close(model(x), expected)
    cnnpool.swap(model, "max", example=x, where="^pool$")
    cnnpool.swap(model, "gap", example=x, where="head")
    torch.testing.assert_close(model(x), expected)


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.pool = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 8, 1), nn.MaxPool2d(2)

    def forward(self, x):
        return self.pool(self.second(self.pool(self.first(x))))


class Two(nn.Module):
    def forward(self, x, y):
        return F.max_pool2d(x + y, 2)


@pytest.mark.parametrize(
    ("model", "example", "message"),
    [
        (Two(), images(), r"does not run on an example \(2, 3, 8, 8\): TypeError: .*'y'"),
        (
            Keyword(),
            {"x": images()},
            r"must be a tensor, images \(N, C, H, W\), .*, got a dict: give the part",
        ),
        (Keyword(), None, r"example must be .*, got a NoneType$"),
        (Keyword(), images()[0], r"example must be .*, got \(3, 8, 8\)"),
        (Keyword(), torch.zeros(1, 3, 8, 8, 8), r"does not run on an example \(1, 3, 8, 8, 8\)"),
        (Keyword(), torch.zeros(3, 8), r"example must be .*, got \(3, 8\)"),
        (Keyword(), torch.zeros(0, 3, 16, 16), r"example must be .*, got \(0, 3, 16, 16\)"),
        (nn.Sequential(nn.Conv2d(3, 4, 3, 2)).to("meta"), images(), r"replace 0: .* of meta tensor"),
        (torch.export.export(nn.MaxPool2d(2), (images(),)).module(), images(), "eval.. is not supported yet"),
        (torch.nn.functional.relu, images(), r"the model must be a torch.nn.Module, got a function"),
    ],
)
def test_what_cannot_be_swapped_is_refused_in_a_line(model, example, message):
    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    with pytest.raises(ValueError, match=message) as refused:
        cnnpool.swap(model, "avg", example=example)
    assert "\n" not in str(refused.value)
    assert not modules or list(model.modules()) == modules


def test_a_module_of_several_channel_numbers_takes_what_serves_them_all():
    model, x = Shared(), images(16)
    expected = model(x)
    with pytest.raises(ValueError, match=r"strided cannot replace pool: .* 4, 8 channels"):
        cnnpool.swap(model, "strided", example=x)
    cnnpool.swap(model, "max", example=x)
    assert torch.equal(model(x), expected)


class Reads(nn.Module):
    """A network that looks at its layers' attributes, as MobileNet and ViT in transformers do."""

    def __init__(self):
        super().__init__()
        self.conv, self.pool = nn.Conv2d(3, 4, 3, 2), nn.MaxPool2d(2)

    def forward(self, x):
        x = nn.functional.pad(x, [0, self.conv.stride[0] - 1] * 2).to(self.conv.weight.dtype)
        return self.pool(self.conv(x)) * self.conv.out_channels / self.pool.kernel_size


@pytest.mark.parametrize("order", ["after", "before"])
def test_attributes_of_a_convolution_are_there_and_those_an_operator_lacks_are_named(order):
    x, model = torch.randn(1, 3, 16, 16), Reads()
    expected = model(x)
    cnnpool.swap(model, "subsample", example=x, where="conv", order=order)
    assert order == "before" or torch.allclose(model(x), expected, atol=1e-6)
    assert model.conv.bias is next(p for n, p in model.conv.named_parameters() if n.endswith("bias"))
    # Another weight goes to the convolution.
    model.conv.weight, model.conv.bias = nn.Parameter(torch.zeros_like(model.conv.weight)), None
    assert len(list(model.parameters())) == 1 and not model(x).any()
    before = repr(model)
    with pytest.raises(ValueError, match=r"blur cannot replace pool: .*kernel_size'; leave it out by where="):
        cnnpool.swap(model, "blur", example=x, where="pool")
    assert repr(model) == before


def test_a_refused_swap_leaves_lazy_modules_lazy():
    model = nn.Sequential(nn.LazyConv2d(4, 3, 2), nn.MaxPool2d(2), nn.Flatten(), nn.LazyLinear(2))
    before, x = repr(model), torch.randn(1, 3, 16, 16)
    with pytest.raises(ValueError, match="cannot replace"):
        cnnpool.swap(model, "max", example=x, kernel_size=64)
    assert repr(model) == before
    cnnpool.swap(model, "blur", example=x)
    assert model(x).shape == (1, 2)


@pytest.mark.parametrize("operator", ["strided", "depthwise", "max", "blur"])
def test_a_layer_in_place_behind_an_operator_leaves_its_gradient_alone(operator):
    torch.manual_seed(0)
    x = torch.randn(2, 3, 16, 16)
    model = nn.Sequential(nn.Conv2d(3, 4, 3, 2), nn.ReLU(inplace=True), nn.Conv2d(4, 4, 3))
    cnnpool.swap(model, operator, example=x)
    model(x).square().sum().backward()
    got = model[0][0].weight.grad.clone()
    model.zero_grad()
    model[1].inplace = False
    model(x).square().sum().backward()
    torch.testing.assert_close(got, model[0][0].weight.grad)


class Overwriting(nn.Module):
    """Its backward reads the output, and a layer in place behind it changes."""

    def forward(self, x):
        return x[..., ::2, ::2].exp()


def test_a_network_that_loses_its_gradient_by_a_swap_is_refused(monkeypatch):
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.MaxPool2d(2), nn.ReLU(inplace=True))
    monkeypatch.setattr(cnnpool.pool.AvgPool2d, "forward", lambda self, x: Overwriting()(x))
    before = repr(model)
    message = "avg cannot replace 1: the network then has no gradient: .*modified by an inplace"
    with pytest.raises(ValueError, match=message):
        cnnpool.swap(model, "avg", example=torch.randn(1, 3, 18, 18))
    assert repr(model) == before and all(p.grad is None for p in model.parameters())


def test_weights_keep_their_type_under_autocast_whether_refused_or_not():
    class Casting(nn.Sequential):
        def forward(self, x):
            with torch.autocast("cpu", torch.bfloat16):
                return super().forward(x)

    conv, x, meanwhile = nn.Conv2d(4, 4, 3, 2), images(16), torch.autocast("cpu", torch.bfloat16)
    parts = nn.Conv2d(3, 4, 3), conv, nn.AvgPool2d(2)
    with meanwhile, pytest.raises(ValueError, match="2: it has return_indices"):
        cnnpool.swap(nn.Sequential(*parts[:2], nn.MaxPool2d(2, return_indices=True)), "blur", example=x)
    assert conv.weight.dtype == torch.float32
    for model, context in ((Casting(*parts), nullcontext()), (nn.Sequential(*parts), meanwhile)):
        with context:
            assert [change.name for change in cnnpool.swap(model, "conv_pool", example=x)] == ["1", "2"]
            assert model(x).dtype == torch.bfloat16
        assert {p.dtype for p in model.parameters()} == {torch.float32}


def test_a_function_that_makes_an_operator_serves_networks_of_any_type():
    class Halving(nn.Conv2d):
        def output_size(self, height, width):
            return height // 2, width // 2

    def mine(channels):
        return Halving(channels, channels, 1, 2)

    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.MaxPool2d(2)).double()
    cnnpool.swap(model, mine, example=images(16).double())
    assert model(images(16).double()).dtype == torch.float64


class Tables(nn.Module):
    """A table ``stages`` of settings."""

    def __init__(self):
        super().__init__()
        self.stages, self.pool = {"res2": [8, 1]}, nn.MaxPool2d(2)

    def forward(self, x):
        return self.pool(x)


def test_a_table_of_stages_may_hold_other_things():
    model = Tables()
    cnnpool.swap(model, "avg", example=images())
    assert isinstance(model.pool, AvgPool2d) and model.stages == {"res2": [8, 1]}


def test_integer_maps_are_pooled():
    model, x = nn.Sequential(nn.MaxPool2d(2)), (10 * images().abs()).to(torch.uint8)
    expected = model(x)
    cnnpool.swap(model, "max", example=x)
    assert torch.equal(model(x), expected)
