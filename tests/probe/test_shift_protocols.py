"""The measures of whole shift protocols: every shift, also per pixel, the diagonal, the adversarial grid."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from small_nets import Pixel
from torch import nn

from cnnpool.probe import AdversarialShift, AllShifts, Diagonal, build
from cnnpool.probe.shift import NoLogitsError
from cnnpool.probe.shifted_logits import accuracy_on_grid, jumps


def test_consistency_of_two_hand_worked_images():
    # Of the four shifts of each image none and three put a bright pixel into the corner.
    x = torch.tensor([[[[-1.0, -1], [-1, -1]]], [[[-1.0, 1], [1, 1]]]])
    result = AllShifts().measure(Pixel(0, 0), {}, x, torch.tensor([0, 1]))
    assert result["consistency"] == pytest.approx((1 + (1 + 9) / 16) / 2)
    # Of the six pairs of one and three, the three among the three agree.
    assert result["consistency_distinct"] == pytest.approx((1 + 3 / 6) / 2)
    assert result["mean_shift_accuracy"] == (1 + 3 / 4) / 2
    assert result["worst_shift_accuracy"] == 0.5


def test_every_shift_brings_every_pixel_to_the_corner_once():
    x = torch.randn(3, 1, 4, 5, generator=torch.Generator().manual_seed(0))
    positive = (x > 0).flatten(1).sum(1)
    whole = AllShifts().measure(Pixel(0, 0), {}, x, torch.ones(3).long())
    assert whole["mean_shift_accuracy"] == pytest.approx(positive.double().mean().item() / 20)
    result = AllShifts(samples=2).measure(Pixel(0, 0), {}, x, torch.ones(3).long())
    tops = [(image > 0).flatten().numpy() for image in x[:2, 0]]
    pairs = [np.mean([a == b for a, b in itertools.product(top, top)]) for top in tops]
    apart = [np.mean([a == b for a, b in itertools.permutations(top, 2)]) for top in tops]
    assert result["consistency"] == pytest.approx(np.mean(pairs))
    assert result["consistency_distinct"] == pytest.approx(np.mean(apart))
    assert (result["shifts"], result["samples"]) == (20, 2)


def test_the_jumps_of_hand_worked_confidences():
    confidences = torch.tensor([[[0.6, 0.4]], [[0.5, 0.5]], [[0.1, 0.9]], [[0.2, 0.8]]])
    # argmax is 0, 0, 1, 1: one change in three; |p'-p| of the class on top before: 0.1, 0.4, 0.1.
    assert jumps(confidences) == pytest.approx({"top1_change": 1 / 3, "confidence_change": 0.2})


def test_the_diagonal_runs_over_eight_steps_around_the_centre_on_black():
    # White moves onto the pixel (2, 2) as the image goes down; above and left of the image it is black.
    x, black = torch.ones(1, 1, 9, 9), torch.tensor([-1.0])
    result = Diagonal().measure(Pixel(2, 2), {}, x, torch.zeros(1).long(), black)
    # Shifts -4..4: black from +3 on, a single change in eight steps.
    assert result["top1_change"] == 1 / 8
    assert (result["steps"], result["border"]) == (8, "black")
    # Unknown black is none: zeros enter.
    assert Diagonal().measure(Pixel(2, 2), {}, x, torch.zeros(1).long())["border"] == "zeros"
    assert Diagonal().measure(Pixel(4, 4), {}, x, torch.zeros(1).long(), black)["top1_change"] == 0.0


def test_the_adversary_finds_between_the_pixels_what_whole_shifts_miss():
    # A wave at half of Nyquist is 0.71 or -0.71 at the pixels, and 1 between them.
    wave = torch.cos(torch.pi * (torch.arange(8.0) + 0.5) / 2).expand(1, 1, 8, 8)

    class Peak(nn.Module):
        def forward(self, x):
            above = (x.amax((1, 2, 3)) > 0.9).float()
            return torch.stack((1 - above, above), 1)

    result = accuracy_on_grid(Peak(), wave, torch.tensor([0]), [-1, -0.5, 0, 0.5, 1])
    assert result["whole_px_accuracy"] == 1.0
    assert result["accuracy"] == 0.0
    # Two of five columns of the grid lie between pixels.
    assert result["mean_accuracy"] == pytest.approx(3 / 5)


def test_the_grid_has_the_asked_points(net, batch):
    cnn, (x, labels) = net(), batch()
    cnn, x = cnn.double().eval(), x.double()
    result = AdversarialShift(max_shift_px=1, per_px=1, samples=6).measure(cnn, {}, x, labels)
    ways = itertools.product((-1, 0, 1), repeat=2)
    right = torch.stack([cnn(x.roll(way, (2, 3))).argmax(1) == labels for way in ways])
    assert result["accuracy"] == result["whole_px_accuracy"] == right.all(0).double().mean().item()
    assert result["mean_accuracy"] == pytest.approx(right.double().mean().item())


PAGE = Path(__file__).parents[2] / "docs" / "unet.py"


def images(size=8):
    return torch.randn(2, 1, size, size, generator=torch.Generator().manual_seed(0))


def measure(model, labels):
    return build("all_shifts").measure(model, {}, images(), labels)


class Striped(nn.Module):
    """The sign of each pixel, but in every second column always class 2."""

    def forward(self, x):
        plane = torch.cat([x, -x, torch.zeros_like(x)], 1)
        plane[:, 2, :, ::2] = 100
        return plane


def test_the_answer_of_a_pixel_moves_back_with_the_shift():
    sign = (images()[:, 0] < 0).long()
    moving = nn.Conv2d(1, 2, 1, bias=False)
    moving.weight.data = torch.tensor([1.0, -1.0]).reshape(2, 1, 1, 1)
    found = measure(moving, sign)
    assert found["consistency"] == found["mean_shift_accuracy"] == found["worst_shift_accuracy"] == 1
    found = measure(Striped(), sign)
    # Each pixel is of class 2 under half of the shifts and keeps its own under the others.
    assert (found["consistency"], found["mean_shift_accuracy"]) == (0.5, 0.5)
    assert found["worst_shift_accuracy"] == 0 and found["shifts"] == 64
    # Of 32 shifts of each kind: 2 * 32 * 31 ordered pairs of 64 * 63.
    assert found["consistency_distinct"] == pytest.approx(31 / 63)


def test_labels_of_images_leave_the_accuracy_of_pixels_open():
    found = measure(Striped(), torch.zeros(2, dtype=torch.int64))
    assert found["consistency"] == 0.5
    assert found["mean_shift_accuracy"] is None and found["worst_shift_accuracy"] is None


def test_maps_of_another_size_are_refused():
    with pytest.raises(NoLogitsError, match=r"must return logits .*\(2, 1, 4, 4\); .*AllShifts"):
        measure(nn.AvgPool2d(2), torch.zeros(2, dtype=torch.int64))


@pytest.mark.parametrize("pool", ["max", "aps", "lps"])
def test_the_u_net_of_the_page_is_equivariant_with_polyphase_pairs_alone(pool):
    names = {"__name__": "unet"}
    exec(PAGE.read_text(), names)
    torch.manual_seed(0)
    model = names["UNet"](pool)
    sign = (images()[:, 0] < 0).long()
    found = measure(model, sign)
    assert (found["consistency"] == 1) == (pool != "max")
