"""Jumps of the prediction along a diagonal of 1-pixel steps (Azulay & Weiss 2019, arXiv:1805.12177)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cnnpool.bounds import Count
from cnnpool.probe.base import Batch, Pixels, Probe, Result, Stages, paddings
from cnnpool.probe.predictions import logits
from cnnpool.probe.shift import shift
from cnnpool.quantity import fraction, ratio
from cnnpool.registry import checked


@checked
@dataclass(kw_only=True)
class Diagonal(Probe):
    """P(top-1 change) and the mean absolute change of confidence under 1-pixel diagonal shifts.

    The image stands on a black background and moves down the diagonal through its middle. The paper shrinks
    images within a larger canvas, or crops larger ones; here the canvas is the image's own size, so that the
    model sees maps of the size it was made for.

    Args:
        samples: images, >= 1; 1000 in the paper.
        steps: neighbouring pairs of positions around the centre, >= 1; 8 in the paper.
        every_epochs: read after every so many epochs; 0: only at the end.

    Raises:
        ValueError: if an option is out of range.

    Example:
        >>> from cnnpool.probe import Diagonal
        >>> from cnnpool.probe.base import example
        >>> found = Diagonal().measure(*example())
        >>> sorted(found)
        ['border', 'confidence_change', 'model_padding', 'samples', 'steps', 'top1_change']
    """

    section = "diagonal"
    quantities = (
        fraction(
            "top1_change",
            "top-1 change for 1 px along a diagonal",
            "Neighbouring pairs of positions, one pixel apart along a diagonal, with different top-1 "
            "classes, divided by all pairs and images (Azulay and Weiss 2019).",
            better="lower",
            shown="compare",
        ),
        ratio(
            "confidence_change",
            "change of confidence for 1 px along a diagonal",
            "Mean absolute change of the probability of the first position's top-1 class between "
            "neighbouring positions, one pixel apart along a diagonal.",
            better="lower",
            range=(0.0, 1.0),
        ),
    )

    samples: Count = 1000
    steps: Pixels = 8

    def read(self, model: nn.Module, stages: Stages, batch: Batch) -> Result:
        images, _, black, *_ = batch.first(self.samples)
        start = -(self.steps // 2)
        confidences = torch.stack(
            [
                logits(model, shift(images, d, d, circular=False, fill=black)).double().softmax(1)
                for d in range(start, start + self.steps + 1)
            ]
        )
        return {
            **jumps(confidences),
            "steps": self.steps,
            "border": "black",
            "samples": len(images),
            "model_padding": paddings(model),
        }


def jumps(confidences: Tensor) -> dict[str, float]:
    """Changes between neighbouring positions; confidences (positions, N, K).

    Returns:
        ``top1_change``: pairs of neighbours with different top-1 classes, divided by all pairs and images.
        ``confidence_change``: mean |p' - p| of the first position's top-1 class.

    Example:
        >>> import torch
        >>> from cnnpool.probe.diagonal import jumps
        >>> jumps(torch.tensor([[[0.75, 0.25]], [[0.25, 0.75]]]))
        {'top1_change': 1.0, 'confidence_change': 0.5}
    """
    before, after = confidences[:-1], confidences[1:]
    top = before.argmax(2, keepdim=True)
    return {
        "top1_change": (top != after.argmax(2, keepdim=True)).double().mean().item(),
        "confidence_change": (before.gather(2, top) - after.gather(2, top)).abs().mean().item(),
    }
