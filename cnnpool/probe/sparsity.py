"""Sparsity of a gradient: its zeros, and two measures that do not need exact zeros."""

import math

import torch
from torch import Tensor


def sparsity(gradient: Tensor, epsilon: float = 1e-3) -> dict[str, float]:
    """Sparsity of the gradients (N, ...) of N samples; each value is a mean over the samples.

    A sample whose gradient is zero throughout counts as the limit of a single entry among ever more:
    participation ratio 0, Hoyer 1.

    Returns:
        ``zero_fraction``: entries that are exactly zero, divided by all entries.
        ``small_fraction``: entries with |g| <= epsilon * max |g| of their sample, divided by all.
        ``participation_ratio``: (sum |g|)^2 / (D sum g^2) over a sample's D entries: 1 if all are equally
            large, 1/D for a single one.
        ``hoyer``: (sqrt(D) - |g|_1 / |g|_2) / (sqrt(D) - 1) (Hoyer 2004): 0 if all are equally large, 1 for a
            single one.

    Example:
        >>> import torch
        >>> from cnnpool.probe.sparsity import sparsity
        >>> sparsity(torch.tensor([[0.0, 0.0, 0.0, 2.0]]))
        {'zero_fraction': 0.75, 'small_fraction': 0.75, 'participation_ratio': 0.25, 'hoyer': 1.0}
    """
    magnitude = as_it_lies(gradient).abs()
    entries = magnitude.shape[1]
    largest = magnitude.amax(1, keepdim=True)
    # Scaled first: the measures are ratios, and squares of a loss gradient underflow in float32.
    scaled = magnitude / torch.where(largest > 0, largest, 1)
    first = scaled.sum(1, dtype=torch.float64)
    second = scaled.square().sum(1, dtype=torch.float64).clamp_min(1e-300)
    root = entries**0.5
    return {
        "zero_fraction": share(magnitude == 0),
        "small_fraction": share(magnitude <= epsilon * largest),
        "participation_ratio": (first.square() / (entries * second)).mean().item(),
        "hoyer": ((root - first / second.sqrt()) / max(root - 1, 1e-300)).clamp(0, 1).mean().item(),
    }


def reached(gradient: Tensor) -> Tensor:
    """Which inputs get gradient from each of N samples, (N, entries), for gradients (N, C, H, W)."""
    return as_it_lies(gradient) != 0


def expected_coverage(density: float, samples: int) -> float:
    """Coverage by independent samples that reach a share of ``density`` each: 1 - (1 - density)^samples."""
    return 1 - (1 - density) ** samples


def share(true: Tensor) -> float:
    """Share of true elements of a boolean tensor; NaN for an empty one."""
    return true.count_nonzero().item() / true.numel() if true.numel() else math.nan


def as_it_lies(x: Tensor) -> Tensor:
    """A row for each sample of (N, ...), in channels_last memory format without a copy."""
    return (x.movedim(1, -1) if x.dim() > 2 else x).flatten(1)


def phase_means(gradient: Tensor, stride: tuple[int, int]) -> Tensor:
    """Mean |g| at each of the stride's phases, (phases,), for gradients (N, C, H, W)."""
    magnitude = gradient.abs()
    return torch.stack(
        [
            magnitude[..., row :: stride[0], column :: stride[1]].mean(dtype=torch.float64)
            for row in range(min(stride[0], magnitude.shape[-2]))
            for column in range(min(stride[1], magnitude.shape[-1]))
        ]
    )


def imbalance(phases: Tensor) -> float:
    """Standard deviation of non-negative numbers divided by their mean; 0 if all are zero.

    Of ``phase_means`` 0 if all phases get as much; sqrt(s^2 - 1) if a single one of s^2 gets everything.
    """
    mean = phases.mean()
    return (phases.std(correction=0) / mean).item() if mean > 0 else 0.0
