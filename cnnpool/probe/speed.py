"""Time: of the whole model's forward pass, and of every stage forward and backward."""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from cnnpool.probe.base import captured, device_of, examined


def images_per_s(model: nn.Module, images: Tensor, repeats: int) -> float:
    """Images through the forward pass in eval mode per second, the median of ``repeats`` passes."""
    device = device_of(model)
    images = images.to(device)
    with examined(model), torch.no_grad():
        return len(images) / seconds(lambda: model(images), repeats, device)


def stage_times(
    model: nn.Module, stages: Mapping[str, nn.Module], images: Tensor, repeats: int
) -> dict[str, dict[str, float]]:
    """By stage ``forward_us`` and ``backward_us``: microseconds per image in eval mode, medians.

    The operator alone, on the maps that it sees; backward to its input and its parameters. Forward is timed
    while recording for backward, as in training.
    """
    device = device_of(model)
    times = {}
    with examined(model), captured(stages, inputs=True) as maps, torch.no_grad():
        model(images.to(device))
        seen = dict(maps)
    with examined(model), torch.enable_grad():
        for stage, x in seen.items():
            forward, backward = _operator_seconds(stages[stage], x, repeats, device)
            per_image = 1e6 / len(images)
            times[stage] = {"forward_us": forward * per_image, "backward_us": backward * per_image}
    return times


def seconds(work: Callable[[], object], repeats: int, device: torch.device) -> float:
    """Median wall time of ``work``, after one call that is not timed."""
    measured = []
    for _ in range(repeats + 1):
        _wait(device)
        start = time.perf_counter()
        work()
        _wait(device)
        measured.append(time.perf_counter() - start)
    return statistics.median(measured[1:])


def _operator_seconds(
    operator: nn.Module, x: Tensor, repeats: int, device: torch.device
) -> tuple[float, float]:
    x = x.detach().requires_grad_()
    wanted = [x, *(p for p in operator.parameters() if p.requires_grad)]
    forward = seconds(lambda: operator(x), repeats, device)
    output = operator(x)
    if output.grad_fn is None:
        return forward, 0.0
    root = _Receives.apply(output, torch.ones_like(output))
    backward = seconds(
        lambda: torch.autograd.grad(root, wanted, retain_graph=True, allow_unused=True), repeats, device
    )
    return forward, backward


class _Receives(torch.autograd.Function):
    """A number that ``output`` receives a given gradient from.

    Given to ``torch.autograd.grad`` itself, it would make torch import sympy, for a third of a second.
    """

    @staticmethod
    def forward(ctx: Any, output: Tensor, gradient: Tensor) -> Tensor:
        ctx.gradient = gradient
        return output.new_zeros(())

    @staticmethod
    def backward(ctx: Any, _: Tensor) -> tuple[Tensor, None]:
        return ctx.gradient, None


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
