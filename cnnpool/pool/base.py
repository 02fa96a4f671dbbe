"""The base class of operators: their size rule, and the facts that the documentation prints."""

from typing import Annotated, ClassVar, Literal, TypedDict

import torch
from annotated_types import Ge, Le, Predicate
from torch import Tensor, nn

from cnnpool.bounds import odd
from cnnpool.pool.exporting import smaller
from cnnpool.registry import checked as checked
from cnnpool.registry import options_of

Side = Annotated[int, Ge(1), Le(1024)]
Size = Side | tuple[Side, Side]
"""Window, stride or dilation: one number, or (vertical, horizontal)."""
IntPair = int | tuple[int, int]
"""The same in functions, which check it themselves."""
Sides = Annotated[int, Ge(0), Le(1024)]
Padding = Sides | tuple[Sides, Sides]
Cell = Annotated[int, Ge(1), Le(64)]
Cells = Cell | tuple[Cell, Cell]
"""A window whose cells may be held in memory side by side."""
Tap = Annotated[int, Ge(1), Le(255)]
Taps = Tap | tuple[Tap, Tap]
"""A window with a weight for each cell."""
OddTap = Annotated[int, Ge(1), Le(255), Predicate(odd)]
OddTaps = OddTap | tuple[OddTap, OddTap]


def both(value: int | tuple[int, int]) -> tuple[int, int]:
    """(vertical, horizontal) from one number or two, checked already."""
    return (value, value) if isinstance(value, int) else value


def pair(value: IntPair, name: str, *, least: int) -> tuple[int, int]:
    """(vertical, horizontal) from one number or two.

    Raises:
        ValueError: if a number is below ``least``.
    """
    whole = int, torch.SymInt
    both = (value, value) if isinstance(value, whole) else tuple(value)
    if len(both) != 2 or any(isinstance(v, bool) or not isinstance(v, whole) or v < least for v in both):
        raise ValueError(f"{name} must be a whole number of at least {least}, or two of them, got {value!r}")
    return both


def ceil_div(length: int, by: int) -> int:
    """``length`` over ``by``, rounded up."""
    # Of numbers that are not negative: other runtimes round the quotient of a negative one towards zero.
    return (length + by - 1) // by


def check_batch(x: Tensor, operator: str) -> None:
    """Raise unless ``x`` is a non-empty floating-point (N, C, H, W) tensor.

    Raises:
        ValueError: unless ``x`` is (N, C, H, W), floating, with no empty C, H or W.
    """
    if x.dim() != 4 or not x.is_floating_point() or min(x.shape[1:]) < 1:
        raise ValueError(
            f"{operator} takes floating-point (N, C, H, W), got {x.dtype} of shape {tuple(x.shape)}"
        )


