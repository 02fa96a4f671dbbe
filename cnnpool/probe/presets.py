"""The named protocols by which papers draw the two shifted views of an image."""

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from cnnpool.probe.shift import shift

Border = Literal["circular", "black", "crop", "enlarged"]


@dataclass(frozen=True, kw_only=True)
class Preset:
    """How a pair of shifted views of an image is drawn.

    Both views are shifted, each by a vertical and a horizontal number of pixels from ``low`` to ``high``
    (both included), uniformly; null bounds mean every offset that the border allows.

    Args:
        source: where the protocol comes from.
        low, high: pixels; null: 0 and the number of offsets less one.
        quarter: the bounds are -H/4 and H/4 instead.
        border: ``circular``: what leaves enters on the other side. ``black``: black enters, as in the crop of
            an image with a black frame. ``crop``: 7/8 of the image (224 of 256), so that nothing need enter;
            the offsets are 0..H/8 - 1. ``enlarged``: the image's size is cropped out of the image enlarged to
            9/8 (36 for 32) by bilinear interpolation; the offsets are 0..H/8 - 1.
        per_image: each image draws its own pair, else a batch shares one.
        distinct: the two views of a pair are never shifted alike.
        batch: images that share a pair where ``per_image`` is false.
        least_size: the smallest H and W that it is meant for, in pixels.
    """

    source: str
    low: int | None = None
    high: int | None = None
    quarter: bool = False
    border: Border = "circular"
    per_image: bool = False
    distinct: bool = False
    batch: int = 256
    least_size: int = 1

    def bounds(self, length: int) -> tuple[int, int]:
        """(lowest, highest) shift in pixels along an axis of ``length`` pixels."""
        if self.quarter:
            return -(length // 4), length // 4
        if self.low is not None and self.high is not None:
            return self.low, self.high
        return 0, (length if self.border in ("circular", "black") else length // 8) - 1

    def draw(self, n: int, size: tuple[int, int], generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Shifts of the first and second views, each (N, 2): down, right."""
        (top, bottom), (left, right) = (self.bounds(length) for length in size)
        columns = right - left + 1
        positions = (bottom - top + 1) * columns
        pairs = n if self.per_image else -(-n // self.batch)
        first = torch.randint(positions, (pairs,), generator=generator)
        if self.distinct:
            second = (first + torch.randint(1, positions, (pairs,), generator=generator)) % positions
        else:
            second = torch.randint(positions, (pairs,), generator=generator)
        if not self.per_image:
            first, second = (p.repeat_interleave(self.batch)[:n] for p in (first, second))
        first, second = (
            torch.stack((place // columns + top, place % columns + left), 1) for place in (first, second)
        )
        return first, second

    def shifts(self, size: tuple[int, int]) -> Tensor:
        """Every shift of a view, (P, 2): down, right."""
        (top, bottom), (left, right) = (self.bounds(length) for length in size)
        return torch.cartesian_prod(torch.arange(top, bottom + 1), torch.arange(left, right + 1))

    def view(self, images: Tensor, shifts: Tensor, black: Tensor | None = None) -> Tensor:
        """Images (N, C, H, W) as one view shows them; ``shifts`` (N, 2): down, right; ``black`` (C,)."""
        down, right = shifts.unbind(1)
        if self.border in ("circular", "black"):
            return shift(images, down, right, circular=self.border == "circular", fill=black)
        height, width = images.shape[2:]
        if self.border == "enlarged":
            size = (height + height // 8, width + width // 8)
            images = F.interpolate(images, size, mode="bilinear", align_corners=False)
        else:
            height, width = height - height // 8, width - width // 8
        return shift(images, -down, -right)[..., :height, :width]

    def refusal(self, size: tuple[int, int]) -> str | None:
        """The reason why images of ``size`` do not suit the preset; None if they do."""
        height, width = size
        if min(size) < self.least_size:
            return f"needs images of at least {self.least_size}x{self.least_size}, got {height}x{width}"
        if all(high <= low for low, high in map(self.bounds, size)):
            return f"leaves a {height}x{width} image a single position"
        return None

    def paired_per_image(self) -> "Preset":
        """The same shifts, but every image draws its own pair of two different ones."""
        return replace(self, per_image=True, distinct=True)

    def facts(self) -> dict[str, Any]:
        """The settings, as results repeat them."""
        return asdict(self)


PRESETS: dict[str, Preset] = {
    "distinct": Preset(
        source="cnnpool: -3..3 px, a distinct pair per image", low=-3, high=3, per_image=True, distinct=True
    ),
    "zhang_imagenet": Preset(
        source="Zhang 2019, ImageNet: crops of 224 out of 256 px, one pair per batch of 8",
        border="crop",
        batch=8,
        least_size=256,
    ),
    "zhang_cifar": Preset(
        source="Zhang 2019, CIFAR: every circular position, one pair per batch of 100", batch=100
    ),
    "aps_cifar": Preset(
        source="Chaman 2021, CIFAR: -3..2 px, circular, one pair per batch of 256", low=-3, high=2
    ),
    "aps_crop": Preset(
        source="Chaman 2021, CIFAR: -3..2 px, crops of the padded image, one pair per batch of 256",
        low=-3,
        high=2,
        border="black",
    ),
    "aps_imagenet": Preset(
        source="Chaman 2021, ImageNet: -32..31 px, circular, one pair per batch",
        low=-32,
        high=31,
        least_size=64,
    ),
    "lps_cifar": Preset(
        source="Rojas-Gomez 2022, CIFAR: -3..2 px, circular, one pair per batch", low=-3, high=2
    ),
    "lps_crop": Preset(
        source="Rojas-Gomez 2022, CIFAR: -3..2 px, crops of the padded image, one pair per batch",
        low=-3,
        high=2,
        border="black",
    ),
    "tips": Preset(source="Saha 2024: -H/4..H/4 px, circular, one pair per batch", quarter=True),
    "tips_fill": Preset(
        source="Saha 2024: -H/4..H/4 px, black enters, one pair per batch", quarter=True, border="black"
    ),
    "flc_cifar": Preset(
        source="Grabinski 2022, CIFAR: crops of 32 out of 36 px by bilinear enlargement, one pair per batch",
        border="enlarged",
    ),
    "one_px": Preset(
        source="after Shifman & Weiss 2024: crops of 7/8 of the image, at most one px apart each way, so "
        "nothing enters; a distinct pair per image",
        low=0,
        high=1,
        border="crop",
        per_image=True,
        distinct=True,
        least_size=16,
    ),
}

PresetName = Literal[
    "distinct",
    "zhang_imagenet",
    "zhang_cifar",
    "aps_cifar",
    "aps_crop",
    "aps_imagenet",
    "lps_cifar",
    "lps_crop",
    "tips",
    "tips_fill",
    "flc_cifar",
    "one_px",
]
