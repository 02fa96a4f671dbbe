"""The base class of readouts."""

from typing import Any, ClassVar

from torch import Tensor

from cnnpool.pool.leaves import Leaf
from cnnpool.pool.window import FLOATING, Misfit
from cnnpool.registry import checked


class Readout(Leaf):
    """Feature map to vector, (N, C, H, W) -> (N, D), D = ``out_features`` known before the first batch.

    Constructed as ``Name(channels, size, *, ...)``; options are keyword-only, so that the signature is the
    schema of the readout's YAML.

    Args:
        channels: C, and the length D of the vector unless said otherwise.
        size: (H, W) of the map; unless ``any_size``, the only one accepted.

    Raises:
        ValueError: for an option out of range, and a map that is no batch of numbers, is empty, or does not
            fit the weights.
    """

    formula: ClassVar[str]
    """The vector as the documentation prints it."""
    paper: ClassVar[str]
    """Where the readout was first published."""
    shift: ClassVar[str]
    """How the vector changes under a circular shift of the map, in a few words."""
    any_size: ClassVar[bool] = True
    """Accepts maps of another size than ``size``."""

    fixed_channels: bool = False
    """Whether weights belong to single channels."""

    channels: int
    out_features: int

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        checked(cls)

    def flops(self, height: int, width: int) -> int:
        """Additions, multiplications, comparisons and elementary functions per sample, one each."""
        raise NotImplementedError


def check_maps(readout: Readout, x: Tensor) -> None:
    """Raise ValueError unless ``x`` is (N, C, H, W), no axis but N empty, and fits the weights."""
    name = type(readout).__name__
    numbers = x.dtype in FLOATING or x.is_quantized
    if x.dim() != 4 or not numbers or min(x.shape[1:]) < 1:
        raise Misfit(
            f"{name} takes floating-point (N, C, H, W) of 16 to 64 bits, got {x.dtype} of shape "
            f"{tuple(x.shape)}"
        )
    if readout.fixed_channels and x.shape[1] != readout.channels:
        raise Misfit(f"{name} was made for {readout.channels} channels, got {x.shape[1]}")


def require_size(readout: Readout, x: Tensor, size: tuple[int, int]) -> None:
    """Raise ValueError unless ``x`` fits the ``readout`` and has the size that it was made for."""
    check_maps(readout, x)
    if x.shape[-2:] != size:
        raise Misfit(
            f"{type(readout).__name__} was made for {size[0]}x{size[1]} maps and received "
            f"{x.shape[-2]}x{x.shape[-1]}; use images of the size it was built for, or a readout for any size"
        )
