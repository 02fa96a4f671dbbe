"""Gradient routing: how much of a feature map gets gradient back through each downsampling stage."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cnnpool.probe.base import Result, captured, device_of, examined


class GradientRouting:
    """Zero fraction, batch coverage and tied windows at every stage, from the real loss gradient.

    Args:
        samples: images of the probe batch, >= 1; coverage depends on it.
        epsilon: a gradient under epsilon times the sample's largest counts as small, 0..1.
        every_epochs: read after every so many epochs; 0: only at the end.

    Raises:
        ValueError: if an option is out of range.
    """

    section = "gradient"

    def __init__(self, *, samples: int = 128, epsilon: float = 1e-3, every_epochs: int = 1):
        if samples < 1 or not 0 <= epsilon <= 1 or every_epochs < 0:
            raise ValueError(
                "gradient probe: samples must be >= 1, epsilon in 0..1, every_epochs >= 0, got "
                f"samples={samples}, epsilon={epsilon}, every_epochs={every_epochs}"
            )
        self.samples = samples
        self.epsilon = epsilon
        self.every_epochs = every_epochs

    def measure(
        self, model: nn.Module, stages: Mapping[str, nn.Module], images: Tensor, labels: Tensor
    ) -> Result:
        images, labels = images[: self.samples], labels[: self.samples]
        taps = stage_gradients(model, stages, images, labels)
        return {
            stage: {
                **density(gradient, self.epsilon),
                **ties(activation, stages[stage]),
                "samples": len(images),
            }
            for stage, (activation, gradient) in taps.items()
        }


def stage_gradients(
    model: nn.Module, stages: Mapping[str, nn.Module], images: Tensor, labels: Tensor
) -> dict[str, tuple[Tensor, Tensor]]:
    """(input, per-sample loss gradient at that input) of every stage, each (N, C, H, W).

    The model is in eval mode, so sample n of the gradient of the summed cross entropy is the gradient of
    sample n's own loss: nothing is divided by the batch size.
    """
    device = device_of(model)
    with examined(model), captured(stages, inputs=True) as inputs, torch.enable_grad():
        images = images.to(device).requires_grad_()
        loss = F.cross_entropy(model(images), labels.to(device), reduction="sum")
        gradients = torch.autograd.grad(loss, list(inputs.values()))
    return {
        stage: (inputs[stage].detach(), gradient) for stage, gradient in zip(inputs, gradients, strict=True)
    }


def density(gradient: Tensor, epsilon: float = 1e-3) -> dict[str, float]:
    """How sparse per-sample gradients (N, C, H, W) are.

    Returns:
        ``zero_fraction``: entries that are exactly zero, divided by all N*C*H*W.
        ``small_fraction``: entries with |g| <= epsilon * max |g| of their sample, divided by all.
        ``coverage``: of the C*H*W inputs, those to which at least one of the N samples sends gradient.
    """
    zero = gradient == 0
    largest = gradient.abs().amax((1, 2, 3), keepdim=True)
    return {
        "zero_fraction": zero.double().mean().item(),
        "small_fraction": (gradient.abs() <= epsilon * largest).double().mean().item(),
        "coverage": (~zero).any(0).double().mean().item(),
    }


def ties(activation: Tensor, operator: nn.Module) -> dict[str, float]:
    """Windows of the map (N, C, H, W) in which the maximum is not unique, and windows of zeros alone.

    The windows are the operator's own (``kernel_size``, ``stride``, ``padding``, ``dilation``); an operator
    without a window is judged by its stride x stride cells.

    Returns:
        ``tied_windows``, ``zero_windows``: divided by the number of windows that lie wholly in the map.
    """
    stride = _pair(getattr(operator, "stride", 2))
    kernel = _pair(getattr(operator, "kernel_size", stride))
    dilation = _pair(getattr(operator, "dilation", 1))
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    if any(length < r for length, r in zip(activation.shape[-2:], reach, strict=True)):
        return {"tied_windows": 0.0, "zero_windows": 0.0}
    planes = activation.float().flatten(0, 1).unsqueeze(1)
    windows = F.unfold(planes, kernel, dilation=dilation, stride=stride)
    winners = (windows == windows.amax(1, keepdim=True)).sum(1)
    return {
        "tied_windows": (winners > 1).double().mean().item(),
        "zero_windows": (windows == 0).all(1).double().mean().item(),
    }


def _pair(value: int | tuple[int, int]) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else tuple(value)
