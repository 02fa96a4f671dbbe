"""A worked example: a batch of small images through one operator and back."""

import copy
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from cnnpool.explain.operator import UNKNOWN, Room, build, found, gradient_of
from cnnpool.pool import ApsPool2d, LpsPool2d
from cnnpool.pool.aps import PolyphasePool2d
from cnnpool.pool.autograd.phases import complete, components

IMAGES = torch.tensor(
    [
        [[1, 3, 2, 0], [4, 4, 1, 5], [0, 2, 6, 1], [1, 0, 2, 4]],
        [[2, 0, 1, 4], [1, 5, 3, 2], [7, 1, 0, 2], [1, 2, 0, 1]],
    ],
    dtype=torch.float64,
).unsqueeze(1)
"""Two 4x4 images of sum 36 and 32; the first has a tie (4 and 4) in its upper left corner."""
READABLE: dict[str, dict[str, object]] = {
    "strided": {"kernel_size": 2},
    "flatten": {"hidden": 0},
    "lps": {"tau": 20.0},
}
"""Options that differ from the defaults, for an example that is easier to read."""
MOST_OUTPUTS = 256
SEED = 0
"""Seed of weights and draws."""
NOISE = 1e-12
"""Derivatives below this are rounding errors."""
PROBES = 128


class Tie(NamedTuple):
    """Equal inputs of a window whose value is the output, and those of them that receive the gradient."""

    value: float
    equals: list[tuple[int, int]]
    winners: list[tuple[int, int]]

    @property
    def rule(self) -> str:
        """first, last or split, by the observed gradient."""
        if self.winners == self.equals:
            return "split"
        ends = {self.equals[0]: "first", self.equals[-1]: "last"}
        return ends.get(self.winners[0], "other") if len(self.winners) == 1 else "other"


def tie(image: Tensor, window: Tensor, output: float, derivative: Tensor) -> Tie | None:
    """The tie that decides which input receives the gradient of one output, if any; all maps are (H, W)."""
    equal = window & (image == output)
    if equal.sum() < 2 or not derivative.any() or derivative[~equal].any():
        return None
    places = [tuple(place) for place in equal.nonzero().tolist()]
    return Tie(output, places, [place for place in places if derivative[place]])


class Phase(NamedTuple):
    """One way to subsample an image: its first pixel, its strides, and its weight in the operator."""

    start: tuple[int, int]
    stride: tuple[int, int]
    score: float | None
    weight: float


def phases(operator: nn.Module, images: Tensor) -> tuple[str, list[list[Phase]]]:
    """The score of phases in words, and the phases of each sample; empty for an operator without phases.

    The weight is 1 for the selected phase and 0 for the others, or the share of each in a mixture. Reads
    the sampling of the latest forward pass, so ``keep_phase`` must have been set before it.
    """
    if not isinstance(operator, PolyphasePool2d):
        return "", []
    whole, stride = complete(images, operator.stride), operator.stride
    assert operator.phase is not None
    weights = operator.phase.detach()
    if not weights.is_floating_point():
        weights = nn.functional.one_hot(weights, stride[0] * stride[1])
    weights = weights.flatten(1)
    label, scores = "", [[None] * weights.shape[1]] * len(images)
    if isinstance(operator, ApsPool2d):
        parts = torch.stack(components(whole, stride), 1).flatten(2)
        label, scores = f"||x_k||_{operator.p:g}", torch.linalg.vector_norm(parts, operator.p, 2).tolist()
    elif isinstance(operator, LpsPool2d):
        label, scores = "logit", operator.logits(whole).tolist()
    return label, [
        [
            Phase(divmod(k, stride[1]), stride, score, weight)
            for k, (score, weight) in enumerate(zip(sample, row, strict=True))
        ]
        for sample, row in zip(scores, weights.tolist(), strict=True)
    ]


@dataclass(frozen=True)
class Example:
    """One operator on a batch of images, forward and backward.

    Args:
        title: the operator with its options.
        formula: formula of one output.
        facts: gradient, shift and paper, as the operator declares them.
        images: the inputs x, (N, 1, H, W).
        outputs: y, (N, 1, h, w); a readout's vector is (N, 1, 1, D).
        evaluated: y in evaluation mode, if the example shows one draw of training mode; else None.
        upstream: gradient of each sample's own loss L_n with respect to its y, same shape.
        gradients: gradient of each sample's own loss L_n with respect to its x, (N, 1, H, W).
        derivatives: dy/dx of every output, (N, h*w, H, W).
        windows: the inputs that an output can depend on, bool, same shape as ``derivatives``.
        weights: the operator's own parameters, by name.
        score: the criterion for choosing phases, for an operator that subsamples.
        phases: phases of each sample, for an operator that subsamples.
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
        """Per sample, (N,): dL_n/dw for a weight w that scales the image, x = w * image, at w = 1."""
        return (self.gradients * self.images).sum((1, 2, 3))

    @property
    def batch_upstream(self) -> Tensor:
        """Gradient of the batch's loss, the mean of the L_n, with respect to y: ``upstream`` / N."""
        return self.upstream / len(self.images)

    @property
    def batch_gradients(self) -> Tensor:
        """Gradient of the batch's loss, the mean of the L_n, with respect to x: ``gradients`` / N."""
        return self.gradients / len(self.images)

    def chooses(self, n: int, index: int) -> bool:
        """Whether the gradient of output ``index`` of sample ``n`` goes only to a part of its window."""
        reached = self.derivatives[n, index] != 0
        window = self.windows[n, index]
        return bool(not (reached & ~window).any() and (window & ~reached).any())

    def tie(self, n: int, index: int) -> Tie | None:
        """The tie in the window of output ``index`` of sample ``n``; None if chance or phases decide."""
        if self.evaluated is not None or self.phases:
            return None
        output = self.outputs[n].flatten()[index].item()
        return tie(self.images[n, 0], self.windows[n, index], output, self.derivatives[n, index])


