"""Swapping downsampling and heads: what is replaced by what, what is kept, and what is refused."""

import re
from itertools import product

import pytest
import torch
import torchvision
from torch import nn
from torch.nn.utils import parametrizations
from torch.testing import assert_close

import cnnpool
from cnnpool.model import build
from cnnpool.pool import OPERATORS, AvgPool2d, MaxPool2d, Pool2d, StridedConv2d
from cnnpool.readout import READOUTS, GlobalAvgPool2d, GlobalGeM2d

EXAMPLE = torch.zeros(1, 3, 64, 64)


def images(count=2, size=64):
    return torch.randn(count, 3, size, size)


def small(*, kernel_size=3, stride=2, padding=1, ceil_mode=False):
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.ReLU(),
        nn.MaxPool2d(kernel_size, stride, padding, ceil_mode=ceil_mode),
        nn.Sequential(nn.Conv2d(4, 6, 1, stride=2), nn.AdaptiveAvgPool2d(1)), nn.Flatten(),
        nn.Linear(6, 5)
    )  # fmt: skip


def state(model):
    return {key: value.clone() for key, value in model.state_dict().items()}


@pytest.mark.parametrize("operator", sorted(set(OPERATORS) - {"none"}))
def test_every_operator_stands_in_for_pooling_and_strides_and_trains(operator):
    model, x = small(), images(3, 60)
    changes = cnnpool.swap(model, operator, example=x)
    assert [change.name for change in changes] == ["0", "2", "3.0"]
    model(x).square().sum().backward()
    assert model[0][0].weight.grad.any()


@pytest.mark.parametrize("readout", sorted(set(READOUTS) - {"catavgmax"}))
def test_every_readout_as_long_as_the_channels_stands_in_for_the_head(readout):
    options = {"flatten": {"hidden": 6}, "pyramid": {"levels": (1,)}}.get(readout, {})
    model, x = small(), images()
    (change,) = cnnpool.swap(model, readout, example=x, where="head", **options)
    assert isinstance(change.after[0], READOUTS[readout]) and model(x).shape == (2, 5)


def test_head_is_the_last_global_pooling_and_no_function_nor_that_of_an_attention_block():
    model = torchvision.models.mobilenet_v3_small(weights=None)
    squeezes = [n for n, m in model.named_modules() if isinstance(m, nn.AdaptiveAvgPool2d) and n != "avgpool"]
    assert [c.name for c in cnnpool.swap(model, "gap", example=EXAMPLE)] == ["avgpool"]
    assert [c.name for c in cnnpool.swap(model, "gmp", example=EXAMPLE, where="features")] == squeezes
    with pytest.raises(ValueError, match=r"nothing to replace; .*: none besides any calls of torch.nn.f"):
        cnnpool.swap(torchvision.models.densenet121(weights=None), "gmp", example=EXAMPLE)


def test_window_padding_and_ceil_mode_are_the_originals():
    model, x = small(kernel_size=(3, 2), stride=(2, 3), padding=(1, 0), ceil_mode=True), images()
    before = model(x)
    cnnpool.swap(model, "max", example=EXAMPLE, where="pool")
    assert torch.equal(model(x), before)
    cnnpool.swap(model, "avg", example=EXAMPLE, where="pool")
    assert (model[2].kernel_size, model[2].stride, model[2].padding) == ((3, 2), (2, 3), (1, 0))
    # Padding of a maximum does not darken the average in its place.
    assert torch.equal(model[2](torch.ones(1, 4, 8, 8)), torch.ones_like(model[2](torch.ones(1, 4, 8, 8))))


def test_window_of_an_operator_with_its_own_is_left_to_it_and_to_the_options():
    model = small(kernel_size=2, padding=0)
    cnnpool.swap(model, "strided", example=EXAMPLE, where="pool")
    assert model[2].kernel_size == (3, 3)
    cnnpool.swap(model, "strided", example=EXAMPLE, where="pool", kernel_size=5, activation="none")
    assert model[2].kernel_size == (5, 5) and isinstance(model[2].activation, nn.Identity)


@pytest.mark.parametrize("operator", ["max", "avg", "subsample", "patchify", "avg_conv", "conv_pool"])
def test_output_keeps_its_size_at_odd_and_even_maps(operator):
    windows = [(2, 0, False), (2, 0, True), (3, 0, False), (3, 1, True)]
    for size, (kernel_size, padding, ceil_mode) in product([31, 32, 33, 35, 36], windows):
        model = nn.Sequential(nn.MaxPool2d(kernel_size, 2, padding, ceil_mode=ceil_mode))
        x = images(1, size)
        before = model(x).shape
        cnnpool.swap(model, operator, example=x)
        assert model(x).shape == before, (size, kernel_size, padding, ceil_mode)


