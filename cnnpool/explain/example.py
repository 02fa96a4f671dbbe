"""A worked example: a batch of small images through one operator and back."""

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from operator import le

import torch
from torch import Tensor, nn

from cnnpool import registry
from cnnpool.explain.operator import UNKNOWN, Group, build, entry_of, found, gradient_of, shown
from cnnpool.pool import ApsPool2d, LpsPool2d, MaxApsPool2d, MedianPool2d, Pool2d, ReductionBlock2d, dispatch
from cnnpool.pool.aps import PolyphasePool2d
from cnnpool.pool.autograd.phases import complete, components
from cnnpool.pool.scalar import Scalar
from cnnpool.pool.strided import Rectifier

IMAGES = torch.tensor(
    [
        [[1, 3, 2, 0], [4, 4, 1, 5], [0, 2, 6, 1], [1, 0, 2, 4]],
        [[2, 0, 1, 4], [1, 5, 3, 2], [7, 1, 0, 2], [1, 2, 0, 1]],
    ],
    dtype=torch.float64,
).unsqueeze(1)
"""Two 4x4 images of sum 36 and 32; the first has a tie (4 and 4) in its upper left corner."""
READABLE: dict[str, dict[str, object]] = {
    "flatten": {"hidden": 0},
    "lps": {"tau": 20.0},
}
"""Options other than the defaults, which are easier to read."""
MOST_OUTPUTS = 256
SEED = 0
"""Seed of weights and draws."""
NOISE = 1e-12
"""Derivatives that are smaller for every image are rounding errors."""
PROBES = 128


DRAWN = (
    f"One random draw in training mode, seed {SEED}; another seed gives another y. Evaluation is not random."
)
BATCH_NORM = (
    "Shown in evaluation: batch norm takes its running mean and variance, here 0 and 1. In training it takes "
    "those of the batch, so that images meet in it."
)
LAYER_NORM = (
    "The example has one channel, and the layer norm of a single value is always 0; of several it is not."
)
NO_MAXIMUM = "The example has one channel, which the convolution takes; of C channels the maximum takes C//2."
KEPT = {
    "activation", "ceil_mode", "conv_padding_mode", "edges", "learnable",
    "norm", "padding_mode", "per", "ragged", "ties",
}  # fmt: skip
"""Words and truth values among the options that leave an operator's formula as it is."""


def number(value: float | Tensor) -> str:
    """Four digits: 4, 0.0625, -1.333."""
    # Rounded twice, so that 0.35625 is 0.3563 whatever its last bits are.
    return f"{float(f'{float(value):.12g}') + 0.0:.4g}"


def matrix(rows: Iterable[Tensor]) -> str:
    """Rows on one line: ``1 3; 4 4``."""
    return "; ".join(" ".join(map(number, row)) for row in rows)


def tie(image: Tensor, window: Tensor, output: float, derivative: Tensor) -> str:
    """The equal inputs that an output is one of, and which of them get its gradient, in words; or empty."""
    equal = window & (image == output)
    if equal.sum() < 2 or not derivative.any() or derivative[~equal].any():
        return ""
    places = equal.nonzero().tolist()
    winners = [place for place in places if derivative[tuple(place)]]
    rules = {"first": places[:1], "last": places[-1:], "split": places}
    rule = next((rule for rule, wins in rules.items() if wins == winners), "other")
    every, won = (" and ".join(f"({i},{j})" for i, j in some) for some in (places, winners))
    return f"tie: {number(output)} at {every}; rule {rule}: {won}"


def phases(operator: nn.Module, images: Tensor) -> list[list[str]]:
    """For each sample, a text for each phase, ``x[1::2,0::2]: ||x_k||_2 = 4.69, kept``; or nothing.

    Of ``max_aps`` they are phases of the dense maximum m, which comes first.
    """
    if not isinstance(operator, PolyphasePool2d):
        return []
    x, maps = "x", images
    first: list[list[str]] = [[] for _ in images]
    if isinstance(operator, MaxApsPool2d):
        x, maps = "m", operator.dense(images)
        first = [[f"m = [{matrix(one[0])}]"] for one in maps]
    whole, (down, across) = complete(maps, operator.stride), operator.stride
    assert operator.phase is not None
    weights = operator.phase.detach()
    if not weights.is_floating_point():
        weights = nn.functional.one_hot(weights, down * across)
    label, scores = "", weights
    if isinstance(operator, ApsPool2d):
        parts = torch.stack(components(whole, operator.stride), 1).flatten(2)
        label, scores = f"||{x}_k||_{operator.p:g} = ", torch.linalg.vector_norm(parts, operator.p, 2)
    elif isinstance(operator, LpsPool2d):
        label, scores = "logit = ", operator.logits(whole)

    def text(k: int, weight: float, score: float) -> str:
        share = "kept" if weight == 1 else f"weight {number(weight)}" if weight or not label else ""
        parts = [f"{label}{number(score)}"] * bool(label) + [share] * bool(share)
        return f"{x}[{k // across}::{down},{k % across}::{across}]: {', '.join(parts)}"

    rows = zip(weights.flatten(1).tolist(), scores.flatten(1).tolist(), strict=True)
    return [
        one + [text(k, *both) for k, both in enumerate(zip(*row, strict=True))]
        for one, row in zip(first, rows, strict=True)
    ]


