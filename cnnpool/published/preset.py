"""The preparation of images that published weights were made with."""

from dataclasses import dataclass
from typing import Any

Size = int | tuple[int, int]


@dataclass(frozen=True)
class Preset:
    """The numbers that a package publishes with weights.

    Args:
        source: whose numbers they are, in words.
        size: H and W, or (H, W), of the central part that a network is tested on, in pixels.
        resize: H and W, or (H, W), that images are brought to before.
        mean, std: of the pixels, per channel, white being 1.
    """

    source: str
    size: Size
    resize: Size
    mean: tuple[float, ...]
    std: tuple[float, ...]


def of_torchvision(entry: Any) -> Preset:
    """The numbers of an entry of a weights enum of torchvision."""
    found = entry.transforms()
    return Preset(
        f"torchvision {entry}",
        _size(*found.crop_size),
        _size(*found.resize_size),
        tuple(found.mean),
        tuple(found.std),
    )


def of_timm(arch: str, config: Any) -> Preset:
    """The numbers of a ``PretrainedCfg`` of timm, as ``timm.data.create_transform`` takes them for a test."""
    size = tuple(config.input_size[1:])
    # Rounded down as there.
    resize = tuple(int(side / config.crop_pct) for side in size)
    return Preset(f"timm {arch}", _size(*size), _size(*resize), tuple(config.mean), tuple(config.std))


def _size(height: int, width: int | None = None) -> Size:
    return height if width in (None, height) else (height, width)
