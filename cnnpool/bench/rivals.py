"""Rivals and the corresponding cnnpool operators: (channels, learnt numbers) -> function of a map."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cnnpool import pool

Function = Callable[[Tensor], Tensor]
EPS = 1e-6


class Duel(NamedTuple):
    rival: str
    ours: Callable[[int], Function]
    theirs: Callable[[int], Function]
    positive: bool = False
    """Whether the map is non-negative, as after a ReLU: the rival requires it."""
    random: bool = False
    """Whether both draw: then they are compared on average."""


def _timm_blur(filter_size: int) -> Callable[[int], nn.Module]:
    def make(channels: int) -> nn.Module:
        from timm.layers.blur_pool import BlurPool2d

        return BlurPool2d(channels, filter_size, stride=2)

    return make


def _zhang_blur(channels: int) -> nn.Module:
    from antialiased_cnns import BlurPool

    blur: nn.Module = BlurPool(channels, filt_size=3, stride=2)
    return blur


def _timm_max_blur(channels: int) -> nn.Module:
    return nn.Sequential(nn.MaxPool2d(2, 1), _timm_blur(3)(channels))


def _gem(p: Tensor | float) -> Function:
    return lambda x: F.avg_pool2d(x.clamp(min=EPS).pow(p), 2).pow(1 / p)


def _soft(x: Tensor) -> Tensor:
    weight = x.exp()
    return F.avg_pool2d(weight * x, 2) / F.avg_pool2d(weight, 2)


def _draw(x: Tensor) -> Tensor:
    samples, channels, height, width = x.shape
    cells = x.unfold(2, 2, 2).unfold(3, 2, 2).reshape(-1, 4)
    places = torch.multinomial(cells / cells.sum(1, keepdim=True), 1)
    return cells.gather(1, places).view(samples, channels, height // 2, width // 2)


def _learnt(function: Callable[[Tensor, Tensor], Tensor]) -> Function:
    """``function`` of a map and a learnt power on the map's device."""

    @cache
    def power(device: torch.device) -> Tensor:
        return torch.full((1, 1, 1), 3.0, device=device, requires_grad=True)

    return lambda x: function(x, power(x.device))


def _functions(rival: str, ours: Function, theirs: Function, **facts: bool) -> Duel:
    return Duel(rival, lambda c: ours, lambda c: theirs, **facts)


def _max(*w: Any) -> Duel:
    return _functions("F.max_pool2d", lambda x: pool.max_pool2d(x, *w), lambda x: F.max_pool2d(x, *w))


def _avg(*w: Any) -> Duel:
    return _functions("F.avg_pool2d", lambda x: pool.avg_pool2d(x, *w), lambda x: F.avg_pool2d(x, *w))


DUELS = {
    "max 2/2": _max(2),
    "max 3/2": _max(3, 2, 1),
    "avg 2/2": _avg(2),
    "avg 3/2": _avg(3, 2, 1),
    "blur 3/2": Duel("timm BlurPool2d", lambda c: pool.blur_pool2d, _timm_blur(3)),
    "blur 3/2 again": Duel("antialiased-cnns BlurPool", lambda c: pool.blur_pool2d, _zhang_blur),
    "blur 5/2": Duel("timm BlurPool2d", lambda c: lambda x: pool.blur_pool2d(x, 5), _timm_blur(5)),
    "max_blur 2/3/2": Duel(
        "MaxPool2d(2, 1), timm BlurPool2d", lambda c: pool.max_blur_pool2d, _timm_max_blur
    ),
    "lp p=3": _functions(
        "F.lp_pool2d", lambda x: pool.lp_pool2d(x, 3.0, 2), lambda x: F.lp_pool2d(x, 3.0, 2), positive=True
    ),
    "gem p=3": _functions(
        "GeM as timm has it", lambda x: pool.gem_pool2d(x, 2, p=3.0, eps=EPS), _gem(3.0), positive=True
    ),
    "gem learnt": Duel(
        "GeM as timm has it",
        lambda c: _learnt(lambda x, p: pool.gem_pool2d(x, 2, p=p, eps=EPS)),
        lambda c: _learnt(lambda x, p: _gem(p)(x)),
        positive=True,
    ),
    "soft": _functions("exp, F.avg_pool2d", lambda x: pool.soft_pool2d(x, 2), _soft, positive=True),
    "stochastic": _functions(
        "unfold, torch.multinomial", lambda x: pool.stochastic_pool2d(x, 2), _draw, positive=True, random=True
    ),
}