@pytest.mark.parametrize("operator", ["max", "subsample", "patchify"])
def test_patches_of_a_stem_are_pooled_over_its_stride(operator):
    model, x = nn.Sequential(nn.Conv2d(3, 4, 4, stride=4)), images()
    dense = nn.functional.conv2d(x, model[0].weight, model[0].bias)
    cnnpool.swap(model, operator, example=EXAMPLE)
    assert model(x).shape == (2, 4, 16, 16)
    if operator == "max":
        assert torch.equal(model(x), nn.functional.max_pool2d(dense, 4, 4, ceil_mode=True))


def test_where_is_a_kind_a_pattern_or_a_predicate():
    kinds = {None: "0 2 3.0", "pool": "2", "conv": "0 3.0", r"^3\.": "3.0"}
    for where, expected in {**kinds, lambda name, module: name != "2": "0 3.0"}.items():
        changes = cnnpool.swap(small(), "avg", example=EXAMPLE, where=where)
        assert [change.name for change in changes] == expected.split()


def test_name_of_both_an_operator_and_a_readout_is_an_operator_unless_the_head_is_meant():
    model = small()
    assert all(isinstance(c.after, Pool2d) for c in cnnpool.swap(model, "gem", example=EXAMPLE, where="pool"))
    (head,) = cnnpool.swap(model, "gem", example=EXAMPLE, where="head")
    assert isinstance(head.after[0], GlobalGeM2d)


def test_pooling_that_keeps_the_size_is_no_downsampling():
    model = nn.Sequential(nn.MaxPool2d(3, stride=1, padding=1), nn.Conv2d(3, 4, 3), nn.MaxPool2d(2))
    assert [change.name for change in cnnpool.swap(model, "avg", example=EXAMPLE)] == ["2"]


def test_operators_of_cnnpool_are_swapped_too_and_found_by_their_stage():
    parts = {"pool": lambda stage, channels: MaxPool2d(channels), "readout": GlobalAvgPool2d}
    model = build("convnet", 1, (28, 28), 10, **parts)
    cnnpool.swap(model, "avg", example=torch.zeros(1, 1, 28, 28))
    assert all(isinstance(pool, AvgPool2d) for pool in model.stages.values())
    assert [m for m in model.features if isinstance(m, Pool2d)] == list(model.stages.values())


class Both(MaxPool2d):
    def forward(self, x):
        return torch.cat([super().forward(x)] * 2, 1)


def test_maps_of_operators_that_a_swap_leaves_or_of_parts_of_one_are_their_own_business():
    model = nn.Sequential(Both(3), nn.Conv2d(6, 4, 3, stride=2, padding=1), nn.MaxPool2d(2))
    for operator in ("reduction", "avg"):
        changes = cnnpool.swap(model, operator, example=EXAMPLE, where="^2")
        assert [change.name for change in changes] == ["2"]
    with pytest.raises(ValueError, match=r"Both returned torch.float32 of shape \(.*\) is due"):
        cnnpool.swap(model, Both, example=EXAMPLE, where="^2")


def test_module_that_stands_in_two_places_is_replaced_in_both():
    pool = nn.MaxPool2d(2)
    model = nn.Sequential(pool, nn.Conv2d(3, 3, 3, padding=1), pool)
    (change,) = cnnpool.swap(model, "avg", example=EXAMPLE)
    assert model[0] is model[2] is change.after


def test_dtype_and_training_mode_are_the_originals():
    model = small().double()
    model[2].eval()
    cnnpool.swap(model, "strided", example=EXAMPLE.double())
    assert model(EXAMPLE.double()).dtype == torch.float64
    assert model.training and model[0].training and not model[2].training


