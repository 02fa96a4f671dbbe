"""Why an output took what it took: ties and who won them, phases and what they were chosen by."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from cnnpool.pool import ApsPool2d, LpsPool2d
from cnnpool.pool.autograd.phases import complete, components
from cnnpool.pool.polyphase import PolyphasePool2d


class Tie(NamedTuple):
    """Equal inputs of a window of which the output is one, and those of them that get the gradient."""

    value: float
    equals: list[tuple[int, int]]
    winners: list[tuple[int, int]]

    @property
    def rule(self) -> str:
        """first, last or split, as the gradient went."""
        if self.winners == self.equals:
            return "split"
        ends = {self.equals[0]: "first", self.equals[-1]: "last"}
        return ends.get(self.winners[0], "other") if len(self.winners) == 1 else "other"


def tie(image: Tensor, window: Tensor, output: float, derivative: Tensor) -> Tie | None:
    """The tie that decides where the gradient of one output goes, if there is one; all maps are (H, W)."""
    equal = window & (image == output)
    if equal.sum() < 2 or not derivative.any() or derivative[~equal].any():
        return None
    places = [tuple(place) for place in equal.nonzero().tolist()]
    return Tie(output, places, [place for place in places if derivative[place]])


class Phase(NamedTuple):
    """One way to subsample an image: its first pixel, its strides, and what the operator makes of it."""

    start: tuple[int, int]
    stride: tuple[int, int]
    score: float | None
    weight: float


def phases(operator: nn.Module, images: Tensor) -> tuple[str, list[list[Phase]]]:
    """The score of phases in words, and the phases of each sample; none for an operator without phases.

    The weight is 1 for a phase that is kept and 0 for the others, or the share of each in a mixture. Reads
    what the latest forward pass sampled, so ``keep_phase`` must have been set before it.
    """
    if not isinstance(operator, PolyphasePool2d):
        return "", []
    whole, stride = complete(images, operator.stride), operator.stride
    assert operator.phase is not None
    weights = operator.phase.detach()
    if not weights.is_floating_point():
        weights = nn.functional.one_hot(weights, stride[0] * stride[1])
    weights = weights.flatten(1)
    label, scores = "", [[None] * weights.shape[1]] * len(images)
    if isinstance(operator, ApsPool2d):
        parts = torch.stack(components(whole, stride), 1).flatten(2)
        label, scores = f"||x_k||_{operator.p:g}", torch.linalg.vector_norm(parts, operator.p, 2).tolist()
    elif isinstance(operator, LpsPool2d):
        label, scores = "logit", operator.logits(whole).tolist()
    return label, [
        [
            Phase(divmod(k, stride[1]), stride, score, weight)
            for k, (score, weight) in enumerate(zip(sample, row, strict=True))
        ]
        for sample, row in zip(scores, weights.tolist(), strict=True)
    ]
