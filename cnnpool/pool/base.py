"""The base classes of operators: options, size rules, and the facts that the documentation prints."""

from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal, Self, TypedDict, Unpack, get_args

import torch
from annotated_types import Ge, Gt, Le, Predicate
from torch import Tensor, nn

from cnnpool.bounds import Count, odd
from cnnpool.pool.leaves import Leaf
from cnnpool.pool.window import Misfit, ceil_div, check_batch, check_real, is_unset, window_of
from cnnpool.pool.window import window_size as window_size
from cnnpool.registry import Option, checked, options_of

Side = Annotated[int, Ge(1), Le(1024)]
Size = Side | tuple[Side, Side]
"""Window, stride or dilation: one number, or (vertical, horizontal)."""
Sides = Annotated[int, Ge(0), Le(1024)]
Padding = Sides | tuple[Sides, Sides]
Cell = Annotated[int, Ge(1), Le(64)]
Cells = Cell | tuple[Cell, Cell]
"""A window small enough to hold a tensor per cell in memory."""
Tap = Annotated[int, Ge(1), Le(255)]
Taps = Tap | tuple[Tap, Tap]
"""A window with a weight for each cell."""
OddTap = Annotated[int, Ge(1), Le(255), Predicate(odd)]
OddTaps = OddTap | tuple[OddTap, OddTap]
Step = Annotated[float, Ge(1), Le(1024)]
Stride = Step | tuple[Step, Step]
"""A stride that need not be a whole number."""
StepAboveOne = Annotated[float, Gt(1), Le(1024)]
StrideAboveOne = StepAboveOne | tuple[StepAboveOne, StepAboveOne]
LARGEST_DENOMINATOR = 1000
CHANNELS = Option(Count)


def both(value: int | tuple[int, int]) -> tuple[int, int]:
    """(vertical, horizontal) from one number or two, checked already."""
    return (value, value) if isinstance(value, int) else value


def check_choice(name: str, value: object, choices: Any) -> None:
    """Raise a ValueError unless ``value`` is one of the ``choices``, a Literal."""
    if value not in get_args(choices):
        raise ValueError(f"{name} must be one of {', '.join(get_args(choices))}, got {value!r}")


Device = torch.device | str | int | None


class Place(TypedDict, total=False):
    """Device and dtype of parameters and buffers, as torch's modules take them; not part of a schema."""

    device: Device
    dtype: torch.dtype | None


def placed(values: Tensor, *, device: Device = None, dtype: torch.dtype | None = None) -> Tensor:
    """``values`` of a parameter or a buffer on ``device``, in ``dtype`` or torch's default."""
    return values.to(device=device, dtype=dtype or torch.get_default_dtype())


