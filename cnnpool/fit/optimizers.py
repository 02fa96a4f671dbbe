"""The optimiser of a recipe, torch's AdamW and SGD, or Muon for convolutions, and the rates of its layers."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer
from torch.optim.adamw import adamw

from cnnpool.model import Cnn
from cnnpool.model.base import BATCH_NORM
from cnnpool.probe.base import examined
from cnnpool.recipe import Recipe

BETAS, EPS = (0.9, 0.999), 1e-8  # AdamW's betas and epsilon, torch's defaults
MOMENTUM = 0.6
# x -> A x + B x^3 + C x^5, the effect of a step on each singular value (Jordan 2024, the Muon optimiser).
A, B, C = 3.4445, -4.775, 2.0315
SMALLEST = 1e-7


class Muon(Optimizer):
    """Orthogonal steps for the weights of convolutions (Jordan 2024), AdamW for all other parameters.

    The gradient with Nesterov momentum 0.6 is made nearly orthogonal, as a matrix of outputs by inputs, in
    three Newton-Schulz steps, and scaled so that AdamW's rates suit it (Liu 2025, arXiv:2502.16982). torch's
    ``Muon`` accepts only matrices, rounds them to half precision and is slower. Parameters of four axes are
    weights of convolutions, (O, I, kH, kW).
    """

    def __init__(self, params: Iterable[Any], lr: float, weight_decay: float = 0.0):
        # torch keeps step counts on the parameters' device if a group contains "fused".
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "fused": True})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            self._orthogonal_step([p for p in params if p.ndim == 4], group)
            self._adamw_step([p for p in params if p.ndim != 4], group)
        return loss

    def _orthogonal_step(self, params: list[Tensor], group: dict[str, Any]) -> None:
        if not params:
            return
        for p in params:
            if not self.state[p]:
                self.state[p]["momentum_buffer"] = torch.zeros_like(p, memory_format=torch.preserve_format)
        steps = []
        for p, grad in zip(params, _gradients(params), strict=True):
            momentum = self.state[p]["momentum_buffer"].lerp_(grad, 1 - MOMENTUM)
            steps.append(_matrix(grad.lerp(momentum, MOMENTUM), like=p))
        for p, step in zip(params, orthogonal(steps), strict=True):
            p.mul_(1 - group["lr"] * group["weight_decay"])
            _matrix(p, like=p).add_(step, alpha=-0.2 * group["lr"] * math.sqrt(max(step.shape)))

    def _adamw_step(self, params: list[Tensor], group: dict[str, Any]) -> None:
        for p in params:
            if not self.state[p]:
                self.state[p].update(
                    step=torch.zeros((), dtype=torch.float32, device=p.device),
                    exp_avg=torch.zeros_like(p, memory_format=torch.preserve_format),
                    exp_avg_sq=torch.zeros_like(p, memory_format=torch.preserve_format),
                )
        states = [self.state[p] for p in params]
        adamw(
            params,
            _gradients(params),
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            [state["step"] for state in states],
            fused=True,
            amsgrad=False,
            beta1=BETAS[0],
            beta2=BETAS[1],
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=EPS,
            maximize=False,
        )


def _gradients(params: Iterable[Tensor]) -> list[Tensor]:
    return [p.grad for p in params if p.grad is not None]


def _matrix(t: Tensor, like: Tensor) -> Tensor:
    """(O, I, kH, kW) as (O, the rest), in the order of axes that gives a view of ``like``."""
    return t.flatten(1) if like.is_contiguous() else t.permute(0, 2, 3, 1).flatten(1)


def orthogonal(matrices: Sequence[Tensor], steps: int = 3) -> list[Tensor]:
    """Each matrix with its singular values, divided by its Frobenius norm (at least 1e-7), brought near 1.

    A step takes X to (A + B G + C G^2) X with G = X X', so all steps together give Q X, where Q depends on
    the first G alone. That takes two products with X in all instead of three per step; the others are of
    small square matrices, batched by size. Three steps bring singular values between a tenth of the norm and
    the norm to 0.5 to 1.3.
    """
    flat = [m if m.shape[0] <= m.shape[1] else m.T for m in matrices]
    groups = defaultdict(list)
    for place, m in enumerate(flat):
        groups[m.shape[0]].append(place)
    done = list(matrices)
    # Autocast would round the products to half precision.
    with torch.autocast(matrices[0].device.type, enabled=False):
        for places in groups.values():
            gram = torch.stack([flat[place] @ flat[place].T for place in places])
            size = gram.diagonal(dim1=1, dim2=2).sum(1)[:, None, None].clamp(min=SMALLEST**2)
            square = _polynomial(gram / size, steps) / size.sqrt()
            for q, place in zip(square, places, strict=True):
                m = q @ flat[place]
                done[place] = m if flat[place] is matrices[place] else m.T
    return done


def _polynomial(gram: Tensor, steps: int) -> Tensor:
    """The product of (A + B G + C G^2) over ``steps``, where each step updates G, first ``gram``."""
    rest = torch.baddbmm(gram, gram, gram, beta=B, alpha=C)
    product = rest.clone()
    product.diagonal(dim1=1, dim2=2).add_(A)
    for _ in range(steps - 1):
        # Polynomials of one matrix commute.
        gram = torch.baddbmm(gram, rest, gram, beta=A)
        gram = torch.baddbmm(gram, rest, gram, beta=A)
        rest = torch.baddbmm(gram, gram, gram, beta=B, alpha=C)
        product = torch.baddbmm(product, rest, product, beta=A)
    return product


OPTIMIZERS: dict[str, Callable[..., Optimizer]] = {
    "adamw": partial(AdamW, betas=BETAS, eps=EPS),
    "muon": Muon,
    "sgd": partial(SGD, momentum=0.9, nesterov=True),
}


@dataclass
class Level:
    """The layers of one resolution, and their learning rate in multiples of the recipe's."""

    modules: list[nn.Module] = field(default_factory=list)
    scale: float = 1.0
    trained: bool = True

    @property
    def parameters(self) -> list[nn.Parameter]:
        own = [p for module in self.modules for p in module.parameters(recurse=False)]
        return [p for p in dict.fromkeys(own) if p.requires_grad]


