"""Tree pooling: :func:`tree_pool2d`."""

from typing import Annotated, Unpack

import torch
from annotated_types import Ge, Le
from torch import Tensor, nn

from cnnpool.pool.base import Cells, Padding, Place, Size, WindowPool2d, checked
from cnnpool.pool.cells import cells
from cnnpool.pool.gated import filtered, share
from cnnpool.pool.scalar import Per, repeats
from cnnpool.pool.window import IntPair, wide, window_on


def tree_pool2d(
    x: Tensor,
    leaves: Tensor,
    gates: Tensor,
    kernel_size: IntPair,
    stride: IntPair | None = None,
    padding: IntPair = 0,
    ceil_mode: bool = False,
) -> Tensor:
    """A binary tree of learnt filters: a node is g left + (1 - g) right, g = sigmoid(gate . x) (Lee 2016).

    Maps, windows and errors as in ``avg_pool2d``; zeros stand outside the map, and half precision is summed
    in float32.

    Args:
        x: maps whose sums of |leaf x| and |gate x| over a window are finite.
        leaves: filters v, (M, C or 1, kh*kw), M a power of two: a leaf is v . x.
        gates: gate masks, (M - 1, C or 1, kh*kw), the root first, then level by level from the left.

    Example:
        >>> x = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
        >>> leaves = torch.stack([torch.full((1, 4), 0.25), torch.ones(1, 4)])
        >>> tree_pool2d(x, leaves, torch.zeros(1, 1, 4), 2)  # half the average, half the sum
        tensor([[[[6.2500]]]])
    """
    width = len(leaves)
    if width < 1 or width & (width - 1) or len(gates) != width - 1:
        raise ValueError(f"a tree of 2^n leaves has 2^n - 1 gates, got {width} leaves and {len(gates)} gates")
    parts = cells(wide(x), window_on(x, kernel_size, stride, padding, ceil_mode))
    nodes = [filtered(parts, leaf) for leaf in leaves]
    while len(nodes) > 1:
        # Gates of the level above: its nodes are numbered from (half of the children) - 1.
        half = len(nodes) // 2
        shares = [share(filtered(parts, gate)) for gate in gates[half - 1 : 2 * half - 1]]
        pairs = zip(nodes[::2], nodes[1::2], shares, strict=True)
        nodes = [right + share * (left - right) for left, right, share in pairs]
    return nodes[0].to(x.dtype)


@checked
class TreePool2d(WindowPool2d):
    """A binary tree of learnt pooling filters, mixed at each node by a gate (Lee 2016, arXiv:1509.08985).

    ``levels`` counts as in the paper: 2 is two leaves and one gate, 1 a single linear filter, L has 2^(L-1)
    leaves. The gates start at zero (even shares), the leaves as averages with a tenth of random unevenness:
    equal leaves would get equal gradients forever. Gradient: the mixed filters, plus g (1 - g) w_i
    (left - right) through each gate.

    Edges: torch's size formula, zero padding (a filter that is not an average cannot be renormalised).

    Args:
        levels: of the tree, 1 to 8.
    """

    formula = "g v_1.x + (1 - g) v_2.x, g = sigmoid(w.x), at every node"
    paper = "Lee 2016, arXiv:1509.08985"
    shift = "commutes with shifts by multiples of the stride; aliases unless it learns low-pass filters"
    gradient = "dense"
    gain = None

    def __init__(
        self,
        channels: int,
        *,
        kernel_size: Cells = 2,
        stride: Size = 2,
        padding: Padding = 0,
        ceil_mode: bool = False,
        levels: Annotated[int, Ge(1), Le(8)] = 2,
        per: Per = "layer",
        **place: Unpack[Place],
    ):
        super().__init__(channels, kernel_size, stride, padding, ceil_mode, **place)
        self.fixed_channels = per == "channel"
        size, width = self.kernel_size[0] * self.kernel_size[1], 2 ** (levels - 1)
        copies = repeats(per, channels)
        self.leaves = nn.Parameter((1 + 0.1 * torch.randn(width, copies, size, **place)) / size)
        self.gates = nn.Parameter(torch.zeros(width - 1, copies, size, **place))

    def flops(self, height: int, width: int) -> int:
        return 2 * (len(self.leaves) + len(self.gates)) * self.count_cells(height, width)

    def forward(self, x: Tensor) -> Tensor:
        self.check_channels(x)
        return tree_pool2d(x, self.leaves, self.gates, *self.window)