@dataclass(frozen=True)
class Example:
    """One operator on images x, (N, 1, H, W), with outputs y, (N, 1, h, w); a readout's are (N, 1, 1, D).

    ``evaluated`` is y in evaluation mode, beside a draw; ``upstream`` and ``gradients`` are of each sample's
    own loss by its y and x; ``derivatives``, dy/dx, and ``windows``, bool, are (N, h*w, H, W). ``picks``
    says that an output can leave inputs of its window without gradient where no two inputs are equal;
    ``options`` are those set, READABLE ones included. ``rectified``, of the shape of y, is what a ReLU gets
    that ends the operator, ``inner_relu`` whether there is one; ``own_gradients`` are dL_n/dw of the
    operator's weights, (N, *shape). ``notes`` say why the example shows what it shows.
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
    phases: list[list[str]]
    picks: bool
    options: dict[str, object]
    rectified: Tensor | None
    inner_relu: bool
    own_gradients: dict[str, Tensor]
    notes: list[str]

    @property
    def weight_gradients(self) -> Tensor:
        """Per sample, (N,): dL_n/dw for a weight w that scales the image, x = w * image, at w = 1."""
        return (self.gradients * self.images).sum((1, 2, 3))

    def chooses(self, n: int, index: int) -> bool:
        """Whether the gradient of output ``index`` of sample ``n`` goes only to a part of its window."""
        reached = self.derivatives[n, index] != 0
        window = self.windows[n, index]
        return bool(not (reached & ~window).any() and (window & ~reached).any())

    def off(self, n: int, index: int) -> str:
        """That output ``index`` of sample ``n`` depends on no input since a ReLU set it to 0; or empty."""
        if self.derivatives[n, index].any():
            return ""
        if self.rectified is None:
            inner = self.inner_relu and self.outputs[n].flatten()[index] == 0
            return "no input: the ReLU within sets all that this output uses to 0" if inner else ""
        before = self.rectified[n].flatten()[index]
        if before == 0:
            return "no input: at 0 the slope of ReLU is 0"
        return f"no input: ReLU sets {number(before)} to 0" if before < 0 else ""

    def tie(self, n: int, index: int) -> str:
        """The tie in the window of output ``index`` of sample ``n``; empty if chance or phases decide, or if
        the operator, such as an average, weighs all inputs.
        """
        if self.evaluated is not None or self.phases or not self.picks:
            return ""
        output = self.outputs[n].flatten()[index].item()
        return tie(self.images[n, 0], self.windows[n, index], output, self.derivatives[n, index])


def example(name: str, images: Tensor = IMAGES, group: Group | None = None, /, **options: object) -> Example:
    """The worked example of the operator or readout called ``name``; without ``group`` operators come first.

    An operator that draws is shown in training mode. ``images`` are float64, (N, 1, H, W).
    """
    # Compiling a kernel would take seconds, for a few numbers.
    with torch.random.fork_rng(devices=[]), dispatch.use(False):
        try:
            return _example(name, images, group, options)
        except RuntimeError as error:
            # torch's own errors, such as padding of more than half of the kernel.
            raise ValueError(f"{name}: {str(error).splitlines()[0]}") from error


def _example(name: str, images: Tensor, group: Group | None, options: dict[str, object]) -> Example:
    group, name = found(name, group)
    options = {**READABLE.get(name, {}), **options}
    torch.manual_seed(SEED)
    operator = build(group, name, (images.shape[2], images.shape[3]), options).double()
    _plain_weights(operator)
    draws = getattr(operator, "random", False)
    # First, because an operator may store its draw.
    evaluated = forward(copy.deepcopy(operator).eval(), images).detach() if draws else None
    operator.train(draws)
    # Only operators with phases read it.
    operator.__dict__["keep_phase"] = True
    inputs = images.clone().requires_grad_()
    outputs, rectified, inner = rectifying(operator, inputs)
    if outputs[0].numel() > MOST_OUTPUTS:
        many = f"{outputs[0].numel():,} outputs"
        raise ValueError(f"{name}: {many} are too many to explain: at most {MOST_OUTPUTS}")
    upstream = 1.0 + torch.arange(outputs[0].numel(), dtype=torch.float64).reshape(outputs[0].shape)
    own = own_gradients(operator, outputs, upstream)
    (gradients,) = torch.autograd.grad(outputs, inputs, upstream.expand_as(outputs))
    with torch.no_grad():
        parts = phases(operator, images)
    slopes, reach = derivatives(operator, images), windows(operator, images.shape)
    slopes = torch.where(reach | (slopes.abs() >= NOISE), slopes, 0)
    settings = ", ".join(f"{key}={value}" for key, value in options.items())
    routes = gradient_of(name) + here(name, operator, slopes, reach) if group == "pool" else ""
    stated = {fact: getattr(operator, fact, UNKNOWN) for fact in ("shift", "paper")}
    return Example(
        title=f"{name} ({settings})" if settings else name,
        formula=formula_of(operator, options, registry.options_of(entry_of(group, name))),
        facts=({"gradient": routes} if routes else {}) | stated,
        images=images,
        outputs=outputs.detach(),
        evaluated=evaluated,
        upstream=upstream.expand_as(outputs),
        gradients=torch.where((slopes != 0).any(1, keepdim=True), gradients, 0),
        derivatives=slopes,
        windows=reach,
        weights=weights_of(operator, images),
        phases=parts,
        # Which of equal cells a median selects depends on the others.
        picks=not isinstance(operator, MedianPool2d)
        and bool((reach[:1] & (derivatives(operator, close_images(images.shape)) == 0)).any()),
        options=options,
        rectified=rectified,
        inner_relu=inner,
        own_gradients=own,
        notes=notes(operator),
    )


def formula_of(operator: nn.Module, options: dict[str, object], legal: Mapping[str, registry.Option]) -> str:
    """The operator's formula, and which of the options given may change it."""
    blurs = {"filter_size"} if isinstance(operator, PolyphasePool2d) else set()
    changed = [
        f"{key}={shown(value)}"
        for key, value in options.items()
        if value != legal[key].default
        and (key in blurs or (isinstance(value, str | bool | None) and key not in KEPT))
    ]
    remark = f"  (formula of the defaults, which {', '.join(changed)} may change)" if changed else ""
    return f"{getattr(operator, 'formula', UNKNOWN)}{remark}"


