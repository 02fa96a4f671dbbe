"""Gradient routing: how much of a feature map gets gradient back through each downsampling stage."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from cnnpool.bounds import Count, CountOrZero, Share
from cnnpool.probe.base import Result, examined
from cnnpool.probe.gradient_taps import Tap, adjacent_weights, backpropagate
from cnnpool.probe.sparsity import coverage, phase_imbalance, sparsity
from cnnpool.probe.windows import stride_of, tie_rule, ties, winner_shares
from cnnpool.registry import checked


@checked
class GradientRouting:
    """Sparsity, coverage, ties and winners at every stage, from the real loss gradient of a batch.

    By stage: ``sparsity`` and ``coverage`` of the gradient at the stage's input, the same sparsity in
    ``before_activation``, and for the batch gradient of the learnt filters next to it in ``weights_before``,
    ``weights_own`` and ``weights_after``; ``ties`` (the rule in force), tied and zero windows, ``winners`` by
    place in the window, ``phase_imbalance``.

    Args:
        samples: images of the probe batch, >= 1; coverage depends on it.
        epsilon: a gradient under epsilon times the sample's largest counts as small, 0..1.
        every_epochs: read after every so many epochs; 0: only at the end.

    Raises:
        ValueError: if an option is out of range.
    """

    section = "gradient"

    def __init__(self, *, samples: Count = 128, epsilon: Share = 1e-3, every_epochs: CountOrZero = 1):
        self.samples = samples
        self.epsilon = epsilon
        self.every_epochs = every_epochs

    def measure(
        self,
        model: nn.Module,
        stages: Mapping[str, nn.Module],
        images: Tensor,
        labels: Tensor,
        black: Tensor | None = None,
    ) -> Result:
        images, labels = images[: self.samples], labels[: self.samples]
        layers = adjacent_weights(model, stages, images[:1])
        weights = {id(p): p for sides in layers.values() for p in sides.values()}
        taps, gradients = backpropagate(model, stages, images, labels, list(weights.values()))
        by_weight = dict(zip(weights, gradients, strict=True))
        result: Result = {}
        with examined(model):
            for stage, tap in taps.items():
                sides = {side: by_weight[id(p)] for side, p in layers[stage].items()}
                result[stage] = routing(tap, stages[stage], sides, self.epsilon)
        return result


def routing(
    tap: Tap, operator: nn.Module, weights: Mapping[str, Tensor], epsilon: float = 1e-3
) -> dict[str, Any]:
    """All that ``GradientRouting`` reports of one stage."""
    result: dict[str, Any] = {
        **sparsity(tap.gradient, epsilon),
        **coverage(tap.gradient),
        **ties(tap.activation, operator),
        "phase_imbalance": phase_imbalance(tap.gradient, stride_of(operator)),
        "ties": tie_rule(operator),
        "samples": len(tap.gradient),
    }
    if (shares := winner_shares(tap.activation, operator)) is not None:
        result["winners"] = shares
    if tap.before is not None:
        result["before_activation"] = sparsity(tap.before, epsilon)
    for side, gradient in weights.items():
        # One gradient: the batch's.
        result[f"weights_{side}"] = sparsity(gradient[None], epsilon)
    return result
