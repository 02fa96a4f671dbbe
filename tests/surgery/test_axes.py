"""Pooling and strided convolutions of networks of sequences and volumes, against torch and sums by hand."""

import itertools

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import cnnpool
from cnnpool.pool import AvgPool2d, BlurPool2d, MaxPool2d, Pool1d, Pool3d
from cnnpool.surgery.stages import stages_of


class UNet3d(nn.Module):
    """Two resolutions down and up, with a skip at each, as for scans."""

    def __init__(self, pooling=lambda: nn.MaxPool3d(2)):
        super().__init__()
        self.first, self.second = nn.Conv3d(1, 3, 3, padding=1), nn.Conv3d(3, 4, 3, padding=1)
        self.down1, self.down2 = pooling(), nn.AvgPool3d(3, (1, 2, 2), 1, count_include_pad=False)
        self.up2, self.up1 = nn.ConvTranspose3d(4, 4, (1, 2, 2), (1, 2, 2)), nn.Upsample(scale_factor=2)
        self.join, self.last = nn.Conv3d(7, 4, 1), nn.Conv3d(7, 2, 3, padding=1)

    def forward(self, x):
        first = F.relu(self.first(x))
        half = self.down1(first)
        second = F.relu(self.second(half))
        second = self.join(torch.cat([self.up2(self.down2(second)), half], 1))
        return self.last(torch.cat([self.up1(second), first], 1))


def audio():
    """A network of raw sound: a long strided convolution, then convolutions and pooling."""
    return nn.Sequential(
        *(nn.Conv1d(1, 4, 16, 4, 6), nn.BatchNorm1d(4), nn.ReLU(), nn.MaxPool1d(4)),
        *(nn.Conv1d(4, 6, 3, padding=1), nn.ReLU(), nn.MaxPool1d(3, 2, 1)),
        nn.AvgPool1d(3, 2, ceil_mode=True),
        *(nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(6, 5)),
    ).eval()


def scan():
    return torch.randn(2, 1, 6, 8, 12)


def sound():
    return torch.randn(2, 1, 515)


