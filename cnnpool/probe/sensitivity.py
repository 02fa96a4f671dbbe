"""Translation sensitivity map: how far a shift moves the output (Kauderer-Abrams 2017, arXiv:1801.01450)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cnnpool.probe.base import AtLeastTwo, Batch, Pixels, Probe, Result, Stages, paddings
from cnnpool.probe.predictions import logits
from cnnpool.probe.shift import shift, square
from cnnpool.quantity import ratio
from cnnpool.registry import checked


@checked
@dataclass(kw_only=True)
class Sensitivity(Probe):
    """Distance of the logits of the shifted image from those of the image, over a square of shifts.

    Args:
        samples: images, >= 2.
        radius_px: the map reaches so many pixels each way, >= 1.
        every_epochs: read after every so many epochs; 0: only at the end.

    Raises:
        ValueError: if an option is out of range.

    Example:
        >>> from cnnpool.probe import Sensitivity
        >>> from cnnpool.probe.base import example
        >>> found = Sensitivity().measure(*example())
        >>> sorted(found)
        ['border', 'map', 'mean', 'model_padding', 'radial', 'radius_px', 'samples']
    """

    section = "sensitivity"
    tried = False
    quantities = (
        ratio(
            "mean",
            "translation sensitivity",
            "Distance of the logits of the shifted image from those of the image, divided by the "
            "distance between different images; mean over images and all shifts of a square "
            "(Kauderer-Abrams 2017).",
            better="lower",
        ),
        ratio(
            "radial.<px>",
            "translation sensitivity at <px> px",
            "Translation sensitivity at all shifts that are so many pixels long, rounded.",
            better="lower",
            shown="file",
        ),
    )

    samples: AtLeastTwo = 128
    radius_px: Pixels = 6

    def read(self, model: nn.Module, stages: Stages, batch: Batch) -> Result:
        images, _, black, *_ = batch.first(self.samples)
        values = sensitivity_map(model, images, self.radius_px, black)
        return {
            "mean": values.mean().item(),
            "radial": radial_profile(values),
            "map": values.tolist(),
            "radius_px": self.radius_px,
            "border": "black",
            "samples": len(images),
            "model_padding": paddings(model),
        }


def sensitivity_map(model: nn.Module, images: Tensor, radius: int, black: Tensor | None = None) -> Tensor:
    """E ||f(S x) - f(x)|| / E ||f(x) - f(x')|| over shifts of up to ``radius`` pixels: (2r+1, 2r+1).

    f are the logits; black enters where the image leaves; the second mean is over pairs of different images
    (each with the next). 0 in the centre; 1 is as far as another image.
    """
    still = logits(model, images).double()
    apart = (still - still.roll(1, 0)).norm(dim=1).mean()
    cells = [
        (logits(model, shift(images, *way, circular=False, fill=black)).double() - still).norm(dim=1).mean()
        for way in square(radius)
    ]
    values = torch.stack(cells).reshape(2 * radius + 1, -1)
    return values / apart if apart > 0 else values


def radial_profile(values: Tensor) -> dict[str, float]:
    """Mean of a square map (2r+1, 2r+1) by distance from its centre, rounded to whole pixels, up to r.

    Example:
        >>> import torch
        >>> from cnnpool.probe.sensitivity import radial_profile
        >>> radial_profile(torch.tensor([[1.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 1.0]]))
        {'0': 0.0, '1': 1.0}
    """
    radius = len(values) // 2
    axis = torch.arange(-radius, radius + 1, dtype=torch.float64)
    distance = torch.hypot(axis[:, None], axis).round()
    return {str(d): values[distance == d].mean().item() for d in range(radius + 1)}
