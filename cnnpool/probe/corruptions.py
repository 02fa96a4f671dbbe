"""Accuracy and consistency of predictions under the image corruptions of CIFAR-10-C.

Each takes images (N, C, H, W) in float32, black 0 and white 1, its strength, and a generator on the CPU, and
returns images within 0..1. Strengths are those of CIFAR-10-C, in pixels of 32x32 images whatever the size.
Omitted: snow, frost and spatter, which paste pictures; glass blur and elastic transform, which move single
pixels; saturate, which does not apply to grey images.
"""

import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, get_args

import torch
from annotated_types import Ge, Le, MinLen
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional as F

from cnnpool.bounds import Count, Seed
from cnnpool.probe.base import Batch, Probe, Result, Stages
from cnnpool.probe.shift import logits
from cnnpool.quantity import score

Severity = Annotated[int, Ge(1), Le(5)]
CorruptionName = Literal[
    "gaussian_noise",
    "shot_noise",
    "impulse_noise",
    "gaussian_blur",
    "defocus_blur",
    "motion_blur",
    "zoom_blur",
    "fog",
    "brightness",
    "contrast",
    "pixelate",
    "jpeg",
]
REACH = 3
"""Radius in pixels of the area in which the disk of a defocused point is drawn."""
ANGLE = 45
"""Largest angle of motion to the horizontal, in degrees."""


@dataclass(kw_only=True)
class Corruptions(Probe):
    """Robustness to common corruptions (Hendrycks & Dietterich 2019, arXiv:1903.12261).

    Every image is corrupted in every way at every severity.

    Args:
        samples: images, >= 1.
        names: corruptions of ``cnnpool.probe.corruptions.CORRUPTIONS``.
        severities: 1 to 5, as published.
        seed: seed of their noise.
    """

    section = "corruptions"
    tried = False
    quantities = (
        score(
            "accuracy",
            "accuracy under corruptions",
            "Corrupted images classified correctly, over all corruptions and severities, divided by all "
            "corrupted images.",
            shown="compare",
        ),
        score(
            "clean_accuracy",
            "accuracy without corruption",
            "The same images as they are, classified correctly, divided by all.",
        ),
        score(
            "consistency",
            "consistency under corruptions",
            "Corrupted images with the same top-1 class as the image itself, right or wrong, over all "
            "corruptions and severities, divided by all corrupted images.",
        ),
        score(
            "by_corruption.<corruption>",
            "accuracy under <corruption>",
            "Images with this corruption classified correctly, over all severities, divided by all.",
        ),
        score(
            "by_severity.<severity>",
            "accuracy at severity <severity>",
            "Images corrupted at this severity (1 to 5) classified correctly, over all corruptions, divided "
            "by all.",
        ),
    )

    samples: Count = 256
    names: Annotated[tuple[CorruptionName, ...], MinLen(1)] = get_args(CorruptionName)
    severities: Annotated[tuple[Severity, ...], MinLen(1)] = (1, 2, 3, 4, 5)
    seed: Seed = 0

    def read(self, model: nn.Module, stages: Stages, batch: Batch) -> Result:
        batch = batch.first(self.samples)
        black, white = ends(batch)
        pixels = ((batch.images.cpu().float() - black) / (white - black)).clamp(0, 1)
        labels, clean = batch.labels.cpu(), logits(model, batch.images).argmax(1)
        right = torch.empty(len(self.names), len(self.severities), dtype=torch.float64)
        same = torch.empty_like(right)
        for i, name in enumerate(self.names):
            corruption = CORRUPTIONS[name]
            for j, severity in enumerate(self.severities):
                # The same sequence for all severities, so that they differ only in strength.
                generator = torch.Generator().manual_seed(self.seed)
                changed = corruption.apply(pixels, corruption.strengths[severity - 1], generator)
                top = logits(model, (black + changed * (white - black)).to(batch.images)).argmax(1)
                right[i, j] = (top == labels).double().mean()
                same[i, j] = (top == clean).double().mean()
        known = batch.black is not None and batch.white is not None
        return {
            "accuracy": right.mean().item(),
            "clean_accuracy": (clean == labels).double().mean().item(),
            "consistency": same.mean().item(),
            "by_corruption": dict(zip(self.names, right.mean(1).tolist(), strict=True)),
            "by_severity": dict(zip(map(str, self.severities), right.mean(0).tolist(), strict=True)),
            "severities": list(self.severities),
            "seed": self.seed,
            "black_and_white": "known" if known else "the least and largest value of each channel",
            "samples": len(batch.images),
        }


def ends(batch: Batch) -> tuple[Tensor, Tensor]:
    """The normalised values of black and white, (C, 1, 1); if not known the extremes of each channel."""
    images = batch.images.detach().cpu().float()
    black = images.amin((0, 2, 3)) if batch.black is None else batch.black.cpu().float()
    white = images.amax((0, 2, 3)) if batch.white is None else batch.white.cpu().float()
    return black[:, None, None], torch.where(white > black, white, black + 1)[:, None, None]


class Corruption(NamedTuple):
    """A corruption and its strengths by severity."""

    apply: Callable[[Tensor, Any, torch.Generator], Tensor]
    strengths: Sequence[Any]