def example(name: str, images: Tensor = IMAGES, room: Room | None = None, /, **options: object) -> Example:
    """The worked example of the operator or readout called ``name``.

    An operator that draws is shown in training mode, with one draw of seed ``SEED``. The caller's random
    generators are not affected.

    Args:
        name: name of an operator or a readout; if both exist, the operator.
        images: float64, (N, 1, H, W).
        room: ``pool`` or ``readout``, to search only there.
        options: options of the operator.

    Raises:
        ValueError: in one line, for an unknown name or option, or one that does not fit the images.
    """
    with torch.random.fork_rng(devices=[]):
        try:
            return _example(name, images, room, options)
        except RuntimeError as error:
            # torch's own errors, such as padding of more than half of the kernel.
            raise ValueError(f"{name}: {str(error).splitlines()[0]}") from error


def _example(name: str, images: Tensor, room: Room | None, options: dict[str, object]) -> Example:
    room, name = found(name, room)
    options = {**READABLE.get(name, {}), **options}
    torch.manual_seed(SEED)
    operator = build(room, name, (images.shape[2], images.shape[3]), options).double()
    _plain_weights(operator)
    draws = getattr(operator, "random", False)
    # First, because an operator may store its draw.
    evaluated = forward(copy.deepcopy(operator).eval(), images).detach() if draws else None
    operator.train(draws)
    # Only operators with phases read it.
    operator.__dict__["keep_phase"] = True
    inputs = images.clone().requires_grad_()
    outputs = forward(operator, inputs)
    if outputs[0].numel() > MOST_OUTPUTS:
        raise ValueError(
            f"{name}: {outputs[0].numel():,} outputs are too many to explain: at most {MOST_OUTPUTS}"
        )
    upstream = 1.0 + torch.arange(outputs[0].numel(), dtype=torch.float64).reshape(outputs[0].shape)
    (gradients,) = torch.autograd.grad(outputs, inputs, upstream.expand_as(outputs))
    with torch.no_grad():
        score, parts = phases(operator, images)
    settings = ", ".join(f"{key}={value}" for key, value in options.items())
    return Example(
        title=f"{name} ({settings})" if settings else name,
        formula=getattr(operator, "formula", UNKNOWN),
        facts={
            **({"gradient": gradient_of(name)} if room == "pool" else {}),
            **{fact: getattr(operator, fact, UNKNOWN) for fact in ("shift", "paper")},
        },
        images=images,
        outputs=outputs.detach(),
        evaluated=evaluated,
        upstream=upstream.expand_as(outputs),
        gradients=without_noise(gradients),
        derivatives=derivatives(operator, images),
        windows=windows(operator, images.shape),
        weights={key: value.detach() for key, value in operator.named_parameters()},
        score=score,
        phases=parts,
    )


def _plain_weights(operator: nn.Module) -> None:
    """Set the weights of convolutions to 0.1, 0.2, ..., which are easy to follow."""
    for layer in operator.modules():
        if isinstance(layer, nn.Conv2d):
            count = torch.arange(layer.weight.numel(), dtype=torch.float64) % 9 + 1
            with torch.no_grad():
                layer.weight.copy_((count / 10).reshape(layer.weight.shape))
                if layer.bias is not None:
                    layer.bias.zero_()


def forward(operator: nn.Module, images: Tensor) -> Tensor:
    """Outputs as maps, (N, 1, h, w); a readout's vector is (N, 1, 1, D). Every call makes the same draw."""
    torch.manual_seed(SEED)
    outputs: Tensor = operator(images)
    return outputs[:, None, None, :] if outputs.ndim == 2 else outputs


def derivatives(operator: nn.Module, images: Tensor) -> Tensor:
    """dy/dx of every output, (N, h*w, H, W), for images (N, 1, H, W)."""
    images = images.clone().requires_grad_()
    outputs = forward(operator, images).flatten(1)
    rows = []
    for index in range(outputs.shape[1]):
        # One backward pass serves all samples, which do not depend on each other.
        (row,) = torch.autograd.grad(outputs[:, index].sum(), images, retain_graph=True)
        rows.append(row[:, 0])
    return without_noise(torch.stack(rows, 1))


def without_noise(values: Tensor) -> Tensor:
    """``values`` with rounding errors set to zero."""
    return torch.where(values.abs() < NOISE, 0, values)


def windows(operator: nn.Module, shape: torch.Size) -> Tensor:
    """Inputs that an output can depend on, bool (N, h*w, H, W), for images of ``shape`` (N, 1, H, W).

    Found from derivatives at random images, with the example's draw. A few of their pixels are far
    above the rest, different ones in every image, so that each is the maximum, or the most likely draw, in
    some image.
    """
    generator = torch.Generator().manual_seed(SEED)
    probes = 8 * torch.rand(PROBES, *shape[1:], generator=generator, dtype=torch.float64) ** 6
    if not getattr(operator, "random", False):
        return (derivatives(operator, probes) != 0).any(0).expand(shape[0], -1, -1, -1)
    # Draws differ between samples, so every batch must have the example's size.
    return torch.stack([derivatives(operator, batch) != 0 for batch in probes.split(shape[0])]).any(0)
