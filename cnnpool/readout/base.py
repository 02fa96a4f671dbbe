"""The base class of readouts."""

from typing import Any, ClassVar

from torch import Tensor

from cnnpool.pool.leaves import Leaf
from cnnpool.registry import checked


class Readout(Leaf):
    """Feature map to vector, (N, C, H, W) -> (N, D), D = ``out_features`` known before the first batch.

    Constructed as ``Name(channels, size, *, ...)``; options are keyword-only, so that the signature is the
    schema of the readout's YAML.

    Args:
        channels: C, and the length D of the vector unless said otherwise.
        size: (H, W) of the map; unless ``any_size``, the only one accepted.
    """

    formula: ClassVar[str]
    """The vector as the documentation prints it."""
    paper: ClassVar[str]
    """Where the readout was first published."""
    shift: ClassVar[str]
    """How the vector changes under a circular shift of the map, in a few words."""
    any_size: ClassVar[bool] = True
    """Accepts maps of another size than ``size``."""

    out_features: int

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        checked(cls)

    def flops(self, height: int, width: int) -> int:
        """Additions, multiplications, comparisons and elementary functions per sample, one each."""
        raise NotImplementedError


def require_size(readout: Readout, x: Tensor, size: tuple[int, int]) -> None:
    """Raise ValueError unless ``x`` has the size that the ``readout`` was made for."""
    if x.shape[-2:] != size:
        raise ValueError(
            f"{type(readout).__name__} was made for {size[0]}x{size[1]} maps and received "
            f"{x.shape[-2]}x{x.shape[-1]}; use images of the size it was built for, or a readout for any size"
        )
