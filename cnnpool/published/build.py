"""Build a network of another package from names and options, in the form that training and probes expect."""

import copy
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from cnnpool import registry
from cnnpool.as_found import examined
from cnnpool.choices import is_published, located
from cnnpool.model.base import Cnn
from cnnpool.published.sources import Installed, NetworkSource, Preset, Size, Timm, Torchvision, own_options
from cnnpool.published.weights import Loaded, from_file, load_into
from cnnpool.registry import KEEP
from cnnpool.surgery.calls import as_modules
from cnnpool.surgery.carry_out import Change
from cnnpool.surgery.dense import ends_in_channels
from cnnpool.surgery.replace import exchange, swap
from cnnpool.surgery.stages import measurable, stages_of
from cnnpool.surgery.trace import dry_run, limited, line_of

log = logging.getLogger(__name__)

PUBLISHED: dict[str, Callable[..., NetworkSource]] = {
    "installed": Installed,
    "timm": Timm,
    "torchvision": Torchvision,
}


@dataclass(frozen=True)
class Operators:
    """``name`` and options of the operator of all stages (``keep``: the network's), and of single ones."""

    common: Mapping[str, Any]
    own: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


class Published(Cnn):
    """Images (N, C, H, W) to logits (N, num_classes), by a network for as many ``channels``, or for three.

    Of several outputs in training, such as Inception's auxiliary logits, the first one is used.
    """

    def __init__(
        self,
        network: nn.Module,
        stages: Mapping[str, nn.Module],
        operators: Mapping[str, Mapping[str, Any]],
        loaded: Loaded,
        places: Sequence[str] = (),
        channels: int = 3,
    ):
        nn.Module.__init__(self)
        self.network = network
        self.stages = measurable(stages)
        self.places = tuple(places)
        self.channels = channels
        self.operators = {stage: dict(operator) for stage, operator in operators.items()}
        self.loaded = loaded
        self.new_weights = tuple(loaded.new)

    @property
    def shrinking(self) -> list[tuple[nn.Module, int]]:
        # Not the stages: an operator before a strided convolution keeps the size of its map.
        modules = map(self.network.get_submodule, self.places)
        return [(module, -1 if ends_in_channels(module) else 1) for module in modules]

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor | tuple[Tensor, ...] = self.network(x.expand(-1, self.channels, -1, -1))
        return logits if isinstance(logits, Tensor) else logits[0]

    def try_training(self, size: tuple[int, int]) -> None:
        """Raise a ValueError if images of ``size`` are too small for torchvision's auxiliary heads.

        These run in training alone, so that no dry run sees them.
        """
        if not getattr(self.network, "aux_logits", False):
            return
        shape = (2, self.channels, *size)
        try:
            # A copy, whose running statistics may move.
            with torch.random.fork_rng([]), torch.no_grad():
                copy.deepcopy(self)(torch.zeros(shape))
        except RuntimeError as error:
            reason = f"the model does not run in training on images {shape}: {line_of(error)}"
            raise ValueError(reason) from error


def build(
    name: str,
    in_channels: int,
    size: tuple[int, int],
    num_classes: int,
    *,
    operators: Operators,
    readout: Mapping[str, Any],
    **options: Any,
) -> Published:
    """A network of the package ``name`` with the requested operators and readout, else a ValueError.

    Its stages are all pooling and strided convolutions, found by a dry run, by their dotted names with
    underscores for dots. A stage that the common operator cannot replace is unchanged, with a warning.
    """
    if in_channels not in (1, 3) and name != "installed":
        raise ValueError(f"published networks take 1 or 3 channels, not {in_channels}")
    source, own = source_of(name, **options)
    # Pooling by function calls in the network's code can be a stage too.
    network = as_modules(source.network(num_classes, **own))
    weights = source.read_weights()
    loaded = load_into(network, weights, num_classes) if weights else Loaded("random")
    channels = _channels(network, in_channels, size, num_classes) if name == "installed" else 3
    example = torch.zeros(2, channels, *size)
    try:
        names, asked, changes = _swap(network, example, operators, source)
    except ValueError as error:
        raise ValueError(f"{source.arch}: {error}") from None
    if readout["name"] != KEEP:
        chosen = {key: value for key, value in readout.items() if key != "name"}
        swap(network, readout["name"], example=example, where="head", **chosen)
    stages = stages_of(network, example, changes)
    modules = {module: dotted for dotted, module in network.named_modules()}
    moved = {change.name: modules[change.after] for change in changes}
    found = {stage: asked.get(stage, {"name": KEEP}) for stage in stages}
    shown = ", ".join(f"{stage}={each['name']}" for stage, each in found.items())
    new = f"; new, since the classes are others: {', '.join(loaded.new)}" if loaded.new else ""
    log.info("%s: stages %s", source.arch, shown)
    log.info("%s: weights %s%s", source.arch, loaded.source, new)
    places = [moved.get(dotted, dotted) for dotted in names.values()]
    return Published(network, stages, found, loaded, places, channels)