def test_dry_run_leaves_statistics_modes_hooks_and_random_numbers_alone():
    model = nn.Sequential(nn.BatchNorm2d(3), nn.Dropout(), nn.MaxPool2d(2))
    model[0].eval()
    x, before, random = images(), state(model), torch.get_rng_state()
    cnnpool.swap(model, "max", example=x)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random)
    assert (model.training, model[0].training, model[1].training) == (True, False, True)
    assert not any(module._forward_hooks for module in model.modules())


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("maxx", {}, "no operator named 'maxx'; did you mean 'max'"),
        ("max", {"where": "head"}, "no readout named 'max': it is an operator"),
        ("max", {"colour": 1}, "max has no option 'colour'"),
        ("max", {"kernel_size": 0}, "max: kernel_size must be a whole number from 1 to 1,024, .*, got 0"),
        ("none", {}, "none cannot replace 0: makes .*64, 64.* where the original made .*32, 32"),
        ("max", {"stride": 3}, r"max cannot replace 0: makes \[\(21, 21\)\]"),
        ("catavgmax", {}, r"catavgmax cannot replace 3.1: 12 features do not fit .* made for 6"),
        ("max", {"where": "nowhere"}, "nothing to replace where='nowhere'.*: 0, 2, 3.0"),
        ("max", {"where": "("}, "is not a regular expression"),
        ("max", {"order": "first"}, "order must be one of after, before, got 'first'"),
        ("max", {"after": "relu"}, "after must be one of convolution, activation, got 'relu'"),
        ("max", {"order": "before", "after": "activation"}, "after='activation' makes convolutions dense"),
        ("max", {"example": torch.zeros(1, 5, 8, 8)}, r"does not run on an example \(1, 5, 8, 8\)"),
    ],
)
def test_refusal_names_the_fault_and_leaves_the_model_untouched(name, options, message):
    model = small()
    modules, before = list(model.modules()), state(model)
    with pytest.raises(ValueError, match=message):
        cnnpool.swap(model, name, **{"example": EXAMPLE, **options})
    assert list(map(id, model.modules())) == list(map(id, modules))
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert model[0].stride == (2, 2) and model.training