def gaussian_noise(x: Tensor, scale: float, generator: torch.Generator) -> Tensor:
    """Add normal noise of standard deviation ``scale``."""
    return (x + scale * torch.randn(x.shape, generator=generator)).clamp(0, 1)


def shot_noise(x: Tensor, photons: float, generator: torch.Generator) -> Tensor:
    """Replace each value by a Poisson count of mean x * ``photons``, divided by ``photons``."""
    return (torch.poisson(x * photons, generator=generator) / photons).clamp(0, 1)


def impulse_noise(x: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """Set this share of all values to 0 or 1, each with probability 1/2."""
    hit = torch.rand(x.shape, generator=generator) < share
    return torch.where(hit, (torch.rand(x.shape, generator=generator) < 0.5).float(), x)


def gaussian_blur(x: Tensor, sigma: float, generator: torch.Generator) -> Tensor:
    """Blur by a Gaussian truncated at four sigma, repeating the border pixel."""
    taps = _gaussian(sigma, int(4 * sigma + 0.5))
    return _filtered(_filtered(x, taps[None], "replicate"), taps[:, None], "replicate").clamp(0, 1)


def defocus_blur(x: Tensor, strength: tuple[float, float], generator: torch.Generator) -> Tensor:
    """Blur by a disk whose edge is blurred by a Gaussian of 3x3 taps; the border is mirrored."""
    radius, sigma = strength
    span = torch.arange(-REACH, REACH + 1, dtype=torch.float32)
    disk = (span[:, None].square() + span.square() <= radius**2).float()
    taps = _gaussian(sigma, 1)
    edge = (taps[:, None] * taps)[None, None]
    soft = F.conv2d((disk / disk.sum())[None, None], edge, padding=1)[0, 0]
    return _filtered(x, soft, "reflect").clamp(0, 1)


def motion_blur(x: Tensor, strength: tuple[int, float], generator: torch.Generator) -> Tensor:
    """Average 2 r + 1 shifts along a line of random direction, one per image, weighted by half a Gaussian.

    ``strength``: r and the Gaussian's sigma, in pixels; the border pixel is repeated.
    """
    radius, sigma = strength
    angles = torch.deg2rad((2 * torch.rand(len(x), generator=generator) - 1) * ANGLE)
    weights = _gaussian(sigma, 2 * radius)[2 * radius :]
    total = torch.zeros_like(x)
    height, width = x.shape[-2:]
    rows, columns = torch.arange(height), torch.arange(width)
    images = torch.arange(len(x))[:, None, None]
    for step, weight in enumerate((weights / weights.sum()).tolist()):
        down = (rows - (step * angles.sin()).round().long()[:, None]).clamp(0, height - 1)
        across = (columns - (step * angles.cos()).round().long()[:, None]).clamp(0, width - 1)
        moved = x.permute(0, 2, 3, 1)[images, down[:, :, None], across[:, None]]
        total += weight * moved.permute(0, 3, 1, 2)
    return total.clamp(0, 1)


def zoom_blur(x: Tensor, reach: float, generator: torch.Generator) -> Tensor:
    """Average the image and its zooms by 1, 1.01, ... below ``reach``, bilinear, about the centre."""
    zooms = [1 + step / 100 for step in range(math.ceil(round(100 * (reach - 1), 6)))]
    total = x.clone()
    for zoom in zooms:
        grid = F.affine_grid(torch.tensor([[[1 / zoom, 0, 0], [0, 1 / zoom, 0]]]), list(x[:1].shape), False)
        total += F.grid_sample(x, grid.expand(len(x), -1, -1, -1), padding_mode="border", align_corners=False)
    return (total / (len(zooms) + 1)).clamp(0, 1)


def fog(x: Tensor, strength: tuple[float, float], generator: torch.Generator) -> Tensor:
    """Add a random cloud p within 0..1, one per image, of height h: (x + h p) m / (m + h), m the largest x.

    ``strength``: h, and the root of the factor by which the cloud's roughness falls with each halved scale.
    """
    height, decay = strength
    side = 1 << max(1, (max(x.shape[-2:]) - 1).bit_length())
    cloud = _cloud(len(x), side, decay, generator)[:, None, : x.shape[-2], : x.shape[-1]]
    most = x.amax((1, 2, 3), keepdim=True)
    return ((x + height * cloud) * most / (most + height)).clamp(0, 1)


def brightness(x: Tensor, more: float, generator: torch.Generator) -> Tensor:
    """Increase the value of HSV, the largest channel, by ``more``, up to 1, keeping hue and saturation."""
    value = x.amax(1, keepdim=True)
    raised = (value + more).clamp(max=1)
    return torch.where(value > 0, x * (raised / value.clamp(min=1e-12)), raised).clamp(0, 1)


def contrast(x: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """Scale each value's distance to the mean of its channel by this share."""
    mean = x.mean((2, 3), keepdim=True)
    return ((x - mean) * share + mean).clamp(0, 1)


def pixelate(x: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """Shrink to this share of H and W by averaging boxes, and enlarge again."""

    def boxes(image: Image.Image) -> Image.Image:
        small = (max(1, int(image.width * share)), max(1, int(image.height * share)))
        return image.resize(small, Image.Resampling.BOX).resize(image.size, Image.Resampling.BOX)

    return _by_pillow(x, boxes)


def jpeg(x: Tensor, quality: int, generator: torch.Generator) -> Tensor:
    """Compress as JPEG with this quality, 1..95, and decompress."""

    def compressed(image: Image.Image) -> Image.Image:
        file = io.BytesIO()
        image.save(file, "JPEG", quality=quality)
        return Image.open(file, formats=("JPEG",))

    return _by_pillow(x, compressed)


CORRUPTIONS = {
    "gaussian_noise": Corruption(gaussian_noise, (0.04, 0.06, 0.08, 0.09, 0.10)),
    "shot_noise": Corruption(shot_noise, (500, 250, 100, 75, 50)),
    "impulse_noise": Corruption(impulse_noise, (0.01, 0.02, 0.03, 0.05, 0.07)),
    "gaussian_blur": Corruption(gaussian_blur, (0.4, 0.6, 0.7, 0.8, 1.0)),
    "defocus_blur": Corruption(defocus_blur, ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1.0, 0.2), (1.5, 0.1))),
    "motion_blur": Corruption(motion_blur, ((6, 1.0), (6, 1.5), (6, 2.0), (8, 2.0), (9, 2.5))),
    "zoom_blur": Corruption(zoom_blur, (1.06, 1.11, 1.16, 1.21, 1.26)),
    "fog": Corruption(fog, ((0.2, 3.0), (0.5, 3.0), (0.75, 2.5), (1.0, 2.0), (1.5, 1.75))),
    "brightness": Corruption(brightness, (0.05, 0.1, 0.15, 0.2, 0.3)),
    "contrast": Corruption(contrast, (0.75, 0.5, 0.4, 0.3, 0.15)),
    "pixelate": Corruption(pixelate, (0.95, 0.9, 0.85, 0.75, 0.65)),
    "jpeg": Corruption(jpeg, (80, 65, 58, 50, 40)),
}
"""All corruptions by their names in CIFAR-10-C, except jpeg (there jpeg_compression)."""


def _gaussian(sigma: float, radius: int) -> Tensor:
    """Samples of a Gaussian at -radius..radius, normalised to sum 1."""
    taps = torch.exp(-torch.arange(-radius, radius + 1, dtype=torch.float64).square() / (2 * sigma**2))
    return (taps / taps.sum()).float()


def _filtered(x: Tensor, kernel: Tensor, border: str) -> Tensor:
    """Correlation of each channel with ``kernel``, of odd sides, with the image extended at its border."""
    rows, columns = (side // 2 for side in kernel.shape)
    # Such a small image has too few pixels to mirror.
    border = border if min(x.shape[-2:]) > max(rows, columns) else "replicate"
    padded = F.pad(x, (columns, columns, rows, rows), mode=border)
    weight = kernel.expand(x.shape[1], 1, *kernel.shape)
    return F.conv2d(padded, weight, groups=x.shape[1])


def _cloud(images: int, side: int, decay: float, generator: torch.Generator) -> Tensor:
    """Random fractals (images, side, side) within 0..1 by diamond-square on a torus; ``side`` is 2^k."""
    height = torch.zeros(images, side, side)
    step, rough = side, 1.0

    def drawn(mean: Tensor) -> Tensor:
        return mean + rough * (2 * torch.rand(mean.shape, generator=generator) - 1)

    while step > 1:
        half = step // 2
        corners = height[:, ::step, ::step].clone()
        below = corners.roll(-1, 1)
        centres = drawn((corners + below + corners.roll(-1, 2) + below.roll(-1, 2)) / 4)
        height[:, half::step, half::step] = centres
        beside = centres + centres.roll(1, 1) + corners + corners.roll(-1, 2)
        height[:, ::step, half::step] = drawn(beside / 4)
        under = centres + centres.roll(1, 2) + corners + below
        height[:, half::step, ::step] = drawn(under / 4)
        step, rough = half, rough / decay**2
    low, high = height.amin((1, 2), keepdim=True), height.amax((1, 2), keepdim=True)
    return (height - low) / (high - low)


def _by_pillow(x: Tensor, change: Callable[[Image.Image], Image.Image]) -> Tensor:
    """Apply ``change`` to every image in 8 bits; channels one by one unless there are three."""
    levels = (255 * x).round().to(torch.uint8)
    planes = levels.permute(0, 2, 3, 1) if x.shape[1] == 3 else levels.flatten(0, 1)[..., None]
    mode = "RGB" if x.shape[1] == 3 else "L"
    height, width = x.shape[-2:]
    done = [
        change(Image.frombytes(mode, (width, height), plane.contiguous().numpy().tobytes())).tobytes()
        for plane in planes
    ]
    y = torch.frombuffer(bytearray(b"".join(done)), dtype=torch.uint8).view(planes.shape)
    return y.permute(0, 3, 1, 2).reshape(x.shape).float() / 255
