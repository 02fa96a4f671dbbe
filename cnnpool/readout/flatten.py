"""Every position kept: flatten, then a fully connected layer."""

from typing import Annotated

from annotated_types import Ge, Le
from torch import Tensor, nn

from cnnpool.readout.base import Readout


class Flatten(Readout):
    """All positions side by side, then a fully connected layer: y = relu(W vec x + b) (LeCun 1998, LeNet-5).

    The textbook ending, with most of a small CNN's weights: HWC per hidden unit. The gradient of an input is
    its row of W^T; each position has weights of its own, so the classifier sees where things are.

    The entries are in the order (H, W, C), which is the order in memory of channels_last maps and costs no
    copy there; torch.nn.Flatten's is (C, H, W).

    Args:
        channels: C of the map.
        size: (H, W) of the map, the only one accepted.
        hidden: width of the fully connected layer; 0 for flattening alone.

    Raises:
        ValueError: if hidden is negative, or a map has another size.
    """

    formula = "relu(W vec(x) + b)"
    paper = "LeCun 1998, doi:10.1109/5.726791"
    shift = "changes: each position has its own weights"
    any_size = False

    def __init__(
        self, channels: int, size: tuple[int, int], *, hidden: Annotated[int, Ge(0), Le(65536)] = 128
    ):
        super().__init__()
        self.size = (size[0], size[1])
        self.entries = channels * size[0] * size[1]
        self.out_features = hidden or self.entries
        self.layer = nn.Sequential(nn.Linear(self.entries, hidden), nn.ReLU()) if hidden else nn.Identity()

    def flops(self, height: int, width: int) -> int:
        return 0 if self.out_features == self.entries else (2 * self.entries + 1) * self.out_features

    def forward(self, x: Tensor) -> Tensor:
        require_size(self, x, self.size)
        features: Tensor = self.layer(x.permute(0, 2, 3, 1).flatten(1))
        return features


def require_size(readout: Readout, x: Tensor, size: tuple[int, int]) -> None:
    """Raise ValueError unless ``x`` has the size that the ``readout`` was made for."""
    if x.shape[-2:] != size:
        raise ValueError(
            f"{type(readout).__name__} was made for {size[0]}x{size[1]} maps and received "
            f"{x.shape[-2]}x{x.shape[-1]}; use images of the size it was built for, or a readout for any size"
        )
