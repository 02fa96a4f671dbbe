"""Average pooling under autograd: it is linear, so nothing is saved for backward."""

import torch
import torch.nn.functional as F
from torch import Tensor

from cnnpool.pool.autograd.kernels import LinearKernels
from cnnpool.pool.autograd.linear_maps import Averaging, Counting
from cnnpool.pool.autograd.transforms import LinearMap
from cnnpool.pool.dispatch import kernels
from cnnpool.pool.window import Window, memory_format, wide


def forward(x: Tensor, averaging: Averaging) -> Tensor:
    """Means (N, C, H', W') of ``x`` (N, C, H, W); no autograd."""
    window, counting = averaging[:2]
    kernel: LinearKernels | None = kernels("linear", x, cells=window.cells)
    if kernel is not None:
        return kernel.average(x, averaging, False)
    return F.avg_pool2d(x, *window[:3], window.ceil_mode, *counting)


def adjoint(grad: Tensor, averaging: Averaging) -> Tensor:
    """Gradient of the (N, C, *size) input; no autograd."""
    window, counting, size, channels_last = averaging
    kernel: LinearKernels | None = kernels("linear", grad, cells=window.cells)
    if kernel is not None:
        return kernel.average(grad, averaging, True)
    # Summed in float32 and rounded once, where an input belongs to several windows.
    exact = wide(grad) if window.overlaps else grad
    height, width = size
    if window.ceil_mode:
        # Enlarge the map until no window overhangs: torch's compiler computes wrong counts otherwise.
        exact = exact / _counts(exact, window, counting, size)
        counting = Counting(True, 1)
        _, right, _, bottom = window.pads(height, width)
        height += max(0, bottom - window.padding[0])
        width += max(0, right - window.padding[1])
    layout = memory_format(channels_last)
    like = torch.empty(
        (*grad.shape[:2], height, width), dtype=exact.dtype, device=exact.device, memory_format=layout
    )
    out: Tensor = torch.ops.aten.avg_pool2d_backward(exact, like, *window[:3], False, *counting)
    if (height, width) != size:
        # A negative padding crops to a fresh tensor: batched gradients cannot pass through a full slice.
        out = F.pad(out, (0, size[1] - width, 0, size[0] - height))
    return out.to(grad.dtype)


MEANS = LinearMap(forward, adjoint)


def summed(x: Tensor, window: Window, divisor: int) -> Tensor:
    """Sums divided by ``divisor``, as means times the number of cells: ONNX has no other divisor."""
    means = F.avg_pool2d(x, *window[:3], window.ceil_mode)
    whole = Counting(True, None)
    counts = _counts(means, window, whole, (x.shape[-2], x.shape[-1])) if window.ceil_mode else window.cells
    return means * (counts / divisor)


def _counts(like: Tensor, window: Window, counting: Counting, size: tuple[int, int]) -> Tensor | int:
    if counting.override is not None:
        return counting.override
    sides: list[Tensor] = []
    for length, k, s, p in zip(size, *window[:3], strict=True):
        start = torch.arange(like.shape[-2 + len(sides)], device=like.device) * s - p
        outer = p if counting.include_pad else 0
        sides.append((start + k).clamp(max=length + outer) - start.clamp(min=-outer))
    return sides[0][:, None] * sides[1]
