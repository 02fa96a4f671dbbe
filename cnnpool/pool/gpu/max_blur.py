"""The maximum of 2x2 windows around every pixel, blurred, on a GPU, in two steps."""

from torch import Tensor

from cnnpool.pool.autograd.separable import Blurring
from cnnpool.pool.gpu import linear, max
from cnnpool.pool.gpu.places import empty
from cnnpool.pool.window import memory_format, wide_of

# Kernel, stride, padding and dilation; the last windows overhang. A single fused step would read every
# pixel sixteen times.
DENSE = (2, 2, 1, 1, 0, 0, 1, 1)


def forward(x: Tensor, blurring: Blurring) -> tuple[Tensor, Tensor]:
    """Blurred maxima (N, C, H', W') and winners of the dense maxima, uint8, (N, C, H, W)."""
    last = blurring.channels_last
    x = x.contiguous(memory_format=memory_format(last))
    dense, winners = max.pool(x, DENSE, blurring.size, last)
    return linear.pool(dense, blurring, False), winners


def backward(grad: Tensor, winners: Tensor, blurring: Blurring) -> Tensor:
    """Gradient (N, C, H, W) of the input; half precision is summed in float32 and rounded once."""
    dense, last = linear.pool(grad, blurring, True, wide_of(grad)), blurring.channels_last
    # Saved-tensor hooks may change the memory format.
    winners = winners.contiguous(memory_format=memory_format(last))
    return max.spread(dense, winners, DENSE, empty(winners, blurring.size, grad.dtype, last), last)
