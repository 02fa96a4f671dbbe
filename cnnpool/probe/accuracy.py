"""Accuracy under circular shifts: the worst, the mean, against the distance, and over a map."""

import torch
from torch import Tensor, nn

from cnnpool.probe.answers import answers, cross, square


def accuracy_of_shifts(
    model: nn.Module, images: Tensor, labels: Tensor, worst_px: int, max_shift_px: int
) -> dict[str, float | dict[str, float]]:
    """Accuracy on images (N, C, H, W) that are shifted circularly.

    Returns:
        ``worst_shift_accuracy``: images correct under all shifts of up to ``worst_px`` pixels each way, as a
            share of all images.
        ``mean_shift_accuracy``: correct predictions over all these shifts and images, divided by all.
        ``accuracy_by_shift``: accuracy at d = 0..max_shift_px pixels, the mean over the four directions.
    """
    grid, crosses = square(worst_px), {d: cross(d) for d in range(max_shift_px + 1)}
    wanted = dict.fromkeys([*grid, *(way for ways in crosses.values() for way in ways)])
    right = {way: right_answers(model, images, labels, way) for way in wanted}
    over_grid = torch.stack([right[way] for way in grid])
    return {
        "worst_shift_accuracy": over_grid.all(0).double().mean().item(),
        "mean_shift_accuracy": over_grid.double().mean().item(),
        "accuracy_by_shift": {
            str(d): torch.stack([right[way] for way in ways]).double().mean().item()
            for d, ways in crosses.items()
        },
    }


def accuracy_map(model: nn.Module, images: Tensor, labels: Tensor, radius: int) -> Tensor:
    """Accuracy over all circular shifts of up to ``radius`` pixels: (2r+1, 2r+1), centre unshifted, 0..1."""
    cells = [right_answers(model, images, labels, way).double().mean() for way in square(radius)]
    return torch.stack(cells).reshape(2 * radius + 1, 2 * radius + 1)


def right_answers(model: nn.Module, images: Tensor, labels: Tensor, way: tuple[int, int]) -> Tensor:
    """Which images (N,) are classified correctly when all are moved by ``way``: down, right."""
    return answers(model, images, torch.tensor(way)) == labels.cpu()