def blurred(x, taps, stride):
    """Each output a sum by hand over its window in float64, mirrored past the edges; taps of the axes."""
    x = x.double()
    lines = {1: [1.0], 3: [0.25, 0.5, 0.25]}

    def inside(place, length):
        place = abs(place)
        return 2 * (length - 1) - place if place >= length else place

    size = x.shape[2:]
    y = x.new_zeros(*x.shape[:2], *(-(-n // s) for n, s in zip(size, stride, strict=True)))
    for place in itertools.product(*map(range, y.shape[2:])):
        for cell in itertools.product(*map(range, taps)):
            weight, where = 1.0, []
            for k, c, p, s, n in zip(taps, cell, place, stride, size, strict=True):
                weight *= lines[k][c]
                where.append(inside(p * s + c - k // 2, n))
            y[(..., *place)] += weight * x[(..., *where)]
    return y


def test_pooling_of_volumes_is_found_and_kept_by_the_same_operator():
    model, x = UNet3d(), scan()
    expected = model(x)
    assert list(stages_of(model, x)) == ["down1", "down2"]
    changes = cnnpool.swap(model, "max", example=x, where="down1")
    assert [change.name for change in changes] == ["down1"] and isinstance(model.down1, Pool3d)
    assert torch.equal(model(x), expected)
    cnnpool.swap(model, "avg", example=x, where="down2")
    torch.testing.assert_close(model(x), expected)
    # Operators that were swapped in can be swapped again.
    cnnpool.swap(model, "max", example=x)
    assert torch.equal(model.down1(x), F.max_pool3d(x, 2))
    assert torch.equal(model.down2(x), F.max_pool3d(x, 3, (1, 2, 2), 1))


def test_blurs_of_volumes_are_sums_over_whole_windows():
    model, x = UNet3d(), scan()
    changes = cnnpool.swap(model, "blur", example=x)
    maps = torch.randn(1, 3, 4, 5, 6, dtype=torch.float64)
    assert [change.name for change in changes] == ["down1", "down2"]
    assert stages_of(model, x, changes) == {"down1": model.down1, "down2": model.down2}
    torch.testing.assert_close(model.down1(maps), blurred(maps, (3, 3, 3), (2, 2, 2)), rtol=0, atol=1e-12)
    # Along an axis that keeps its length nothing is filtered.
    torch.testing.assert_close(model.down2(maps), blurred(maps, (1, 3, 3), (1, 2, 2)), rtol=0, atol=1e-12)
    cnnpool.swap(model, "blur", example=x, filter_size=(3, 1, 3))
    torch.testing.assert_close(model.down2(maps), blurred(maps, (3, 1, 3), (1, 2, 2)), rtol=0, atol=1e-12)
    assert model(x).shape == (2, 2, 6, 8, 12)


@pytest.mark.parametrize("order", ["after", "before"])
def test_strided_convolutions_of_volumes_are_their_dense_form_subsampled(order):
    x = torch.randn(1, 2, 5, 9, 9)
    model = nn.Sequential(nn.Conv3d(2, 3, 3, (1, 2, 2), 1, bias=False), nn.ReLU())
    expected = model(x)
    cnnpool.swap(model, "subsample", example=x, order=order)
    torch.testing.assert_close(model(x), expected)


def test_maxima_and_means_of_volumes_are_torchs():
    x = torch.randint(0, 4, (2, 3, 6, 7, 9)).double().requires_grad_()
    windows = [(2, 2, 0), (3, 2, 1), ((1, 2, 2), None, 0), ((2, 3, 4), (2, 1, 3), (1, 1, 2))]
    for window, ceil_mode in itertools.product(windows, (False, True)):
        theirs = nn.MaxPool3d(*window, ceil_mode=ceil_mode)
        options = {"kernel_size": window[0], "stride": window[1] or window[0], "padding": window[2]}
        options["ceil_mode"] = ceil_mode
        ours = Pool3d(MaxPool2d, 3, **options)
        expected, y = theirs(x), ours(x)
        assert torch.equal(y, expected) and torch.equal(ours(x[0]), expected[0])
        assert ours.output_size(6, 7, 9) == y.shape[2:]
        grad = torch.randn_like(y)
        gradients = [torch.autograd.grad(each, x, grad)[0] for each in (y, expected)]
        torch.testing.assert_close(*gradients, rtol=0, atol=1e-14)
        for rest in itertools.product((True, False), (None, 5)):
            theirs = nn.AvgPool3d(*window, ceil_mode, *rest)
            counted = dict(zip(("count_include_pad", "divisor_override"), rest, strict=True))
            means = Pool3d(AvgPool2d, 3, **options, **counted)(x)
            torch.testing.assert_close(means, theirs(x), rtol=1e-12, atol=1e-12)


def test_pooling_and_strided_convolutions_of_sound_are_found():
    model, x = audio(), sound()
    expected = model(x)
    assert list(stages_of(model, x)) == ["0", "3", "6", "7"]
    cnnpool.swap(model, "subsample", example=x, where="conv")
    torch.testing.assert_close(model(x), expected)
    cnnpool.swap(model, "max", example=x, where="^[36]$")
    cnnpool.swap(model, "avg", example=x, where="^7$")
    torch.testing.assert_close(model(x), expected)
    assert isinstance(model[3], Pool1d) and torch.equal(model[3](x), F.max_pool1d(x, 4))
    changes = cnnpool.swap(model, "blur", example=x, where="^(0.1|6)$")
    sequence = torch.randn(1, 2, 9, dtype=torch.float64)
    torch.testing.assert_close(model[6](sequence), blurred(sequence, (3,), (2,)), rtol=0, atol=1e-12)
    assert [change.name for change in changes] == ["0.1", "6"] and model(x).shape == expected.shape
    cnnpool.swap(model, "max_blur", example=x)
    assert model(x).shape == expected.shape


class Called(nn.Module):
    def forward(self, x):
        x = F.max_pool1d(x, 3, 2, 1, 1, True) if x.ndim == 3 else F.avg_pool3d(input=x, kernel_size=2)
        return x


@pytest.mark.parametrize("x", [torch.randn(2, 3, 16), torch.randn(2, 3, 4, 4, 4)], ids=["sequence", "volume"])
def test_calls_for_sequences_and_volumes_become_modules_and_are_named(x):
    name, pool = ("max_pool1d", F.max_pool1d) if x.ndim == 3 else ("avg_pool3d", F.avg_pool3d)
    with pytest.raises(ValueError, match=f"1 call of {name} in the model itself"):
        cnnpool.swap(Called(), "max", example=x)

    class Plain(nn.Module):
        def forward(self, x):
            return pool(x, 2)

    made = cnnpool.as_modules(Plain())
    kind = getattr(nn, f"{name[:3].title()}Pool{name[-2:]}")
    assert torch.equal(made(x), Plain()(x)) and type(getattr(made, name)) is kind


REFUSED = {
    "no batch": (UNet3d, lambda: scan()[0], "max", r"must be a batch, .* got \(1, 6, 8, 12\)"),
    "stride of 4": (audio, sound, "haar", r"haar cannot replace 0: stride must be 2"),
    "no such form": (UNet3d, scan, "lip", r"replace down1: LipPool2d has no form for volumes: use MaxPool2d"),
    "split": (UNet3d, scan, "max", r"max cannot replace down1: ties must be first or last in volumes"),
    "head": (lambda: nn.Sequential(nn.AdaptiveAvgPool3d(1)), scan, "gem", r"replace 0: readouts take"),
    "3d": (lambda: nn.Sequential(nn.MaxPool3d(2, 2, 0, 1, True)), scan, "max", r"0: .*return_indices=True"),
    "1d": (lambda: nn.Sequential(nn.MaxPool1d(2, 2, 0, 1, True)), sound, "max", r"0: .*return_indices=True"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_swapped_is_refused_in_a_line(case):
    model, example, name, message = REFUSED[case]
    options = {"ties": "split"} if case == "split" else {}
    where = "head" if case == "head" else None
    with pytest.raises(ValueError, match=message) as refused:
        cnnpool.swap(model(), name, example=example(), where=where, **options)
    assert "\n" not in str(refused.value)


def test_an_operator_for_volumes_takes_a_number_or_one_for_each_axis():
    assert Pool3d(BlurPool2d, 2, stride=[1, 2, 2]).output_size(4, 4, 4) == (4, 2, 2)
    with pytest.raises(ValueError, match=r"stride must be one number or \(depth, vertical, horizontal\)"):
        Pool3d(BlurPool2d, 2, stride=(1, 2))
    with pytest.raises(ValueError, match=r"volumes takes \(N, C, D, H, W\)"):
        Pool3d(MaxPool2d, 2)(torch.zeros(2, 4, 4))
