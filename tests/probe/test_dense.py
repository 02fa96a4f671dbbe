"""Networks that answer for every pixel, over all circular shifts; among them the U-Net of the page."""

import re
from pathlib import Path

import pytest
import torch
from torch import nn

from cnnpool.probe import build
from cnnpool.probe.shift import NoLogitsError

PAGE = Path(__file__).parents[2] / "docs" / "networks.md"


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
    with pytest.raises(NoLogitsError, match=r"must return logits .*\(2, 1, 4, 4\)"):
        measure(nn.AvgPool2d(2), torch.zeros(2, dtype=torch.int64))


@pytest.mark.parametrize("pool", ["max", "aps", "lps"])
def test_the_u_net_of_the_page_is_equivariant_with_polyphase_pairs_alone(pool):
    (code,) = (
        block for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S) if "UNet" in block
    )
    names = {"__name__": "unet"}
    exec(code, names)
    torch.manual_seed(0)
    model = names["UNet"](pool)
    sign = (images()[:, 0] < 0).long()
    found = measure(model, sign)
    assert (found["consistency"] == 1) == (pool != "max")