def window_size(length: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> int:
    """Number of windows along one axis, torch's rule: floor((H + 2p - d(k-1) - 1)/s) + 1.

    With ``ceil_mode`` the last window may overhang, but must start inside the input or its left padding.
    """
    span = length + 2 * padding - dilation * (kernel - 1) - 1
    if not ceil_mode:
        return span // stride + 1
    return smaller(ceil_div(span, stride), (length + padding - 1) // stride) + 1


def reduced(name: str, height: int, width: int, stride: tuple[int, int]) -> tuple[int, int]:
    """(floor(H/s), floor(W/s)).

    Raises:
        ValueError: if nothing would be left.
    """
    size = height // stride[0], width // stride[1]
    if min(size) < 1:
        raise ValueError(f"{name} leaves nothing of a {height}x{width} map: stride={stride}")
    return size


Device = torch.device | str | int | None


class Place(TypedDict, total=False):
    """Device and dtype of parameters and buffers, as torch's modules take them; no part of a schema."""

    device: Device
    dtype: torch.dtype | None


def placed(values: Tensor, *, device: Device = None, dtype: torch.dtype | None = None) -> Tensor:
    """``values`` of a parameter or a buffer on ``device``, in ``dtype`` or torch's default."""
    return values.to(device=device, dtype=dtype or torch.get_default_dtype())


class Pool2d(nn.Module):
    """An operator that shrinks a feature map: (N, C, H, W) -> (N, C, H', W').

    Constructed as ``Name2d(channels, *, stride=2, ..., device=None, dtype=None)``: options are keyword-only,
    so that the signature is the schema of the operator's YAML, by which ``@checked`` checks their values.
    Subclasses that slide a window set ``kernel_size``, ``stride``, ``padding`` (and ``dilation``,
    ``ceil_mode`` where they have them) as pairs; others derive from ``CellPool2d`` or override
    ``output_size``.

    Args:
        channels: C of the input.
        device: of parameters and buffers: a subclass that makes any hands it on to them.
        dtype: likewise.

    Example:
        >>> import torch
        >>> from cnnpool.pool import AvgPool2d
        >>> AvgPool2d(3, kernel_size=3, stride=2).output_size(32, 31)
        (15, 15)
        >>> AvgPool2d(3, device="meta")(torch.empty(1, 3, 8, 8, device="meta")).shape
        torch.Size([1, 3, 4, 4])
    """

    formula: ClassVar[str]
    """One output y over its window x_1..x_n, as the documentation prints it."""
    paper: ClassVar[str]
    """Where the operator was first published, e.g. ``Zhang 2019, arXiv:1904.11486``."""
    shift: ClassVar[str]
    """How the output changes under a shift of the input, in a few words."""
    gradient: ClassVar[Literal["dense", "sparse", "uneven"]]
    """dense: every covered input gets gradient; sparse: few do; uneven: all, in unequal counts."""
    gain: float | None = 1.0
    """A constant image c comes out as gain*c everywhere, borders included; None: not promised."""
    random: ClassVar[bool] = False
    """Draws random numbers in training mode (never in eval mode)."""
    equivariant: bool = True
    """Commutes with circular shifts by multiples of the stride, away from the borders."""
    exports: ClassVar[Literal["any size", "fixed size"]] = "any size"
    """The H and W that one graph of ``torch.export`` or ONNX serves; N always varies."""
    dilates: int = 1
    """The dilation of later convolutions, for an operator that keeps the resolution."""

    channels: int
    fixed_channels: bool
    """Only where weights can belong to single channels: whether ``forward`` takes ``channels`` alone, and so
    begins with ``check_channels``.
    """
    kernel_size: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    ceil_mode: bool = False

    def __init__(self, channels: int, *, device: Device = None, dtype: torch.dtype | None = None):
        super().__init__()
        self.channels = channels

    def check_channels(self, x: Tensor) -> None:
        """Raise if the weights belong to single channels, and ``x`` has another number of them.

        Raises:
            ValueError: if it has.
        """
        if self.fixed_channels and x.dim() in (3, 4) and x.shape[-3] != self.channels:
            raise ValueError(
                f"{type(self).__name__} was made for {self.channels} channels, got {x.shape[-3]}: "
                f"input of shape {tuple(x.shape)}"
            )

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        """(H', W') for an input of (H, W).

        Raises:
            ValueError: if nothing would be left.
        """
        rows, columns = (
            window_size(length, k, s, p, d, self.ceil_mode)
            for length, k, s, p, d in zip(
                (height, width), self.kernel_size, self.stride, self.padding, self.dilation, strict=True
            )
        )
        if rows < 1 or columns < 1:
            raise ValueError(
                f"{type(self).__name__} leaves nothing of a {height}x{width} map: "
                f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"
            )
        return rows, columns

    def flops(self, height: int, width: int) -> int | None:
        """FLOPs per sample: additions, multiplications, comparisons and elementary functions count one each;
        None if unknown.
        """
        return None

    def extra_repr(self) -> str:
        held = {name: getattr(self, name, None) for name in options_of(type(self))}
        plain = {name: value for name, value in held.items() if isinstance(value, int | float | str | tuple)}
        return ", ".join(f"{name}={value!r}" for name, value in plain.items())


class CellPool2d(Pool2d):
    """An operator with an output for each cell of ``stride`` pixels, the last cut off at the edge."""

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        """(ceil(H/s), ceil(W/s))."""
        return ceil_div(height, self.stride[0]), ceil_div(width, self.stride[1])
