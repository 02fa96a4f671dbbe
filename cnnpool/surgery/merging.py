"""Swin's patch merging, which downsamples (N, H, W, C): its dense form, with an operator behind it."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def merges(module: nn.Module) -> bool:
    """Whether ``module`` is torchvision's or timm's patch merging (Liu 2021, arXiv:2103.14030)."""
    parts = (getattr(module, "reduction", None), getattr(module, "norm", None))
    named = type(module).__name__.startswith("PatchMerging")
    return named and isinstance(parts[0], nn.Linear) and isinstance(parts[1], nn.Module)


class DenseMerging(nn.Module):
    """Patch merging at stride 1, of the very same parameters, then a downsampling operator.

    y = operator(W norm(x of the 2 x 2 cells from each position on)); with ``subsample`` of stride 2 that is
    patch merging itself. Cells beyond the map are zeros, as there.

    Args:
        merging: torchvision's or timm's module.
        operator: takes and returns (N, C, H, W).
    """

    def __init__(self, merging: nn.Module, operator: nn.Module):
        super().__init__()
        self.norm, self.reduction = merging.get_submodule("norm"), merging.get_submodule("reduction")
        shape = getattr(self.norm, "normalized_shape", ())
        # The second version of Swin normalises what the reduction returns.
        self.norm_first = tuple(shape) == (self.reduction.in_features,)
        self.operator = operator

    def dense(self, x: Tensor) -> Tensor:
        """(N, H, W, C) to the maps that the operator is to downsample, (N, C', H, W)."""
        x = F.pad(x, (0, 0, 0, 1, 0, 1))
        cells = (x[:, :-1, :-1], x[:, 1:, :-1], x[:, :-1, 1:], x[:, 1:, 1:])
        first, second = (self.norm, self.reduction) if self.norm_first else (self.reduction, self.norm)
        merged: Tensor = second(first(torch.cat(cells, -1)))
        return merged.movedim(-1, 1)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.operator(self.dense(x))
        return y.movedim(1, -1)


def ends_in_channels(module: nn.Module) -> bool:
    """Whether ``module`` takes and returns (N, H, W, C)."""
    return merges(module) or isinstance(module, DenseMerging)
