"""The partial inverse of max pooling: :func:`max_unpool2d`."""

from collections.abc import Sequence

import torch
from torch import Tensor

from cnnpool.pool.autograd.linear import LinearMap
from cnnpool.pool.autograd.winners import Route, indices_of, scatter, winners_dtype
from cnnpool.pool.dispatch import is_plain
from cnnpool.pool.leaves import one_node
from cnnpool.pool.window import (
    IntPair,
    Misfit,
    Window,
    check_floating,
    is_channels_last,
    laid_out,
    window_of,
)


@one_node
def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: IntPair,
    stride: IntPair | None = None,
    padding: IntPair = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Put maxima back where they came from, among zeros (Zeiler 2011), as ``torch.nn.functional`` does.

    Deterministic on every device: if several maxima come from one place, the last in row-major order is put
    there and gets the gradient.

    Args:
        input: maxima, (N, C, H', W') or (C, H', W'), any floating dtype, which the result keeps.
        indices: of the same shape: int64, row * W + column in the plane, as ``max_pool2d`` with
            ``return_indices`` or torch returns them; or an integer of fewer bits, the place in the window, as
            ``max_pool2d_with_winners`` returns it.
        kernel_size: of the pooling, as its ``stride`` and ``padding``.
        output_size: (H, W), or any sequence that ends with it; less than a stride from the default, H = (H' -
            1) s - 2 p + k.

    Example:
        >>> y, indices = max_pool2d(torch.tensor([[[[1.0, 2.0], [4.0, 3.0]]]]), 2, return_indices=True)
        >>> max_unpool2d(y, indices, 2)
        tensor([[[[0., 0.],
                  [4., 0.]]]])
    """
    check_floating(input)
    window = window_of(kernel_size, stride, padding)
    if input.shape != indices.shape or input.dim() not in (3, 4) or min(input.shape[-3:]) < 1:
        raise Misfit(
            "max_unpool2d takes maxima (N, C, H', W') or (C, H', W') and indices of the same shape, got "
            f"{tuple(input.shape)} and {tuple(indices.shape)}"
        )
    if indices.is_floating_point() or indices.dtype == torch.bool:
        raise Misfit(f"indices must be integers, got {indices.dtype}")
    size = _size(window, (input.shape[-2], input.shape[-1]), output_size)
    batch = (input, indices) if input.dim() == 4 else (input.unsqueeze(0), indices.unsqueeze(0))
    y = laid_out(_unpooled(*batch, window, size), is_channels_last(batch[0]))
    return y if input.dim() == 4 else y.squeeze(0)


def _unpooled(x: Tensor, indices: Tensor, window: Window, size: tuple[int, int]) -> Tensor:
    if indices.dtype == torch.int64:
        _check(indices, size[0] * size[1], f"a {size[0]}x{size[1]} map")
        return _unpool(x, indices, size)
    _check(indices, window.cells, f"a window of {window.cells} cells")
    # Kernels read winners in the type that they write.
    indices = indices.to(winners_dtype(window.kernel, "first"))
    if window.output_size(*size) == x.shape[-2:] and not window.overlaps and not any(window.padding):
        # No two maxima share a place, so the kernels of the gradient can put them there.
        return scatter(x, indices, Route(window, "first", size, is_channels_last(x)))
    flat = indices_of(indices, window, *size)
    _check(flat, size[0] * size[1], f"a {size[0]}x{size[1]} map")
    return _unpool(x, flat, size)


def _size(window: Window, pooled: tuple[int, int], output_size: Sequence[int] | None) -> tuple[int, int]:
    sizes = zip(pooled, *window[:3], strict=True)
    default = tuple((length - 1) * s - 2 * p + k for length, k, s, p in sizes)
    size = default if output_size is None else tuple(output_size)[-2:]
    near = zip(size, default, window.stride, strict=False)
    if len(size) < 2 or min(size) < 1 or any(abs(length - usual) >= s for length, usual, s in near):
        wanted = "no map" if output_size is None else f"output_size={tuple(output_size or ())}"
        raise Misfit(
            f"max_unpool2d makes {wanted} of a {pooled[0]}x{pooled[1]} map, but {default} give or take less "
            f"than a stride: kernel_size={window.kernel}, stride={window.stride}, padding={window.padding}"
        )
    return size[0], size[1]


def _check(index: Tensor, count: int, what: str) -> None:
    # Not on a GPU, where reading the indices would synchronise; torch's operators assert there.
    if not torch.compiler.is_compiling() and index.is_cpu and is_plain(index):
        least, most = index.aminmax()
        if least < 0 or most >= count:
            raise Misfit(f"indices must be 0 to {count - 1} in {what}, got {least} to {most}")


def _unpool(x: Tensor, index: Tensor, size: tuple[int, int]) -> Tensor:
    """Zeros (N, C, *size) with the elements of ``x`` (N, C, H', W') at the places ``index`` in their planes;
    of several at one place the last in row-major order, on every device and in every run.
    """
    order = torch.arange(index.shape[-2] * index.shape[-1], device=index.device)
    flat = index.flatten(2)
    # The largest of several does not depend on their order.
    owner = flat.new_full((*flat.shape[:2], size[0] * size[1]), -1)
    owner = owner.scatter_reduce(2, flat, order.expand_as(flat), "amax")
    y: Tensor = UNPOOL(x.flatten(2), None, flat, owner).unflatten(2, size)
    return y


def _spread(x: Tensor, _: None, index: Tensor, owner: Tensor) -> Tensor:
    # ``owner`` is the element of each place, or -1.
    return torch.where(owner < 0, 0, x.gather(2, owner.clamp(min=0)))


def _collect(grad: Tensor, _: None, index: Tensor, owner: Tensor) -> Tensor:
    order = torch.arange(index.shape[2], device=index.device)
    return torch.where(owner.gather(2, index) == order, grad.gather(2, index), 0)


UNPOOL = LinearMap(_spread, _collect)
