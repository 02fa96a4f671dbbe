"""Gradient routing at one stage, summed up over the parts of a batch."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from cnnpool.probe.gradient_taps import Tap
from cnnpool.probe.parts import mean_over
from cnnpool.probe.sparsity import expected_coverage, imbalance, phase_means, reached, share, sparsity
from cnnpool.probe.windows import WinnerSums, shares_of, stride_of, tie_rule, ties, winner_sums


class StageRouting:
    """The results of ``GradientRouting`` for one stage, all but those of its filters.

    Args:
        operator: the stage's.
        epsilon: as in ``GradientRouting``.
    """

    def __init__(self, operator: nn.Module, epsilon: float):
        self.operator, self.epsilon = operator, epsilon
        self.counts: list[int] = []
        self.densities: list[float] = []
        self.reached: Tensor | None = None
        self.phases: list[Tensor] = []
        self.sparsities: list[dict[str, float]] = []
        self.before: list[dict[str, float]] = []
        self.ties: list[dict[str, float]] = []
        self.winners: list[WinnerSums] = []

    def add(self, tap: Tap) -> None:
        """Count one part of the batch."""
        entries = reached(tap.gradient)
        self.counts.append(len(tap.gradient))
        self.densities.append(share(entries))
        self.reached = entries.any(0) if self.reached is None else self.reached | entries.any(0)
        self.phases.append(phase_means(tap.gradient, stride_of(self.operator)))
        self.sparsities.append(sparsity(tap.gradient, self.epsilon))
        self.ties.append(ties(tap.activation, self.operator))
        if (sums := winner_sums(tap.activation, self.operator)) is not None:
            self.winners.append(sums)
        if tap.before is not None:
            self.before.append(sparsity(tap.before, self.epsilon))

    def result(self) -> dict[str, Any]:
        """The results over all parts, of which there must be one at least."""
        assert self.reached is not None
        samples = sum(self.counts)
        result: dict[str, Any] = {
            **self._means(self.sparsities),
            "coverage": share(self.reached),
            "coverage_iid": expected_coverage(mean_over(self.densities, self.counts), samples),
            **self._means(self.ties),
            "phase_imbalance": imbalance(mean_over(self.phases, self.counts)),
            "ties": tie_rule(self.operator),
            "samples": samples,
        }
        if self.winners:
            result |= shares_of(self.winners)
        if self.before:
            result["before_activation"] = self._means(self.before)
        return result

    def _means(self, found: Sequence[dict[str, float]]) -> dict[str, float]:
        return {key: mean_over([one[key] for one in found], self.counts) for key in found[0]}
