"""The s x s phases of a map, chosen or mixed sample by sample: :func:`sample_phase`."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from cnnpool.pool.autograd.linear import LinearMap, transpose
from cnnpool.pool.blur import blur_pool2d
from cnnpool.pool.cells import added, cells
from cnnpool.pool.dispatch import is_plain, kernels
from cnnpool.pool.edges import pad
from cnnpool.pool.internals import holds, is_exported, is_watched
from cnnpool.pool.window import ceil_div, is_channels_last, laid_out, wide, window_of


def complete(x: Tensor, stride: tuple[int, int]) -> Tensor:
    """``x`` with its first rows and columns appended until the strides divide its size."""
    (sh, sw), (height, width) = stride, x.shape[-2:]
    if holds(height % sh == 0) and holds(width % sw == 0):
        return x
    return pad(x, (0, ceil_div(width, sw) * sw - width, 0, ceil_div(height, sh) * sh - height), "circular")


def components(x: Tensor, stride: tuple[int, int]) -> list[Tensor]:
    """Phase i*sw + j of a complete map is x[i::sh, j::sw], (N, C, H', W')."""
    return cells(x, window_of(stride, stride, 0))


def blocks(x: Tensor, stride: tuple[int, int]) -> Tensor:
    """View (N, C, H', sh, W', sw) of a complete map."""
    (sh, sw), (height, width) = stride, x.shape[-2:]
    # unflatten does not support batched gradients.
    return x.view(*x.shape[:-2], height // sh, sh, width // sw, sw)


def sample_phase(
    x: Tensor, phase: Tensor, stride: tuple[int, int], filter_size: tuple[int, int] = (1, 1)
) -> Tensor:
    """One phase per sample, or a weighted sum of all, (N, C, ceil(H/s), ceil(W/s)), in the format of ``x``.

    ``phase`` holds whole numbers 0..P-1, (N,), with P the product of the strides, or floating weights, (N, P)
    or (N, P, C); see ``checked_phase``. A circular binomial blur of ``filter_size`` taps may come before.
    """
    x = complete(x, stride)
    if filter_size != (1, 1):
        x = blur_pool2d(x, filter_size, 1, "circular")
    phase = checked_phase(x, phase, stride[0] * stride[1])
    if not phase.is_floating_point():
        lattice = Lattice(stride, (x.shape[-2], x.shape[-1]), is_channels_last(x))
        # Without the autograd function compilers make one graph for maps of any size.
        plain = torch.compiler.is_compiling() or is_exported()
        return _take(x, lattice, phase) if plain else PHASE(x, lattice, phase)
    weights = phase.unsqueeze(2) if phase.dim() == 2 else phase
    parts = zip(components(wide(x), stride), weights.unbind(1), strict=True)
    return added(part * weight[..., None, None] for part, weight in parts).to(x.dtype)


def checked_phase(x: Tensor, phase: Tensor, count: int) -> Tensor:
    """``phase``, whole numbers as int64, or a ValueError unless it chooses or weighs ``count`` phases for
    each sample of ``x``; for one out of range an IndexError on the CPU.
    """
    if phase.dtype == torch.bool or phase.is_complex():
        raise ValueError(f"phase must be whole numbers, or floating weights, got {phase.dtype}")
    shapes: list[tuple[int, ...]] = [x.shape[:1]]
    if phase.is_floating_point():
        shapes = [(x.shape[0], count), (x.shape[0], count, x.shape[1])]
    if all(phase.shape != shape for shape in shapes):
        wanted = " or ".join(str(tuple(shape)) for shape in shapes)
        raise ValueError(f"phase must be {wanted}, got {tuple(phase.shape)}")
    if phase.is_floating_point():
        return phase
    phase = phase.long()
    # On a GPU that would synchronise.
    readable = not torch.compiler.is_compiling() and not is_watched() and phase.is_cpu and is_plain(phase)
    if readable and len(phase):
        least, most = phase.aminmax()
        if least < 0 or most >= count:
            raise IndexError(f"phase must be 0 to {count - 1}, got {least} to {most}")
    return phase


class Lattice(NamedTuple):
    """The strides, size and memory format needed to take a phase and to put it back."""

    stride: tuple[int, int]
    size: tuple[int, int]
    channels_last: bool


def _take(x: Tensor, lattice: Lattice, phase: Tensor) -> Tensor:
    if kernel := _kernel(x, phase):
        y: Tensor = kernel.take(x, phase, lattice.stride, lattice.channels_last)
        return y
    return _taken(x, lattice, phase)


def _taken(x: Tensor, lattice: Lattice, phase: Tensor) -> Tensor:
    """One phase per sample, by torch's operators."""
    whole, samples, across = slice(None), torch.arange(x.shape[0], device=x.device), lattice.stride[1]
    row = torch.div(phase, across, rounding_mode="floor")
    chosen = blocks(x, lattice.stride)[samples, whole, whole, row, whole, phase - row * across]
    return laid_out(chosen, lattice.channels_last)


def _put(y: Tensor, lattice: Lattice, phase: Tensor) -> Tensor:
    if kernel := _kernel(y, phase):
        x: Tensor = kernel.put(y, phase, lattice.stride, lattice.channels_last)
        return x
    return laid_out(transpose(lambda x: _taken(x, lattice, phase), y, lattice.size), lattice.channels_last)


def _kernel(x: Tensor, phase: Tensor) -> Any:
    kernel = kernels("phases", x)
    return kernel if kernel is not None and is_plain(phase) else None


PHASE = LinearMap(_take, _put)