def weights_of(operator: nn.Module, images: Tensor) -> dict[str, Tensor]:
    """Weights by name, and numbers of the formula that are kept as others."""
    kept = {
        f"{name} (from {name}.raw)": part(images).detach()
        for name, part in operator.named_modules()
        if isinstance(part, Scalar) and part.learnable
    }
    return {key: value.detach() for key, value in operator.named_parameters()} | kept


def notes(operator: nn.Module) -> list[str]:
    layers = list(operator.modules())
    rows = {
        DRAWN: getattr(operator, "random", False),
        BATCH_NORM: any(isinstance(layer, nn.BatchNorm2d) for layer in layers),
        LAYER_NORM: any(
            isinstance(layer, nn.LayerNorm) and layer.normalized_shape == (1,) for layer in layers
        ),
        NO_MAXIMUM: isinstance(operator, ReductionBlock2d),
    }
    return [words for words, holds in rows.items() if holds]


def _plain_weights(operator: nn.Module) -> None:
    """Set the weights of convolutions to 0.1, 0.2, ..., which are easy to follow."""
    for layer in operator.modules():
        if isinstance(layer, nn.Conv2d):
            count = torch.arange(layer.weight.numel(), dtype=torch.float64) % 10 + 1
            with torch.no_grad():
                layer.weight.copy_((count / 10).reshape(layer.weight.shape))
                if layer.bias is not None:
                    layer.bias.zero_()


