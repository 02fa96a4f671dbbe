"""Pooling of volumes, such as scans, (N, C, D, H, W) -> (N, C, D', H', W'): in two passes of maps."""

from functools import partial
from typing import Any

from torch import Tensor, nn

from cnnpool.pool.avg import AvgPool2d
from cnnpool.pool.base import LikeTorch, Pool2d
from cnnpool.pool.blur import BlurPool2d
from cnnpool.pool.max import MaxPool2d
from cnnpool.pool.sequence import ROWS, RULES, Named, sizes_and_rules
from cnnpool.pool.subsample import Subsample2d

SEPARABLE = (MaxPool2d, AvgPool2d, BlurPool2d, Subsample2d)
"""Operators that give the same along two axes and then the third as along all three at once."""


class Pool3d(nn.Module):
    """A separable operator for volumes: (N, C, D, H, W) -> (N, C, D', H', W'), over H and W, then over D.

    Outputs and gradients of a maximum are torch's, to the last bit where windows do not overlap; means and
    blurs are those of the whole window up to rounding.

    Args:
        operator: max, average, blur or subsampling, for maps.
        channels: C of the input.
        options: of ``operator``, its sizes one number each or (depth, vertical, horizontal); ``device`` and
            ``dtype``.

    Raises:
        ValueError: for another operator, or ties that are split; as in ``operator``.

    Example:
        >>> import torch
        >>> from cnnpool.pool import BlurPool2d, Pool3d
        >>> Pool3d(BlurPool2d, 3, stride=(1, 2, 2))(torch.rand(1, 3, 6, 8, 8)).shape
        torch.Size([1, 3, 6, 4, 4])
    """

    def __init__(self, operator: type[Pool2d], channels: int, **options: Any):
        super().__init__()
        if operator not in SEPARABLE:
            known = ", ".join(each.__name__ for each in SEPARABLE)
            raise ValueError(
                f"{getattr(operator, '__name__', operator)} has no form for volumes: use {known}"
            )
        if options.get("ties") == "split":
            raise ValueError("ties must be first or last in volumes, got 'split'")
        sizes, rules = sizes_and_rules(operator, options)
        triples = {name: _triple(name, size) for name, size in sizes.items()}
        planes: dict[str, Any] = {name: size[1:] for name, size in triples.items()}
        depth: dict[str, Any] = {name: (size[0], ROWS[name]) for name, size in triples.items()}
        # Only the second pass divides.
        once = {"divisor_override": 1} if "divisor_override" in rules else {}
        self.planes = operator(channels, **planes, **rules | once)
        self.depth = operator(channels, **depth, **rules)
        # The same attributes as torch's modules have.
        for name in filter(partial(hasattr, self.depth), (*triples, *RULES)):
            setattr(self, name, triples.get(name, getattr(self.depth, name)))

    def output_size(self, depth: int, height: int, width: int) -> tuple[int, int, int]:
        """(D', H', W') for an input of (D, H, W).

        Raises:
            ValueError: if the output would be empty.
        """
        return self.depth.output_size(depth, 1)[0], *self.planes.output_size(height, width)

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() not in (4, 5):
            raise ValueError(
                f"pooling of volumes takes (N, C, D, H, W) or (C, D, H, W), got {tuple(x.shape)}"
            )
        slices = x.shape[-4:-2]
        y = self.planes(x.flatten(-4, -3)).unflatten(-3, slices)
        pooled: Tensor = self.depth(y.flatten(-2)).unflatten(-1, y.shape[-2:])
        return pooled


def _triple(name: str, size: Any) -> tuple[Any, ...]:
    """(depth, vertical, horizontal)."""
    sizes = tuple(size) if isinstance(size, tuple | list) else (size,) * 3
    if len(sizes) != 3:
        raise ValueError(f"{name} must be one number or (depth, vertical, horizontal), got {size!r}")
    return sizes


class MaxPool3d(LikeTorch, Named, Pool3d):
    """Largest value of each window of a volume; options of ``MaxPool2d``.

    Example:
        >>> import torch
        >>> from cnnpool.pool import MaxPool3d
        >>> MaxPool3d(3)(torch.rand(1, 3, 4, 8, 8)).shape
        torch.Size([1, 3, 2, 4, 4])
    """

    torch_module = nn.MaxPool3d
    operator_class = MaxPool2d


class AvgPool3d(LikeTorch, Named, Pool3d):
    """Mean of each window of a volume; options of ``AvgPool2d``.

    Example:
        >>> import torch
        >>> from cnnpool.pool import AvgPool3d
        >>> AvgPool3d.like(torch.nn.AvgPool3d((1, 2, 2)))(torch.rand(1, 3, 4, 8, 8)).shape
        torch.Size([1, 3, 4, 4, 4])
    """

    torch_module = nn.AvgPool3d
    operator_class = AvgPool2d


class BlurPool3d(Named, Pool3d):
    """Binomial blur of a volume, then subsampling; options of ``BlurPool2d``.

    Example:
        >>> import torch
        >>> from cnnpool.pool import BlurPool3d
        >>> BlurPool3d(3)(torch.rand(1, 3, 4, 8, 8)).shape
        torch.Size([1, 3, 2, 4, 4])
    """

    operator_class = BlurPool2d
