"""Gradient noise scale: how much the gradients of single samples differ from their mean."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cnnpool.probe.base import AtLeastTwo, Batch, Probe, Result, Stages, device_of, examined
from cnnpool.probe.gradient_taps import adjacent_weights
from cnnpool.quantity import Quantity, Shown, fraction


def _noise(where: str, title: str, of: str, shown: Shown) -> tuple[Quantity, ...]:
    """The quantities of ``Moments.noise`` at ``where``."""
    trace = f"Trace of the covariance of single-image gradients of {of}"
    return (
        Quantity(
            f"{where}trace",
            f"gradient variance{title}",
            f"{trace}, unbiased.",
            shown="file",
            range=(0.0, None),
        ),
        Quantity(
            f"{where}signal",
            f"squared gradient{title}",
            f"Squared length of the true gradient of {of}, unbiased: it may come out negative where noise "
            "hides it.",
            shown="file",
        ),
        Quantity(
            f"{where}noise_scale",
            f"gradient noise scale{title}",
            f"{trace} divided by the squared length of their mean, in images: about the batch size from "
            "which larger batches gain little (McCandlish 2018).",
            unit="images",
            range=(0.0, None),
            shown=shown,
        ),
        fraction(
            f"{where}zero_fraction",
            f"zero single-image gradients{title}",
            f"Entries of single-image gradients of {of} that are exactly zero, divided by all.",
            shown="file",
        ),
    )


@dataclass(kw_only=True)
class GradientNoise(Probe):
    """Gradient noise scale of all parameters, and of the learnt filters next to every stage.

    Args:
        samples: images whose gradients are compared, >= 2; each takes a separate backward pass.
    """

    section = "noise"
    quantities = (
        *_noise("", "", "all parameters", "probe"),
        *_noise(
            "stages.<stage>.<filters>.", ", <filters>", "the filters before, in or after a stage", "file"
        ),
    )

    samples: AtLeastTwo = 64

    def read(self, model: nn.Module, stages: Stages, batch: Batch) -> Result:
        images, labels, *_ = batch.first(self.samples)
        moments = Moments(p for p in model.parameters() if p.requires_grad)
        device = device_of(model)
        with examined(model), torch.enable_grad():
            for image, label in zip(images.split(1), labels.split(1), strict=True):
                loss = F.cross_entropy(model(image.to(device)), label.to(device))
                moments.add(torch.autograd.grad(loss, moments.parameters, allow_unused=True))
        return {
            **moments.noise(moments.parameters),
            "samples": len(images),
            "stages": {
                stage: {f"weights_{side}": moments.noise([p]) for side, p in sides.items()}
                for stage, sides in adjacent_weights(model, stages, images[:1]).items()
            },
        }


class Moments:
    """Sums over samples of each parameter's gradient, of its square, and of its zeros."""

    def __init__(self, parameters: Iterable[nn.Parameter]):
        self.parameters = list(parameters)
        self.place = {id(p): index for index, p in enumerate(self.parameters)}
        self.total = [torch.zeros_like(p, dtype=torch.float64) for p in self.parameters]
        self.square = [0.0] * len(self.parameters)
        self.zeros = [0] * len(self.parameters)
        self.count = 0

    def add(self, gradients: Iterable[Tensor | None]) -> None:
        """One sample's gradients; None where the loss does not depend on the parameter."""
        self.count += 1
        for index, gradient in enumerate(gradients):
            if gradient is None:
                self.zeros[index] += self.total[index].numel()
                continue
            exact = gradient.double()
            self.total[index] += exact
            self.square[index] += exact.square().sum().item()
            self.zeros[index] += int((gradient == 0).sum())

    def noise(self, parameters: Iterable[nn.Parameter]) -> dict[str, float]:
        """Noise scale of ``parameters`` together (McCandlish 2018, arXiv:1812.06162, the simple noise scale).

        ``signal`` is |mean|^2 - trace / samples, ``noise_scale`` trace / signal, in samples; omitted if the
        signal is lost in the noise.
        """
        chosen = [self.place[id(p)] for p in parameters]
        n = self.count
        length = sum((self.total[i] / n).square().sum().item() for i in chosen)
        trace = max(sum(self.square[i] for i in chosen) - n * length, 0.0) / (n - 1)
        signal = length - trace / n
        entries = n * sum(self.total[i].numel() for i in chosen)
        result = {"trace": trace, "signal": signal}
        if signal > 0:
            result["noise_scale"] = trace / signal
        if entries:
            result["zero_fraction"] = sum(self.zeros[i] for i in chosen) / entries
        return result
