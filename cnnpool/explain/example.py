"""A worked example: two small images through one operator and back."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cnnpool import pool, readout

IMAGES = torch.tensor(
    [
        [[1, 3, 2, 0], [4, 4, 1, 5], [0, 2, 6, 1], [1, 0, 2, 3]],
        [[2, 0, 1, 4], [1, 5, 3, 2], [7, 1, 0, 2], [3, 2, 1, 1]],
    ],
    dtype=torch.float64,
).unsqueeze(1)
"""Two 4x4 images; the first has a tie (4 and 4) in its upper left corner."""


@dataclass(frozen=True)
class Example:
    """One operator on the two images, forward and backward.

    Args:
        title: the operator with its options.
        formula: of one output.
        images: the inputs x, (2, 1, 4, 4).
        outputs: y, (2, 1, h, w); a readout's vector is (2, 1, 1, D).
        upstream: gradient of each sample's loss with respect to y, same shape.
        gradients: gradient of each sample's loss with respect to its x, (2, 1, 4, 4).
        derivatives: dy/dx of every output, (2, h*w, 4, 4).
        weights: the operator's own parameters, by name.
    """

    title: str
    formula: str
    images: Tensor
    outputs: Tensor
    upstream: Tensor
    gradients: Tensor
    derivatives: Tensor
    weights: dict[str, Tensor]

    @property
    def weight_gradients(self) -> Tensor:
        """Per sample, (2,): dL/dw for a weight w that scales the image, x = w * image, at w = 1."""
        return (self.gradients * self.images).sum((1, 2, 3))


def example(name: str, **options: object) -> Example:
    """The worked example of the operator or readout called ``name``.

    Raises:
        ValueError: for an unknown name or option.
    """
    torch.manual_seed(0)
    operator = _build(name, options).double()
    operator.train(getattr(operator, "random", False))
    _plain_weights(operator)
    images = IMAGES.clone().requires_grad_()
    torch.manual_seed(0)
    outputs = operator(images)
    if outputs.ndim == 2:
        outputs = outputs[:, None, None, :]
    upstream = 1.0 + torch.arange(outputs[0].numel(), dtype=torch.float64).reshape(outputs[0].shape)
    upstream = upstream.expand_as(outputs)
    (gradients,) = torch.autograd.grad(outputs, images, upstream, retain_graph=True)
    rows = []
    for index in range(outputs[0].numel()):
        # One backward pass serves both samples: neither depends on the other.
        (row,) = torch.autograd.grad(outputs.flatten(1)[:, index].sum(), images, retain_graph=True)
        rows.append(row[:, 0])
    settings = ", ".join(f"{key}={value}" for key, value in options.items())
    return Example(
        title=f"{name} ({settings})" if settings else name,
        formula=operator.formula,
        images=IMAGES,
        outputs=outputs.detach(),
        upstream=upstream,
        gradients=gradients,
        derivatives=torch.stack(rows, 1),
        weights={key: value.detach() for key, value in operator.named_parameters()},
    )


def examples(name: str) -> list[Example]:
    """The example with the operator's defaults and, where windows can overlap, with overlapping windows."""
    shown = [example(name, **_defaults(name))]
    if name in ("max", "avg"):
        shown.append(example(name, kernel_size=3, stride=1))
    if name == "max":
        shown.append(example(name, ties="split"))
    return shown


def _build(name: str, options: dict[str, object]) -> nn.Module:
    if name in pool.OPERATORS or name not in readout.READOUTS:
        return pool.build(name, 1, **options)
    return readout.build(name, 1, tuple(IMAGES.shape[-2:]), **options)


def _defaults(name: str) -> dict[str, object]:
    """Options that make a 4x4 example readable."""
    return {"strided": {"kernel_size": 2}, "flatten": {"hidden": 0}}.get(name, {})


def _plain_weights(operator: nn.Module) -> None:
    """Convolutions get weights 0.1, 0.2, ... that a reader can follow."""
    for layer in operator.modules():
        if isinstance(layer, nn.Conv2d):
            count = torch.arange(layer.weight.numel(), dtype=torch.float64) % 9 + 1
            with torch.no_grad():
                layer.weight.copy_((count / 10).reshape(layer.weight.shape))
                if layer.bias is not None:
                    layer.bias.zero_()
