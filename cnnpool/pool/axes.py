"""Operators for maps on sequences, such as audio, as maps of one row, and on volumes, such as scans."""

from typing import Any

from torch import Tensor, nn

from cnnpool.pool.avg import AvgPool2d
from cnnpool.pool.base import Pool2d
from cnnpool.pool.blur import BlurPool2d
from cnnpool.pool.leaves import Leaf
from cnnpool.pool.lip import LipPool2d
from cnnpool.pool.max import MaxPool2d
from cnnpool.pool.subsample import Subsample2d
from cnnpool.registry import options_of

ROWS = {
    "kernel_size": 1, "conv_size": 1, "filter_size": 1, "output_size": 1,
    "stride": 1, "padding": 0, "dilation": 1
}  # fmt: skip
"""Each option that is a size, and its value along an axis that is not pooled."""
RULES = ("ceil_mode", "count_include_pad", "divisor_override")
"""Options of windows that apply to every axis."""
SEPARABLE = (MaxPool2d, AvgPool2d, BlurPool2d, Subsample2d)
"""Operators that give the same along two axes and then the third as along all three at once."""


class Pool1d(Leaf):
    """An operator for sequences: (N, C, L) -> (N, C, L').

    Args:
        operator: an operator for maps, but not LIP; each of its sizes is one number.
        channels: C of the input.
        options: options of ``operator``, ``device`` and ``dtype``.
    """

    def __init__(self, operator: type[Pool2d], channels: int, **options: Any):
        super().__init__()
        if issubclass(operator, LipPool2d):
            raise ValueError(
                "LipPool2d has no form for sequences: its logits are a convolution of 3x3 pixels"
            )
        sizes, rules = _sizes_and_rules(operator, options)
        rows: dict[str, Any] = {name: (ROWS[name], value) for name, value in sizes.items()}
        self.operator = operator(channels, **rules, **rows)
        # Of an adaptive operator ``output_size`` is a method.
        shown = sizes.keys() - {"output_size"}
        _show(self, self.operator, {name: getattr(self.operator, name, ())[1:] for name in shown})

    def output_size(self, length: int) -> int:
        """L' for an input of length L, or a ValueError if the output would be empty."""
        return self.operator.output_size(1, length)[1]

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() not in (2, 3):
            raise ValueError(f"pooling of sequences takes (N, C, L) or (C, L), got {tuple(x.shape)}")
        y: Tensor = self.operator(x.unsqueeze(-2))
        return y.squeeze(-2)


class Pool3d(Leaf):
    """A separable operator for volumes: (N, C, D, H, W) -> (N, C, D', H', W'), over H and W, then over D.

    Outputs and gradients of a maximum are torch's, to the last bit where windows do not overlap; means and
    blurs are those of the whole window up to rounding.

    Args:
        operator: max, average, blur or subsampling, for maps; ties are not split.
        channels: C of the input.
        options: of ``operator``, its sizes one number each or (depth, vertical, horizontal); ``device`` and
            ``dtype``.

    Example:
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
        sizes, rules = _sizes_and_rules(operator, options)
        triples = {name: _triple(name, size) for name, size in sizes.items()}
        planes: dict[str, Any] = {name: size[1:] for name, size in triples.items()}
        depth: dict[str, Any] = {name: (size[0], ROWS[name]) for name, size in triples.items()}
        # Only the second pass divides.
        once = {"divisor_override": 1} if "divisor_override" in rules else {}
        self.planes = operator(channels, **planes, **rules | once)
        self.depth = operator(channels, **depth, **rules)
        _show(self, self.depth, triples)

    def output_size(self, depth: int, height: int, width: int) -> tuple[int, int, int]:
        """(D', H', W') for an input of (D, H, W), or a ValueError if the output would be empty."""
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


def _sizes_and_rules(
    operator: type[Pool2d], options: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of ``operator`` that are sizes, defaults included, and the others that are given."""
    defaults = {name: option.default for name, option in options_of(operator).items() if name in ROWS}
    known = {name: value for name, value in (defaults | options).items() if value is not None}
    sizes = {name: known.pop(name) for name in [*known] if name in ROWS}
    return sizes, known


def _triple(name: str, size: Any) -> tuple[Any, ...]:
    """(depth, vertical, horizontal)."""
    sizes = tuple(size) if isinstance(size, tuple | list) else (size,)
    sizes = sizes * 3 if len(sizes) == 1 else sizes
    if len(sizes) != 3:
        raise ValueError(f"{name} must be one number or (depth, vertical, horizontal), got {size!r}")
    return sizes


def _show(module: nn.Module, operator: Pool2d, sizes: dict[str, Any]) -> None:
    """Give ``module`` the same attributes as torch's modules have."""
    for name in (*sizes, *RULES):
        if hasattr(operator, name):
            setattr(module, name, sizes[name] if name in sizes else getattr(operator, name))