def forward(operator: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
    """Outputs as maps, (N, 1, h, w); a readout's vector is (N, 1, 1, D). Every call makes the same draw."""
    torch.manual_seed(SEED)
    outputs: Tensor = operator(images)
    return outputs[:, None, None, :] if outputs.ndim == 2 else outputs


def derivatives(operator: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
    """dy/dx of every output, (N, h*w, H, W), for images (N, 1, H, W)."""
    images = images.clone().requires_grad_()
    outputs = forward(operator, images).flatten(1)
    rows = []
    for index in range(outputs.shape[1]):
        # One backward pass serves all samples, which do not depend on each other.
        (row,) = torch.autograd.grad(outputs[:, index].sum(), images, retain_graph=True)
        rows.append(row[:, 0])
    return torch.stack(rows, 1)


def rectifying(operator: nn.Module, images: Tensor) -> tuple[Tensor, Tensor | None, bool]:
    """The outputs, the input of the last ReLU if its output is the operator's own, and whether one ran."""
    seen: list[tuple[Tensor, Tensor]] = []
    hooks = [
        layer.register_forward_hook(lambda _, given, result: seen.append((given[0], result)))
        for layer in operator.modules()
        if isinstance(layer, Rectifier | nn.ReLU)
    ]
    outputs = forward(operator, images)
    for hook in hooks:
        hook.remove()
    ends = seen and seen[-1][1].shape == outputs.shape and torch.equal(seen[-1][1], outputs)
    return outputs, seen[-1][0].detach() if ends else None, bool(seen)


def own_gradients(operator: nn.Module, outputs: Tensor, upstream: Tensor) -> dict[str, Tensor]:
    """Name -> dL_n/dw of every sample, (N, *shape of w), of the operator's own weights."""
    weights = {name: weight for name, weight in operator.named_parameters() if weight.requires_grad}
    found: dict[str, list[Tensor]] = {name: [] for name in weights}
    for one in outputs if weights else ():
        loss = (one * upstream).sum()
        rows = torch.autograd.grad(loss, list(weights.values()), retain_graph=True, materialize_grads=True)
        for name, row in zip(weights, rows, strict=True):
            found[name].append(torch.where(row.abs() < NOISE, 0, row))
    return {name: torch.stack(rows) for name, rows in found.items()}


def here(name: str, operator: nn.Module, slopes: Tensor, reach: Tensor) -> str:
    """A clause on the first image of an example, where it differs from the operator's kind of gradient."""
    kind, reached = getattr(entry_of("pool", name), "gradient", ""), (slopes[0] != 0).any(0)
    if kind == "sparse" and reached.all():
        return f"; {'in training, as here,' if operator.training else 'here'} every input gets some"
    outside = ~reach[0].any(0)
    if outside.any() and not outside.all() and _is_gapless(operator):
        mend = (
            " (ceil_mode=true covers it)"
            if "ceil_mode" in registry.options_of(entry_of("pool", name))
            else ""
        )
        return (
            f"; here {outside.sum()} of {outside.numel()} inputs lie in a border that no window covers{mend}"
        )
    if kind in ("dense", "uneven") and not reached.all():
        return f"; here {(~reached).sum()} of {reached.numel()} inputs get none"
    return ""


def _is_gapless(operator: nn.Module) -> bool:
    """Whether the operator slides a window that leaves no gap within or between its places."""
    if not isinstance(operator, Pool2d) or not hasattr(operator, "kernel_size"):
        return False
    return operator.dilation == (1, 1) and all(map(le, operator.stride, operator.kernel_size))


def close_images(shape: torch.Size) -> Tensor:
    """Four images of values between 1 and 2, to each of which an operator that weighs all gives gradient."""
    generator = torch.Generator().manual_seed(SEED)
    return 1 + torch.rand(4, *shape[1:], generator=generator, dtype=torch.float64)


def windows(operator: nn.Module, shape: torch.Size) -> Tensor:
    """Inputs that an output can depend on, bool (N, h*w, H, W), for images of ``shape`` (N, 1, H, W).

    From derivatives at random images of a few high pixels each, and at images of a single one, so that each
    is the maximum in some image.
    """
    generator, cells = torch.Generator().manual_seed(SEED), shape[2] * shape[3]
    probes = 8 * torch.rand(PROBES, *shape[1:], generator=generator, dtype=torch.float64) ** 6
    peaks = 8 * torch.eye(cells, dtype=torch.float64).view(cells, *shape[1:])
    if getattr(operator, "random", False):
        # Draws differ between samples, so every batch must have the example's size.
        batches = [*probes.split(shape[0]), *(peak.expand(shape) for peak in peaks)]
        return torch.stack([derivatives(operator, batch).abs() >= NOISE for batch in batches]).any(0)
    each: list[Callable[[Tensor], Tensor]] = [operator]
    if isinstance(operator, MaxApsPool2d) and operator.phase is not None:
        # Windows of the phase that the image keeps.
        each = [partial(operator, phase=phase.expand(PROBES + cells)) for phase in operator.phase]
    batch = torch.cat([probes, peaks])
    reach = torch.stack([(derivatives(one, batch).abs() >= NOISE).any(0) for one in each])
    return reach.expand(shape[0], -1, -1, -1)
