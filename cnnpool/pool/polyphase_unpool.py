"""The upsampling that belongs to polyphase sampling: :func:`polyphase_unpool2d`."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from cnnpool.pool.blur import blur_pool2d
from cnnpool.pool.window import IntPair, ceil_div, check_batch, is_channels_last, memory_format, pair


def polyphase_unpool2d(
    x: Tensor,
    phase: Tensor,
    stride: IntPair = 2,
    *,
    filter_size: IntPair = 1,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Put a map back on the pixels that ``aps`` or ``lps`` took, among zeros (Chaman & Dokmanic 2021, APS-U).

    y[i sh + p, j sw + q] = x[i, j] for phase p sw + q. Paired with the sampling that chose the phase, a
    circular shift of the larger map shifts the result by as much, while x alone moves by a fraction of it or
    not at all. So a network of circular convolutions and such pairs commutes with every circular shift, as
    long as the strides divide its sizes (arXiv:2105.04040).

    Args:
        x: (N, C, H', W'), any floating dtype, which the result keeps with its memory format.
        phase: result of the paired operator's ``choose``: whole numbers, (N,); or weights, floating, (N, P)
            or (N, P, C), by which each phase gets its share, as ``lps`` mixes phases in training.
        stride: of the sampling, >= 1, or (vertical, horizontal).
        filter_size: taps of a circular binomial blur afterwards, which fills the zeros; the result is scaled
            by the product of the strides, so that a constant map stays constant.
        output_size: (H, W), ceil(H/s) = H'; None for s H', s W'.

    Example:
        >>> y, phase = aps_pool2d(torch.tensor([[[[1.0, 2.0], [4.0, 3.0]]]]))
        >>> polyphase_unpool2d(y, phase)
        tensor([[[[0., 0.],
                  [4., 0.]]]])
    """
    check_batch(x, "polyphase_unpool2d")
    steps, taps = pair(stride, "stride", least=1), pair(filter_size, "filter_size", least=1)
    (height, width), count = x.shape[-2:], math.prod(steps)
    size = tuple(output_size or (height * steps[0], width * steps[1]))
    if len(size) != 2 or tuple(map(ceil_div, size, steps)) != (height, width):
        raise ValueError(f"output_size={size} is not of a {height}x{width} map at stride={steps}")
    expected = [(len(x), count), (len(x), count, x.shape[1])] if phase.is_floating_point() else [(len(x),)]
    if tuple(phase.shape) not in expected:
        raise ValueError(f"phase must be {' or '.join(map(str, expected))}, got {tuple(phase.shape)}")
    cells = x[:, :, :, None, :, None]
    if phase.is_floating_point():
        weights = phase.to(x.dtype).reshape(len(x), count, -1).movedim(1, 2).unflatten(2, steps)
        y = cells * weights[:, :, None, :, None, :]
    else:
        chosen = F.one_hot(phase, count).bool().unflatten(1, steps)
        y = torch.where(chosen[:, None, None, :, None, :], cells, 0)
    y = y.flatten(4, 5).flatten(2, 3).contiguous(memory_format=memory_format(is_channels_last(x)))
    if taps != (1, 1):
        y = blur_pool2d(y, taps, 1, "circular") * count
    cut: Tensor = y[..., : size[0], : size[1]]
    return cut
