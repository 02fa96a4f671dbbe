"""A learnt filter per channel, with a stride."""

from cnnpool.pool.strided import StridedConv2d


class DepthwiseConv2d(StridedConv2d):
    """Strided convolution, one filter per channel: y_c = act(norm(w_c * x_c))[::s] (Howard 2017, MobileNet).

    A learnt counterpart of average and blur pooling: channels do not mix, k^2 C weights. The gradient of an
    input is the sum over the windows that cover it of w times the upstream gradient: with kernel 3 and stride
    2 an input is covered 1, 2 or 4 times.

    Edges: by default (kernel - 1)//2 zeros, or values by ``padding_mode``, so that an even H becomes H/2 for
    kernels 2 and 3.

    Args:
        channels: C of input and output.
        kernel_size: window, >= 1, or (vertical, horizontal).
        stride: >= 1, or (vertical, horizontal).
        padding: pixels on every side, >= 0; null for (kernel - 1)//2.
        padding_mode: their values: zeros, reflect, replicate or circular.
        norm: none or batch (then the convolution has no bias).
        activation: none, relu, gelu or silu.

    Raises:
        ValueError: if a number is out of range, or the output would be empty.

    Example:
        >>> import torch
        >>> from cnnpool.pool import DepthwiseConv2d
        >>> pool = DepthwiseConv2d(3)
        >>> pool(torch.rand(1, 3, 8, 8)).shape
        torch.Size([1, 3, 4, 4])
        >>> pool.conv.weight.shape
        torch.Size([3, 1, 3, 3])
    """

    formula = "act(norm(sum_i w_ci x_ci + b_c))"
    paper = "Howard 2017, arXiv:1704.04861"
    mixes = False
