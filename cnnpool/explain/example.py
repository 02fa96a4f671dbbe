"""A worked example: two small images through one operator and back."""

import copy
from dataclasses import dataclass
from importlib.metadata import entry_points

import torch
from torch import Tensor, nn

from cnnpool import pool, readout, registry
from cnnpool.explain.choices import Phase, Tie, phases, tie
from cnnpool.explain.derivatives import SEED, derivatives, forward, windows, without_noise

IMAGES = torch.tensor(
    [
        [[1, 3, 2, 0], [4, 4, 1, 5], [0, 2, 6, 1], [1, 0, 2, 4]],
        [[2, 0, 1, 4], [1, 5, 3, 2], [7, 1, 0, 2], [1, 2, 0, 1]],
    ],
    dtype=torch.float64,
).unsqueeze(1)
"""Two 4x4 images of sum 36 and 32; the first has a tie (4 and 4) in its upper left corner."""
FACTS = ("shift", "paper")
UNKNOWN = "not stated"


@dataclass(frozen=True)
class Example:
    """One operator on the two images, forward and backward.

    Args:
        title: the operator with its options.
        formula: of one output.
        facts: shift and paper, as the operator states them.
        images: the inputs x, (2, 1, 4, 4).
        outputs: y, (2, 1, h, w); a readout's vector is (2, 1, 1, D).
        evaluated: y in evaluation mode, where the example shows one draw of training mode; else None.
        upstream: gradient of each sample's loss with respect to y, same shape.
        gradients: gradient of each sample's loss with respect to its x, (2, 1, 4, 4).
        derivatives: dy/dx of every output, (2, h*w, 4, 4).
        windows: the inputs that an output can depend on, bool, same shape as ``derivatives``.
        weights: the operator's own parameters, by name.
        score: what phases are chosen by, for an operator that subsamples.
        phases: of each sample, for an operator that subsamples.
    """

    title: str
    formula: str
    facts: dict[str, str]
    images: Tensor
    outputs: Tensor
    evaluated: Tensor | None
    upstream: Tensor
    gradients: Tensor
    derivatives: Tensor
    windows: Tensor
    weights: dict[str, Tensor]
    score: str
    phases: list[list[Phase]]

    @property
    def weight_gradients(self) -> Tensor:
        """Per sample, (2,): dL/dw for a weight w that scales the image, x = w * image, at w = 1."""
        return (self.gradients * self.images).sum((1, 2, 3))

    def chooses(self, n: int, index: int) -> bool:
        """Whether the gradient of output ``index`` of sample ``n`` goes to a part of its window alone."""
        reached = self.derivatives[n, index] != 0
        return bool(
            (reached & ~self.windows[n, index]).sum() == 0 and (self.windows[n, index] & ~reached).any()
        )

    def tie(self, n: int, index: int) -> Tie | None:
        """The tie in the window of output ``index`` of sample ``n``; none where chance or phases decide."""
        if self.evaluated is not None or self.phases:
            return None
        output = self.outputs[n].flatten()[index].item()
        return tie(self.images[n, 0], self.windows[n, index], output, self.derivatives[n, index])


def example(name: str, **options: object) -> Example:
    """The worked example of the operator or readout called ``name``.

    An operator that draws is shown in training mode, one draw of seed ``SEED``. The random numbers of the
    caller are left alone.

    Raises:
        ValueError: for an unknown name or option.
    """
    with torch.random.fork_rng(devices=[]):
        return _example(name, options)


def examples(name: str) -> list[Example]:
    """The example with the operator's defaults and, where windows can overlap, with overlapping windows."""
    shown = [example(name, **_defaults(name))]
    if name in ("max", "avg"):
        shown.append(example(name, kernel_size=3, stride=1))
    if name == "max":
        shown.append(example(name, ties="split"))
    return shown


def _example(name: str, options: dict[str, object]) -> Example:
    torch.manual_seed(SEED)
    operator = _build(name, options).double()
    _plain_weights(operator)
    draws = getattr(operator, "random", False)
    # First, since an operator may remember what it drew.
    evaluated = forward(copy.deepcopy(operator).eval(), IMAGES).detach() if draws else None
    operator.train(draws)
    operator.keep_phase = True
    images = IMAGES.clone().requires_grad_()
    outputs = forward(operator, images)
    upstream = 1.0 + torch.arange(outputs[0].numel(), dtype=torch.float64).reshape(outputs[0].shape)
    (gradients,) = torch.autograd.grad(outputs, images, upstream.expand_as(outputs))
    with torch.no_grad():
        score, parts = phases(operator, IMAGES)
    settings = ", ".join(f"{key}={value}" for key, value in options.items())
    return Example(
        title=f"{name} ({settings})" if settings else name,
        formula=getattr(operator, "formula", UNKNOWN),
        facts={fact: getattr(operator, fact, UNKNOWN) for fact in FACTS},
        images=IMAGES,
        outputs=outputs.detach(),
        evaluated=evaluated,
        upstream=upstream.expand_as(outputs),
        gradients=without_noise(gradients),
        derivatives=derivatives(operator, IMAGES),
        windows=windows(operator, IMAGES.shape),
        weights={key: value.detach() for key, value in operator.named_parameters()},
        score=score,
        phases=parts,
    )


def _build(name: str, options: dict[str, object]) -> nn.Module:
    if name not in pool.OPERATORS and name in {*readout.READOUTS, *_foreign_readouts()}:
        return readout.build(name, 1, tuple(IMAGES.shape[-2:]), **options)
    registry.lookup({**pool.OPERATORS, **readout.READOUTS}, "operators", name)
    return pool.build(name, 1, **options)


def _foreign_readouts() -> set[str]:
    return set(entry_points(group="cnnpool.readouts").names)


def _defaults(name: str) -> dict[str, object]:
    """Options that make a 4x4 example readable."""
    return {"strided": {"kernel_size": 2}, "flatten": {"hidden": 0}, "lps": {"tau": 20.0}}.get(name, {})


def _plain_weights(operator: nn.Module) -> None:
    """Convolutions get weights 0.1, 0.2, ... that a reader can follow."""
    for layer in operator.modules():
        if isinstance(layer, nn.Conv2d):
            count = torch.arange(layer.weight.numel(), dtype=torch.float64) % 9 + 1
            with torch.no_grad():
                layer.weight.copy_((count / 10).reshape(layer.weight.shape))
                if layer.bias is not None:
                    layer.bias.zero_()