def test_model_is_put_back_when_a_replacement_turns_out_wrong_only_in_the_run(monkeypatch):
    model = small()
    modules = list(map(id, model.modules()))
    monkeypatch.setattr(StridedConv2d, "output_size", lambda self, height, width: (height // 2, width // 2))
    with pytest.raises(ValueError, match=r"strided cannot replace 0: .*\(1, 4, 32, 32\) is due"):
        cnnpool.swap(model, "strided", example=EXAMPLE, kernel_size=5, padding=0)
    assert list(map(id, model.modules())) == modules
    # Where an operator is wrong of its own output.
    monkeypatch.setattr(StridedConv2d, "fault_of", lambda *_: "")
    with pytest.raises(ValueError, match=re.escape("0 returned maps [(4, 32, 32)], its replacement")):
        cnnpool.swap(model, "strided", example=EXAMPLE, kernel_size=5, padding=0)
    assert list(map(id, model.modules())) == modules


@pytest.mark.parametrize("parametrize", [parametrizations.weight_norm, parametrizations.spectral_norm])
def test_parametrized_convolution_keeps_its_parameters_and_function(parametrize):
    model, x = nn.Sequential(parametrize(nn.Conv2d(3, 4, 3, stride=2, padding=1))), images()
    # One batch in training mode moves the power iteration of spectral_norm on.
    model(x)
    before, parameters, buffers = model.eval()(x), list(model.parameters()), state(model)
    model.train()
    cnnpool.swap(model, "subsample", example=EXAMPLE)
    assert model.training and all(module.training for module in model.modules())
    assert all(torch.equal(a, b) for a, b in zip(state(model).values(), buffers.values(), strict=True))
    assert_close(model.eval()(x), before)
    assert [p is q for p, q in zip(model.parameters(), parameters, strict=True)] == [True] * len(parameters)
    model(x).sum().backward()
    assert all(p.grad is not None for p in parameters)


class Minimum2d(Pool2d):
    """A window and a stride, but neither padding nor ceil_mode, as somebody else's operator may be."""

    def __init__(self, channels: int, *, kernel_size: int = 2, stride: int = 2, largest: int = 9):
        super().__init__(channels)
        self.kernel_size, self.stride = (kernel_size, kernel_size), (stride, stride)
        if kernel_size > largest:
            raise ValueError(f"kernel_size={kernel_size} is too large")

    def forward(self, x):
        return -nn.functional.max_pool2d(-x, self.kernel_size, self.stride)


def test_window_without_padding_gets_the_fewest_zeros_that_keep_the_size(monkeypatch):
    monkeypatch.setitem(OPERATORS, "minimum", Minimum2d)
    for kernel_size, padding, added in ((3, 1, 1), (5, 2, 3), (3, 0, 0)):
        model, x = nn.Sequential(nn.MaxPool2d(kernel_size, 2, padding)), images(1, 16)
        cnnpool.swap(model, "minimum", example=x)
        pool = model[0][1] if added else model[0]
        assert pool.kernel_size == (kernel_size, kernel_size)
        assert not added or model[0][0].padding == (0, added, 0, added)
        assert torch.equal(model[0](x), pool(nn.functional.pad(x, (0, added, 0, added))))


def test_model_that_is_itself_the_pooling_has_no_place_for_another():
    with pytest.raises(ValueError, match=r"the model is itself the MaxPool2d .* wrap it"):
        cnnpool.swap(nn.MaxPool2d(2), "avg", example=EXAMPLE)


def test_pooling_that_returns_indices_is_refused_by_name():
    for pool in (nn.MaxPool2d(2, return_indices=True), nn.FractionalMaxPool2d(2, 32, None, True)):
        with pytest.raises(ValueError, match="avg cannot replace 0: it has return_indices=True"):
            cnnpool.swap(nn.Sequential(pool), "avg", example=EXAMPLE)


def test_other_poolings_of_torch_are_replaced_by_their_step():
    x = images(2, 16)
    for before, operator, after in (
        (nn.LPPool2d(2, 2), "max", nn.MaxPool2d(2)),
        (nn.LPPool2d(2, 3, 2, ceil_mode=True), "max", nn.MaxPool2d(3, 2, ceil_mode=True)),
        (nn.FractionalMaxPool2d(3, output_ratio=0.5), "avg", nn.AvgPool2d(2)),
        (nn.AdaptiveMaxPool2d(4), "avg", nn.AvgPool2d(4)),
        (nn.AdaptiveMaxPool2d(4), "adaptive_avg", nn.AdaptiveAvgPool2d(4)),
        (nn.AdaptiveAvgPool2d((8, 4)), "max", nn.MaxPool2d((2, 4))),
        (nn.FractionalMaxPool2d(2, output_size=9), "adaptive_max", nn.AdaptiveMaxPool2d(9)),
    ):
        model, random = nn.Sequential(before), torch.get_rng_state()
        cnnpool.swap(model, operator, example=x)
        assert torch.equal(torch.get_rng_state(), random)
        assert_close(model(x), after(x))


def test_ratio_that_is_no_whole_number_is_kept_by_operators_that_can_and_refused_by_others():
    model = nn.Sequential(nn.FractionalMaxPool2d(2, output_size=9))
    with pytest.raises(ValueError, match=r"max cannot replace 0: .*stride must be a whole .*, got 1\.77"):
        cnnpool.swap(model, "max", example=images(1, 16))
    cnnpool.swap(model, "spectral", example=images(1, 16))
    assert model(images(1, 16)).shape == (1, 3, 9, 9)


class Mixed(nn.Module):
    """Pools by a module, and twice by functions."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.block = Halved()

    def forward(self, x):
        x = nn.functional.max_pool2d(self.block(self.pool(self.conv(x))), 2)
        return nn.functional.adaptive_avg_pool2d(torch.max_pool2d(x, 2), 1)


class Halved(nn.Module):
    def forward(self, x):
        return nn.functional.avg_pool2d(nn.functional.max_pool2d(x, 3, 1, 1), 2)


def test_functional_pooling_that_stays_is_named_in_a_warning(caplog):
    assert [c.name for c in cnnpool.swap(Mixed(), "avg", example=EXAMPLE)] == ["pool"]
    (record,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert record.getMessage() == (
        "avg replaces modules alone; left as they were: 1 call of avg_pool2d in block, "
        "2 calls of max_pool2d in the model itself "
        "(cnnpool.as_modules makes modules of them where forward has no branch)"
    )
    only = "nothing to replace; .*: none besides 1 call of avg_pool2d in the model itself .cnnpool.as_modules"
    with pytest.raises(ValueError, match=only):
        cnnpool.swap(Mixed().block, "avg", example=EXAMPLE)


@pytest.mark.parametrize("part", [False, True])
def test_compiled_model_is_refused_before_anything_runs(part):
    compiled = torch.compile(small(), backend="eager")
    model, name = (nn.Sequential(compiled), "0") if part else (compiled, "the model")
    with pytest.raises(ValueError, match=f"{name} is compiled by torch.compile: swap before compiling"):
        cnnpool.swap(model, "avg", example=EXAMPLE)
    inplace = small()
    inplace.compile(backend="eager")
    with pytest.raises(ValueError, match="swap before compiling"):
        cnnpool.swap(inplace, "avg", example=EXAMPLE)


def test_module_called_through_a_list_is_refused_and_put_back():
    class Listed(nn.Module):
        def __init__(self):
            super().__init__()
            self.p = nn.MaxPool2d(2)
            self.steps = [self.p]

        def forward(self, x):
            return self.steps[0](x)

    model = Listed()
    with pytest.raises(ValueError, match="p is not called through this attribute"):
        cnnpool.swap(model, "avg", example=EXAMPLE)
    assert model.p is model.steps[0]
