"""Optimisers by torch's own fused functions, without the classes around them.

``torch.optim``'s classes load torch's compiler when the first of them is made, which takes as long as a
hundred steps of a small network; nothing here is ever compiled.
"""

import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd

from cnnpool.fit.orthogonal import orthogonal
from cnnpool.recipe import Recipe

# Of Muon.
MOMENTUM = 0.6


class Optimizer(ABC):
    """Groups of parameters with their options, and a state per parameter, as ``torch.optim`` lays them out.

    Args:
        groups: of parameters, each ``{"params": ..., "weight_decay": ...}``.
        lr: learning rate of all groups to begin with; a schedule sets ``group["lr"]``.
    """

    def __init__(self, groups: Sequence[dict[str, Any]], lr: float):
        self.defaults: dict[str, Any] = {"lr": lr}
        self.param_groups = [{**self.defaults, **group, "params": list(group["params"])} for group in groups]
        self.state: defaultdict[Tensor, dict[str, Tensor]] = defaultdict(dict)

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        """One step along the gradients; a parameter without one stays as it is."""
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            for p in params:
                if p not in self.state:
                    self.state[p] = self.fresh(p)
            if params:
                self.move(params, [p.grad for p in params], group)

    @abstractmethod
    def fresh(self, p: Tensor) -> dict[str, Tensor]:
        """The state of a parameter before its first step."""

    @abstractmethod
    def move(self, params: list[Tensor], grads: list[Tensor], group: dict[str, Any]) -> None:
        """Change ``params``, all with a state, and their states."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients."""
        for group in self.param_groups:
            for p in group["params"]:
                p.grad = None

    def state_dict(self) -> dict[str, Any]:
        """Plain data: groups with the parameters' numbers for parameters, states by these numbers."""
        params = [p for group in self.param_groups for p in group["params"]]
        number = {id(p): index for index, p in enumerate(params)}
        groups = [{**g, "params": [number[id(p)] for p in g["params"]]} for g in self.param_groups]
        return {"state": {number[id(p)]: dict(s) for p, s in self.state.items()}, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from ``state_dict()``.

        Raises:
            ValueError: if it has other groups.
        """
        saved = state_dict["param_groups"]
        sizes = [[len(g["params"]) for g in groups] for groups in (saved, self.param_groups)]
        if sizes[0] != sizes[1]:
            raise ValueError(f"the optimiser's groups have {sizes[1]} parameters, those saved {sizes[0]}")
        for group, old in zip(self.param_groups, saved, strict=True):
            group.update({key: value for key, value in old.items() if key != "params"})
            for p, number in zip(group["params"], old["params"], strict=True):
                if number in state_dict["state"]:
                    state = state_dict["state"][number].items()
                    self.state[p] = {key: value.clone().to(p.device) for key, value in state}

    def states(self, params: list[Tensor], key: str) -> list[Tensor]:
        """What the state of each of ``params`` has under ``key``."""
        return [self.state[p][key] for p in params]


class AdamW(Optimizer):
    """Loshchilov & Hutter 2019 (arXiv:1711.05101) with the usual moments, 0.9 and 0.999, and eps 1e-8."""

    def fresh(self, p: Tensor) -> dict[str, Tensor]:
        return {
            "step": torch.zeros((), dtype=torch.float32, device=p.device),
            "exp_avg": torch.zeros_like(p, memory_format=torch.preserve_format),
            "exp_avg_sq": torch.zeros_like(p, memory_format=torch.preserve_format),
        }

    def move(self, params: list[Tensor], grads: list[Tensor], group: dict[str, Any]) -> None:
        adamw(
            params,
            grads,
            self.states(params, "exp_avg"),
            self.states(params, "exp_avg_sq"),
            [],
            self.states(params, "step"),
            fused=True,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=1e-8,
            maximize=False,
        )


class Muon(AdamW):
    """Orthogonal steps for the weights of convolutions (Jordan 2024), ``AdamW`` for all other parameters.

    The gradient with Nesterov momentum 0.6 is made nearly orthogonal, as a matrix of outputs by inputs, in
    three Newton-Schulz steps, and scaled so that AdamW's rates suit it (Liu 2025, arXiv:2502.16982). Torch's
    own ``Muon`` rounds the matrices to half precision and takes longer.
    """

    def fresh(self, p: Tensor) -> dict[str, Tensor]:
        if p.ndim != 4:
            return super().fresh(p)
        return {"momentum_buffer": torch.zeros_like(p, memory_format=torch.preserve_format)}

    def move(self, params: list[Tensor], grads: list[Tensor], group: dict[str, Any]) -> None:
        pairs = list(zip(params, grads, strict=True))
        weights = [(p, grad, self.state[p]["momentum_buffer"]) for p, grad in pairs if p.ndim == 4]
        others = [(p, grad) for p, grad in pairs if p.ndim != 4]
        if others:
            super().move(*map(list, zip(*others, strict=True)), group)
        if weights:
            self._turn(*map(list, zip(*weights, strict=True)), group)

    def _turn(
        self, params: list[Tensor], grads: list[Tensor], momenta: list[Tensor], group: dict[str, Any]
    ) -> None:
        torch._foreach_lerp_(momenta, grads, 1 - MOMENTUM)
        steps = torch._foreach_lerp(grads, momenta, MOMENTUM)
        steps = orthogonal([_matrix(step, like=p) for step, p in zip(steps, params, strict=True)])
        torch._foreach_mul_(params, 1 - group["lr"] * group["weight_decay"])
        for p, step in zip(params, steps, strict=True):
            _matrix(p, like=p).add_(step, alpha=-0.2 * group["lr"] * math.sqrt(max(step.shape)))


class Sgd(Optimizer):
    """Stochastic gradient descent with Nesterov momentum 0.9 (Sutskever 2013)."""

    def fresh(self, p: Tensor) -> dict[str, Tensor]:
        # A first step from a momentum of zero leaves the gradient there, as torch's own does.
        return {"momentum_buffer": torch.zeros_like(p, memory_format=torch.preserve_format)}

    def move(self, params: list[Tensor], grads: list[Tensor], group: dict[str, Any]) -> None:
        sgd(
            params,
            grads,
            self.states(params, "momentum_buffer"),
            fused=True,
            weight_decay=group["weight_decay"],
            momentum=0.9,
            lr=group["lr"],
            dampening=0.0,
            nesterov=True,
            maximize=False,
        )


def _matrix(t: Tensor, like: Tensor) -> Tensor:
    """(O, I, kH, kW) as (O, the rest) in an order that makes a view of ``like``."""
    return t.flatten(1) if like.is_contiguous() else t.permute(0, 2, 3, 1).flatten(1)


def build(recipe: Recipe, parameters: Iterable[nn.Parameter]) -> Optimizer:
    """The optimiser of ``recipe``, with weight decay on weights of two or more axes only."""
    parameters = [p for p in parameters if p.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": recipe.weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return {"adamw": AdamW, "muon": Muon, "sgd": Sgd}[recipe.optimizer](groups, lr=recipe.lr)