class Pool2d(Leaf):
    """An operator that shrinks a feature map: (N, C, H, W) -> (N, C, H', W').

    Constructed as ``Name2d(channels, *, stride=2, ..., device=None, dtype=None)``: options are keyword-only,
    so that the signature is the schema of the operator's YAML, by which their values are checked.
    Subclasses that slide a window set ``kernel_size``, ``stride``, ``padding`` (and ``dilation``,
    ``ceil_mode`` where they have them) as pairs; others derive from ``CellPool2d`` or override
    ``output_size``. These mean the same in every operator that says nothing else:

    Args:
        channels: C of the input, and of the output; not the window, which torch's constructors take first.
        kernel_size: window, >= 1, or (vertical, horizontal).
        stride: >= 1, or (vertical, horizontal).
        padding: cells around the map, at most half of the kernel.
        ceil_mode: keep the last window even if it overhangs the edge.
        padding_mode: values past the edges: reflect, replicate, circular or zeros.
        ties: which of equal maxima gets the gradient: first (torch's rule), last, or split evenly.
        filter_size: taps of the binomial filter, >= 1, or (vertical, horizontal); 1 does not blur.
        norm: none or batch (then the convolution has no bias).
        activation: none, relu, gelu or silu.
        learnable: whether the operator's number is learnt.
        per: one for the layer or one per channel.
        device: of parameters and buffers; a subclass passes it on to those that it creates.
        dtype: of parameters and buffers, passed on likewise.

    Raises:
        ValueError: for an option out of range, a map of which nothing would be left, or whose channels do not
            fit the weights.

    Example:
        >>> AvgPool2d(3, kernel_size=3, stride=2).output_size(32, 31)
        (15, 15)
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
    """A constant image c comes out as gain*c everywhere, borders included; None: not guaranteed."""
    random: ClassVar[bool] = False
    """Draws random numbers in training mode (never in eval mode)."""
    equivariant: bool = True
    """Commutes with circular shifts by multiples of the stride, away from the borders."""
    exports: ClassVar[Literal["any size", "fixed size"]] = "any size"
    """The H and W that one graph of ``torch.export`` or ONNX serves; N always varies."""
    dilates: int = 1
    """The dilation of later convolutions, for an operator that keeps the resolution."""

    channels: int
    fixed_channels: bool = False
    """Whether weights belong to single channels: ``forward`` then begins with ``check_channels``."""
    kernel_size: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    ceil_mode: bool = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        checked(cls)

    def __init__(self, channels: int, *, device: Device = None, dtype: torch.dtype | None = None):
        super().__init__()
        self.channels = CHANNELS.validate(f"{type(self).__name__}: channels", channels)

    def check_channels(self, x: Tensor) -> None:
        """Raise a ValueError unless ``x`` is a floating-point map, of as many channels as weights."""
        check_real(x, type(self).__name__, floating=True)
        if self.fixed_channels and x.shape[-3] != self.channels:
            raise Misfit(
                f"{type(self).__name__} was made for {self.channels} channels, got {x.shape[-3]}: "
                f"input of shape {tuple(x.shape)}"
            )

    def check_batch(self, x: Tensor) -> tuple[int, int]:
        """(H', W') for ``x``, or a ValueError unless it is a non-empty floating-point batch that fits."""
        self.check_channels(x)
        check_batch(x, type(self).__name__)
        return self.output_size(*x.shape[-2:])

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        """(H', W') for an input of (H, W), or a ValueError if the output would be empty."""
        rows, columns = (
            window_size(length, k, s, p, d, self.ceil_mode)
            for length, k, s, p, d in zip(
                (height, width), self.kernel_size, self.stride, self.padding, self.dilation, strict=True
            )
        )
        if rows < 1 or columns < 1:
            raise Misfit(
                f"{type(self).__name__}: output would be empty for a {height}x{width} map: "
                f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"
            )
        return rows, columns

    def fault_of(self, x: Tensor, y: object) -> str:
        """How the output ``y`` for ``x`` differs from (N, C, H', W'), in words; empty if it does not."""
        try:
            due = (*x.shape[:-2], *self.output_size(*x.shape[-2:]))
        except AttributeError:
            return ""  # Of an operator that names no sizes nothing is due
        whole = isinstance(y, Tensor) and x.is_floating_point() and not y.is_floating_point()
        if isinstance(y, Tensor) and y.shape == due and not whole:
            return ""
        came = f"{y.dtype} of shape {tuple(y.shape)}" if isinstance(y, Tensor) else f"a {type(y).__name__}"
        return f"returned {came} for a map {tuple(x.shape)}; by its output_size a floating-point {due} is due"

    def flops(self, height: int, width: int) -> int | None:
        """FLOPs per sample, one per addition, multiplication, comparison and elementary function; None if
        unknown.
        """
        return None

    def count_outputs(self, height: int, width: int) -> int:
        """Outputs of a sample: C H' W'."""
        rows, columns = self.output_size(height, width)
        return self.channels * rows * columns

    def extra_repr(self) -> str:
        held = {name: getattr(self, name, None) for name in options_of(type(self))}
        plain = {name: value for name, value in held.items() if isinstance(value, int | float | str | tuple)}
        return ", ".join(f"{name}={value!r}" for name, value in plain.items())


class CellPool2d(Pool2d):
    """An operator with an output for each cell of ``stride`` pixels; the edge may cut off the last cell."""

    def __init__(self, channels: int, *, stride: Size = 2, **place: Unpack[Place]):
        super().__init__(channels, **place)
        self.stride = both(stride)

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        """(ceil(H/s), ceil(W/s))."""
        return ceil_div(height, self.stride[0]), ceil_div(width, self.stride[1])


class WholeCellPool2d(CellPool2d):
    """An operator with an output for each whole cell of ``stride`` pixels."""

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        """(floor(H/s), floor(W/s)); a ValueError if the output would be empty."""
        size = height // self.stride[0], width // self.stride[1]
        if min(size) < 1:
            name = type(self).__name__
            raise Misfit(f"{name}: output would be empty for a {height}x{width} map: stride={self.stride}")
        return size


class RationalPool2d(Pool2d):
    """An operator whose stride is rounded to a fraction with a denominator of at most 1000, so that
    2.909090909090909 turns 32 pixels into 11; ``stride`` is the nearest whole number, and H' = ceil(H/s).
    """

    def __init__(self, channels: int, stride: Stride, **place: Unpack[Place]):
        super().__init__(channels, **place)
        steps = (stride, stride) if isinstance(stride, int | float) else stride
        down, across = (Fraction(s).limit_denominator(LARGEST_DENOMINATOR) for s in steps)
        self.ratio = down.as_integer_ratio(), across.as_integer_ratio()
        self.stride = round(down), round(across)

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        (p, q), (r, s) = self.ratio
        return ceil_div(height * q, p), ceil_div(width * s, r)

    def extra_repr(self) -> str:
        (p, q), (r, s) = self.ratio
        others = {name: getattr(self, name, None) for name in options_of(type(self)) if name != "stride"}
        shown = ", ".join(f"{name}={value!r}" for name, value in others.items() if value is not None)
        return f"stride=({p / q:g}, {r / s:g}), {shown}"


class WindowPool2d(Pool2d):
    """An operator that slides a window over ``channels``-channel maps; a subclass adds the mathematics."""

    cell_flops: ClassVar[int | None] = None
    """FLOPs for each cell of a window."""

    def __init__(
        self,
        channels: int,
        kernel_size: Size,
        stride: Size,
        padding: Padding,
        ceil_mode: bool,
        dilation: Size = 1,
        *,
        per: Literal["layer", "channel"] = "layer",
        **place: Unpack[Place],
    ):
        super().__init__(channels, **place)
        if per == "channel":
            self.fixed_channels = True
        window = window_of(kernel_size, stride, padding, dilation, ceil_mode)
        self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode = window

    @property
    def window(self) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int], bool]:
        """Kernel size, stride, padding and ceil mode, in the order the functions take them."""
        return self.kernel_size, self.stride, self.padding, self.ceil_mode

    def flops(self, height: int, width: int) -> int | None:
        return None if self.cell_flops is None else self.cell_flops * self.count_cells(height, width)

    def count_cells(self, height: int, width: int) -> int:
        """Cells in all windows of a sample: C H' W' k k."""
        return self.count_outputs(height, width) * self.kernel_size[0] * self.kernel_size[1]


class PlainWindowPool2d(WindowPool2d):
    """An operator that slides a window and has no other options."""

    def __init__(
        self,
        channels: int,
        *,
        kernel_size: Cells = 2,
        stride: Size = 2,
        padding: Padding = 0,
        ceil_mode: bool = False,
        **place: Unpack[Place],
    ):
        super().__init__(channels, kernel_size, stride, padding, ceil_mode, **place)


class LikeTorch(nn.Module):
    """An operator with a counterpart in torch, ``torch_module``."""

    torch_module: ClassVar[type[nn.Module]]

    @classmethod
    def like(cls, module: nn.Module, channels: int = 1, **options: Any) -> Self:
        """The operator with the options of torch's ``module``, an instance of ``torch_module``.

        Args:
            channels: C of the input, used by ``flops`` only.
            options: further options of the constructor, such as ``ties``.

        Raises:
            TypeError: if ``module`` is another.
            ValueError: if it returns indices, or has an option that the operator does not support.
        """
        kind = cls.torch_module.__name__
        if not isinstance(module, cls.torch_module):
            raise TypeError(f"like takes a torch.nn.{kind}, got {type(module).__name__}")
        if getattr(module, "return_indices", False):
            raise ValueError("a module here returns one map: call max_pool2d with return_indices=True")
        return cls(channels, **cls.options_like(module), **options)

    @classmethod
    def options_like(cls, module: nn.Module) -> dict[str, Any]:
        """The options of the operator that ``module`` has under the same names."""
        options = {name: getattr(module, name) for name in options_of(cls) if hasattr(module, name)}
        if "kernel_size" in options and is_unset(options["stride"]):
            options["stride"] = options["kernel_size"]
        return options
