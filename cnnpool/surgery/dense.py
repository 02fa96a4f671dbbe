"""Dense versions of layers that downsample in special ways: Swin's patch merging, Same convolutions."""

import copy
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cnnpool.pool.leaves import Leaf


def merges(module: nn.Module) -> bool:
    """Whether ``module`` is torchvision's or timm's patch merging (Liu 2021, arXiv:2103.14030)."""
    parts = (getattr(module, "reduction", None), getattr(module, "norm", None))
    named = type(module).__name__.startswith("PatchMerging")
    return named and isinstance(parts[0], nn.Linear) and isinstance(parts[1], nn.Module)


class DenseMerging(nn.Module):
    """Patch merging of torchvision or timm at stride 1: y = operator(W norm(x of 2 x 2 cells)).

    The parameters are shared, and ``subsample`` gives patch merging itself, with zeros beyond the map.
    """

    def __init__(self, merging: nn.Module, operator: nn.Module):
        super().__init__()
        self.norm, self.reduction = merging.get_submodule("norm"), merging.get_submodule("reduction")
        shape = getattr(self.norm, "normalized_shape", ())
        # The second version of Swin normalises the reduction's output.
        self.norm_first = tuple(shape) == (self.reduction.in_features,)
        self.operator = operator

    def dense(self, x: Tensor) -> Tensor:
        """(N, H, W, C) to the maps to be downsampled by the operator, (N, C', H, W)."""
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


def pads_by_stride(conv: nn.Conv2d, dense: nn.Conv2d, like: Tensor) -> bool:
    """Whether ``conv``, ``dense`` at stride 1, is a Same convolution, whose padding depends on its stride.

    timm's are known by name, others by what they make of noise of the type and channels of ``like``.
    """
    if type(conv).__name__.endswith("Same"):
        return bool(getattr(conv, "same_pad", True))
    if not isinstance(conv, nn.Conv2d) or type(conv).forward is nn.Conv2d.forward:
        return False
    draw = torch.Generator().manual_seed(0)
    axes = list(zip(conv.kernel_size, conv.dilation, conv.stride, strict=True))
    # At some sizes both paddings are the same.
    sizes = [[d * k + 2 * s + more for k, d, s in axes] for more in range(max(conv.stride))]
    noise = [torch.randn(1, like.shape[1], *size, generator=draw).to(like) for size in sizes]

    def fits(form: Callable[[Tensor], Tensor]) -> bool:
        return all(_samples(form(x), conv.forward(x), conv.stride) for x in noise)

    try:
        # Together, as they share what they may write.
        conv, dense = copy.deepcopy((conv, dense))
        # Plain ones are not called, so that no hooks see noise.
        with torch.random.fork_rng([like.device] if like.is_cuda else []):
            return not fits(dense.forward) and fits(DenseSameConv2d(dense, conv.stride))
    # Third-party forward methods may raise any exception.
    except Exception:
        return False


def _samples(y: Tensor, wanted: Tensor, stride: Sequence[int]) -> bool:
    """Whether ``wanted`` is every s-th value of ``y``, within rounding of short types."""
    y, wanted = y[:, :, :: stride[0], :: stride[1]].float(), wanted.float()
    return y.shape == wanted.shape and bool((y - wanted).norm() <= 0.05 * wanted.norm())


class DenseSameConv2d(Leaf):
    """A Same convolution at stride 1 whose every s-th value equals the output at stride s.

    Along n pixels, SAME of stride s, window k and dilation d adds
    t(s) = max(0, (ceil(n / s) - 1) s + d (k - 1) + 1 - n) zeros, floor(t / 2) of them in front. At stride 1
    there are more in front, so all windows lie floor(t(1) / 2) - floor(t(s) / 2) pixels earlier; that many
    values are added at the end and dropped in front. ``dense`` is the convolution at stride 1.
    """

    def __init__(self, dense: nn.Conv2d, stride: Sequence[int]):
        super().__init__()
        self.dense = dense
        self.stride = (stride[0], stride[1])

    def forward(self, x: Tensor) -> Tensor:
        down, across = self._early(0, x.shape[2]), self._early(1, x.shape[3])
        y: Tensor = self.dense(F.pad(x, (0, across, 0, down)))
        return y[:, :, down:, across:]

    def _early(self, axis: int, size: int) -> int:
        """Number of pixels by which the windows lie earlier at stride 1."""
        stride, reach = self.stride[axis], self.dense.dilation[axis] * (self.dense.kernel_size[axis] - 1)
        zeros = max(0, (-(-size // stride) - 1) * stride + reach + 1 - size)
        return reach // 2 - zeros // 2

    def extra_repr(self) -> str:
        return f"stride={self.stride}"
