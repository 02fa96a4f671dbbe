"""Zhang's heat map: the shifts of the image to which a stage is equivariant (Zhang 2019, figure 5)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cnnpool.bounds import Count
from cnnpool.probe.base import (
    Batch,
    Pixels,
    Probe,
    Result,
    Stages,
    captured,
    device_of,
    examined,
    paddings,
    size_of,
)
from cnnpool.probe.shift import shift, square
from cnnpool.quantity import ratio
from cnnpool.registry import checked


@checked
@dataclass(kw_only=True)
class HeatMap(Probe):
    """Internal feature distance of every stage over a square of shifts.

    Args:
        samples: images, >= 1.
        radius_px: the map reaches so many pixels each way, >= 1.
        every_epochs: read after every so many epochs; 0: only at the end.

    Raises:
        ValueError: if an option is out of range.

    Example:
        >>> from cnnpool.probe import HeatMap
        >>> from cnnpool.probe.base import example
        >>> found = HeatMap().measure(*example())
        >>> sorted(found)
        ['border', 'model_padding', 'radius_px', 'samples', 'stages']
    """

    section = "heat_map"
    tried = False
    quantities = (
        ratio(
            "stages.<stage>.feature_distance",
            "feature distance under shifts",
            "Cosine distance between a stage's output for the shifted image and its shifted output, "
            "enlarged to the image's size; mean over positions, images and all shifts of a square "
            "(Zhang 2019, figure 5).",
            better="lower",
            range=(0.0, 2.0),
        ),
    )

    samples: Count = 32
    radius_px: Pixels = 4

    def read(self, model: nn.Module, stages: Stages, batch: Batch) -> Result:
        images = batch.first(self.samples).images
        maps = feature_distance(model, stages, images, self.radius_px)
        return {
            "radius_px": self.radius_px,
            "border": "circular",
            "samples": len(images),
            "model_padding": paddings(model),
            "stages": {
                stage: {"feature_distance": values.mean().item(), "map": values.tolist()}
                for stage, values in maps.items()
            },
        }


def feature_distance(model: nn.Module, stages: Stages, images: Tensor, radius: int) -> dict[str, Tensor]:
    """By stage, d(F(S x), S F(x)) for every circular shift S of up to ``radius`` pixels: (2r+1, 2r+1).

    F is the stage's output enlarged to the image's size, each pixel repeated; d is the cosine distance over
    channels, 0..2, the mean over positions and images.
    """
    size = size_of(images)
    with examined(model), captured(stages) as seen, torch.no_grad():

        def outputs(batch: Tensor) -> dict[str, Tensor]:
            model(batch.to(device_of(model)))
            return {stage: directions(value) for stage, value in seen.items()}

        still = outputs(images)
        cells: dict[str, list[Tensor]] = {stage: [] for stage in still}
        for way in square(radius):
            for stage, moved in outputs(shift(images, *way)).items():
                cells[stage].append(1 - enlarged_product(moved, still[stage], size, way))
    return {stage: torch.stack(row).reshape(2 * radius + 1, -1).cpu() for stage, row in cells.items()}


def directions(maps: Tensor) -> Tensor:
    """Vectors along axis 1 brought to length 1, with one more component, (N, C, ...) -> (N, C + 1, ...).

    The component is 1 for a vector of zeros and else 0: the product of two of the results is the cosine, 1
    between two vectors of zeros, and 0 between one and another.
    """
    lengths = maps.norm(dim=1, keepdim=True)
    zero = lengths == 0
    return torch.cat((maps / torch.where(zero, 1, lengths), zero.to(maps.dtype)), 1)


def enlarged_product(a: Tensor, b: Tensor, size: tuple[int, int], way: tuple[int, int]) -> Tensor:
    """Mean product of vectors of ``a`` with those of ``b`` moved by ``way``, both enlarged to ``size`` first.

    Maps (N, C, h, w) whose pixels are repeated: nothing is enlarged, but each pair of rows and columns that
    meet is taken once, and counted as often as it does.
    """
    rows, row_counts = _meetings(a.shape[2], b.shape[2], size[0], way[0])
    columns, column_counts = _meetings(a.shape[3], b.shape[3], size[1], way[1])
    first = a[:, :, rows[0]][..., columns[0]]
    second = b[:, :, rows[1]][..., columns[1]]
    weights = (row_counts[:, None] * column_counts).to(a)
    return ((first * second).sum(1) * weights).sum() / (len(a) * size[0] * size[1])


def _meetings(a: int, b: int, length: int, moved: int) -> tuple[Tensor, Tensor]:
    place = torch.arange(length)
    pairs = torch.stack((place * a // length, (place - moved) % length * b // length))
    found: tuple[Tensor, Tensor] = torch.unique(pairs, dim=1, return_counts=True)
    return found