def _channels(network: nn.Module, in_channels: int, size: tuple[int, int], num_classes: int) -> int:
    """Channels that a network takes: the images' own, or three for grey ones; a ValueError if neither."""
    failures = []
    for channels in (in_channels, 3) if in_channels == 1 else (in_channels,):
        try:
            with examined(network), torch.no_grad():
                output = network(torch.zeros(2, channels, *size))
        except Exception as error:
            failures.append(error)
            continue
        logits = output if isinstance(output, Tensor) else output[0]
        if logits.shape != (2, num_classes):
            shape = tuple(logits.shape)
            raise ValueError(f"the network returns {shape} for 2 images of {num_classes} classes, not logits")
        return channels
    shown, reason = (2, in_channels, *size), line_of(failures[0])
    raise ValueError(f"the network does not run on images {shown}: {reason}") from failures[0]


def source_of(name: str, **options: Any) -> tuple[NetworkSource, dict[str, Any]]:
    """The source of a network, and those of its ``options`` that an installed package's function takes."""
    known = own_options(str(options["arch"])) if name == "installed" else {}
    own = {key: options.pop(key) for key in known if key in options}
    source: NetworkSource = registry.construct(PUBLISHED, "networks", name, **options)
    return source, own


def _swap(
    network: nn.Module, example: torch.Tensor, operators: Operators, source: NetworkSource
) -> tuple[dict[str, str], dict[str, Mapping[str, Any]], list[Change]]:
    """The dotted name of every stage, the operators that were put in by stage, and the changes."""
    modules = {module: name for name, module in network.named_modules()}
    names = {stage: modules[module] for stage, module in stages_of(network, example).items()}
    if unknown := sorted(operators.own.keys() - names.keys()):
        remedy = registry.did_you_mean(unknown[0], names)
        raise ValueError(f"stage.{unknown[0]}: the network has no such stage; {remedy}")

    def replace(operator: Mapping[str, Any], dotted: Collection[str]) -> list[Change]:
        options = {key: value for key, value in operator.items() if key != "name"}
        return exchange(
            network, operator["name"], options, example=example, where=lambda name, module: name in dotted,
            order=source.order, after=source.after,
        )  # fmt: skip

    done: dict[str, Mapping[str, Any]] = {}
    changes: list[Change] = []
    if operators.common["name"] != KEEP:
        seen = {target.name: target for target in dry_run(network, example)}
        places = [seen[dotted] for dotted in names.values()]
        most = {target.name for target in limited(places, source.min_channels, source.skip_stem)}
        rest = {s: dotted for s, dotted in names.items() if s not in operators.own and dotted in most}
        replaced, changes = _replace_most(replace, operators.common, rest)
        done = dict.fromkeys(replaced, operators.common)
    for stage, operator in operators.own.items():
        if operator["name"] != KEEP:
            changes += replace(operator, [names[stage]])
            done[stage] = operator
    return names, done, changes


def _replace_most(
    replace: Callable[[Mapping[str, Any], Collection[str]], list[Change]],
    operator: Mapping[str, Any],
    names: Mapping[str, str],
) -> tuple[list[str], list[Change]]:
    """Replace every stage that ``operator`` can replace, at least one: the stages, and the changes."""
    if not names:
        return [], []
    try:
        return list(names), replace(operator, names.values())
    except ValueError as error:
        first = error
    replaced: list[str] = []
    changes: list[Change] = []
    reasons = []
    for stage, dotted in names.items():
        try:
            changes += replace(operator, [dotted])
            replaced.append(stage)
        except ValueError as error:
            reasons.append(f"{stage} stays as it is: {error}")
    if not replaced:
        raise first
    for reason in reasons:
        log.warning(reason)
    return replaced, changes


def preset_of(settings: Mapping[str, Any]) -> Preset | None:
    """How images were prepared for the initial weights of a run; None if unknown."""
    if not is_published(settings):
        return None
    with located("model", settings["model"]):
        return source_of(**settings["model"])[0].preset()


def weights_of_file(model: Mapping[str, Any]) -> str | None:
    """Identity of the initial weights in the file that the settings of a model name, if it is there."""
    file = source_of(**model)[0].file
    return from_file(file).sha256 if file and file.is_file() else None


def sized(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the data, with the size and resize that the weights expect if neither is set."""
    data = dict(settings["data"])
    # A missing option is not null.
    if any(data.get(key, 0) is not None for key in ("size", "resize")):
        return data
    preset = preset_of(settings)
    return data | {"size": preset.size, "resize": preset.resize} if preset else data


def sentence(preset: Preset | None, loaded: Loaded, *, resized: bool) -> str:
    """A line on what images have of the weights, if anything: sizes, if ``resized``, mean and deviation."""
    parts = []
    if preset and resized:
        parts.append(
            f"resized to {_words(preset.resize)}, the central {_words(preset.size)} (data.resize, data.size)"
        )
    if loaded.mean and loaded.std:
        mean, std = (" ".join(f"{value:g}" for value in values) for values in (loaded.mean, loaded.std))
        own = "of the checkpoint's run " * bool(preset and loaded.mean != preset.mean)
        parts.append(f"mean {mean}, deviation {std} {own}(model.normalise)")
    source = f"of {preset.source}" if preset else loaded.source
    return f"images as for the weights {source}: {', '.join(parts)}" if parts else ""


def _words(size: Size) -> str:
    height, width = (size, size) if isinstance(size, int) else size
    return f"{height}x{width}"