def levels(model: Cnn, example: Tensor) -> list[Level]:
    """The layers of ``model`` between stages that make the smallest map so far; the last one apart."""
    found: list[Level] = [Level()]
    smallest = [example.shape[-2:].numel()]
    called: dict[nn.Module, int] = {}
    axes = dict(model.shrinking)

    def passed(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        if (size := output[0].numel() // output.shape[axes[module]]) < smallest[0]:
            smallest[0] = size
            found.append(Level())

    def works(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        called.setdefault(module, len(found) - 1)

    owners = [m for m in model.modules() if any(True for _ in m.parameters(recurse=False))]
    hooks = [
        *(module.register_forward_hook(passed) for module in axes),
        *(owner.register_forward_pre_hook(works) for owner in owners),
    ]
    try:
        with examined(model), torch.no_grad():
            model(example)
    finally:
        for hook in hooks:
            hook.remove()
    # Also a second head, such as that of a distilled network.
    new = {f"network.{name.rpartition('.')[0]}" for name in model.new_weights}
    heads = [module for name, module in model.named_modules() if name in new and module in called]
    heads = list(dict.fromkeys([*heads, list(called)[-1]]))
    for module, level in called.items():
        if module not in heads:
            found[level].modules.append(module)
    # Parameters of modules that are not called, but read by their parents.
    found[0].modules += [owner for owner in owners if owner not in called]
    return [*found, Level(heads)]


def plan(model: Cnn, recipe: Recipe, example: Tensor) -> list[Level]:
    """The levels of ``model`` with the learning rates of ``recipe``; freezes layers as it says."""
    found = levels(model, example)
    if recipe.freeze >= len(found):
        raise ValueError(
            f"fit.freeze={recipe.freeze} leaves nothing to train: the network has {len(found)} levels, "
            "its last layer among them"
        )
    last = len(found) - 1
    for number, level in enumerate(found):
        level.scale = recipe.layer_decay ** (last - number)
        level.trained = number >= recipe.freeze
        for module in level.modules:
            frozen = recipe.freeze_norm and isinstance(module, BATCH_NORM)
            for p in module.parameters(recurse=False):
                p.requires_grad_(level.trained and not frozen)
    found[-1].scale = recipe.head_rate
    return found


def is_uniform(recipe: Recipe) -> bool:
    rates = recipe.head_rate == recipe.layer_decay == 1
    return rates and not recipe.freeze and not recipe.freeze_norm


def frozen_norms(levels: Sequence[Level], recipe: Recipe) -> list[nn.Module]:
    return [
        module
        for level in levels
        for module in level.modules
        if isinstance(module, BATCH_NORM) and (recipe.freeze_norm or not level.trained)
    ]


def build(
    recipe: Recipe,
    parameters: Iterable[nn.Parameter],
    levels: Iterable[Level] = (),
    *,
    clipped: bool = False,
) -> Optimizer:
    """The optimiser of ``recipe``, with weight decay only on weights of two or more axes.

    In mixed precision Lightning clips no gradients of a fused optimiser, the faster one: ``clipped`` says so.
    """
    parts = [(level.parameters, level.scale) for level in levels]
    groups = []
    for own, scale in parts or [([p for p in parameters if p.requires_grad], 1.0)]:
        for weights, decay in (
            ([p for p in own if p.ndim > 1], recipe.weight_decay),
            ([p for p in own if p.ndim <= 1], 0.0),
        ):
            if weights or not parts:
                groups.append({"params": weights, "weight_decay": decay, "lr": recipe.lr * scale})
    fused = {} if recipe.optimizer == "muon" else {"fused": not clipped}
    return OPTIMIZERS[recipe.optimizer](groups, lr=recipe.lr, **fused)
