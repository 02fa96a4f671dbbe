"""Detail-preserving pooling: :func:`dpp_pool2d`."""

from collections.abc import Sequence
from typing import Literal, Unpack

import torch
from torch import Tensor, nn

from cnnpool.pool.base import Cells, Padding, Place, Size, WindowPool2d, check_choice
from cnnpool.pool.cells import added, cells, count, inside, peak, power_of_2, weighted_mean, weighted_sum
from cnnpool.pool.leaves import one_node
from cnnpool.pool.window import IntPair, Window, wide, window_on

Form = Literal["symmetric", "asymmetric"]


@one_node
def dpp_pool2d(
    x: Tensor,
    alpha: float | Tensor,
    strength: float | Tensor,
    kernel_size: IntPair,
    stride: IntPair | None = None,
    padding: IntPair = 0,
    ceil_mode: bool = False,
    *,
    form: Form = "symmetric",
    reference: Tensor | None = None,
    eps: float = 1e-3,
) -> Tensor:
    """Average of every window weighted by how far a cell is from a smooth reference (Saeedan 2018).

    y = sum w_i x_i / sum w_i with w_i = alpha + (d_i / mean d)^(strength / 2) and d_i = (x_i - reference)^2 +
    eps; in the asymmetric form d_i = max(x_i - reference, 0)^2 + eps, which emphasises only brighter cells.

    A window with infinity gives the sum of its cells, the limit of the formula, without gradient.

    Args:
        x: maps.
        alpha: floor of the weights, >= 0, or a tensor that fits (C, 1, 1).
        strength: the paper's lambda, >= 0, or a tensor that fits (C, 1, 1); 0 gives the average.
        form: symmetric or asymmetric.
        reference: smooth low-resolution map, (N, C, H', W'); None for the mean of every window.
        eps: added to the squared detail, > 0.

    Example:
        >>> x = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
        >>> dpp_pool2d(x, 1.0, 0.0, 2), dpp_pool2d(x, 0.0, 2.0, 2, form="asymmetric")
        (tensor([[[[2.5000]]]]), tensor([[[[3.8978]]]]))
    """
    window = window_on(x, kernel_size, stride, padding, ceil_mode)
    check_choice("form", form, Form)
    if not eps > 0:
        raise ValueError(f"eps must be above 0, got {eps}")
    exact = wide(x)
    parts, present = cells(exact, window), count(exact, window)
    masks: Sequence[Tensor | int] = inside(exact, window) or [1] * len(parts)
    total = added(parts)
    centre = total / present if reference is None else reference
    gaps = [part - centre for part in parts]
    if form == "asymmetric":
        gaps = [gap.relu() for gap in gaps]
    size = peak(exact.abs(), window)
    size = size if reference is None else torch.maximum(size, reference.detach().abs())
    # Only ratios matter, so a power of 2 changes no bit, and keeps the squares of large maps in range.
    scale = power_of_2(size.clamp_min(1))
    floor = (eps * scale.square()).clamp_min(torch.finfo(exact.dtype).tiny)
    details = [((gap * scale).square() + floor) * mask for gap, mask in zip(gaps, masks, strict=True)]
    mean = added(details) / present
    weights = []
    for detail, mask in zip(details, masks, strict=True):
        # Outside the map, where the base is 0 and the slope infinite, the power is that of 1.
        base = detail / mean if isinstance(mask, int) else detail / mean + (1 - mask)
        weights.append(mask * (alpha + base.pow(strength / 2)))
    return torch.where(total.isfinite(), weighted_mean(parts, weights), total).to(x.dtype)


class DppPool2d(WindowPool2d):
    """y = sum w_i x_i / sum w_i, w_i = e^a + (d_i / mean d)^(e^l / 2): keeps detail (Saeedan 2018, CVPR).

    d_i = (x_i - reference)^2 + 0.001, with max(x_i - reference, 0) in the asymmetric form. a and l are learnt
    per channel and start at 0 (the authors draw them around 0). The reference is the window's mean, or with
    ``full`` a learnt depthwise filter that sees one row and column more, above and left (3 x 3 for 2 x 2
    windows), and starts as the mean. d is divided by its window's mean as in the authors' code, whose filter
    of ``full`` has a bias too: it starts within 1/3 of 0, which on noise changes the output by up to 27 %.

    Edges: torch's size formula; cells in the padding or the overhang take no part, except that the learnt
    filter of ``full`` sees zeros there.

    Args:
        form: symmetric emphasises every deviation, asymmetric only upward ones.
        full: learn the reference instead of averaging (lite).
    """

    formula = (
        "sum_i w_i x_i / sum_i w_i, w_i = e^a + (d_i / mean d)^(e^l / 2), d_i = (x_i - mean x)^2 + 0.001"
    )
    paper = "Saeedan 2018, arXiv:1804.04076"
    shift = (
        "equivariant to shifts by multiples of the stride; keeps detail, so it aliases more than the average"
    )
    gradient = "dense"
    fixed_channels = True

    def __init__(
        self,
        channels: int,
        *,
        kernel_size: Cells = 2,
        stride: Size = 2,
        padding: Padding = 0,
        ceil_mode: bool = False,
        form: Form = "symmetric",
        full: bool = False,
        **place: Unpack[Place],
    ):
        super().__init__(channels, kernel_size, stride, padding, ceil_mode, **place)
        self.form = form
        self.log_alpha = nn.Parameter(torch.zeros(channels, **place))
        self.log_strength = nn.Parameter(torch.zeros(channels, **place))
        self.filter = None
        if full:
            (kh, kw), (ph, pw) = self.kernel_size, self.padding
            self.grown = Window((kh + 1, kw + 1), self.stride, (ph + 1, pw + 1), (1, 1), ceil_mode)
            weight = torch.zeros(channels, kh + 1, kw + 1, **place)
            weight[:, 1:, 1:] = 1 / (kh * kw)
            self.filter = nn.Parameter(weight.flatten(1))

    def flops(self, height: int, width: int) -> int:
        filtered = 0 if self.filter is None else 2 * self.filter.shape[1]
        return 9 * self.count_cells(height, width) + filtered * self.count_outputs(height, width)

    def _reference(self, x: Tensor) -> Tensor | None:
        if self.filter is None:
            return None
        rows, columns = self.output_size(*x.shape[-2:])
        return weighted_sum([part[..., :rows, :columns] for part in cells(x, self.grown)], self.filter)

    def forward(self, x: Tensor) -> Tensor:
        self.check_channels(x)
        exact = wide(x)
        alpha, strength = (
            p.to(exact.dtype).exp()[:, None, None] for p in (self.log_alpha, self.log_strength)
        )
        reference = self._reference(exact)
        y = dpp_pool2d(exact, alpha, strength, *self.window, form=self.form, reference=reference)
        return y.to(x.dtype)
