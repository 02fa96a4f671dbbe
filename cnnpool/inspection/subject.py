"""The model to examine, its weights, and a mark that says whether these were trained."""

import pkgutil
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from cnnpool import network
from cnnpool.data import Dataset
from cnnpool.model import Cnn
from cnnpool.published.sources import DEFAULT, NetworkSource, Timm, Torchvision
from cnnpool.published.weights import load_into as load_into_network
from cnnpool.published.weights import misfits, tensors_of
from cnnpool.recipe import Recipe
from cnnpool.run_folder import results
from cnnpool.run_folder.checkpoint import images_of, load
from cnnpool.run_folder.layout import RESULTS
from cnnpool.run_folder.results import Results
from cnnpool.system.progress import loading

UNTRAINED, PARTLY = "untrained", "partly untrained"
SOURCES: dict[str, type[NetworkSource]] = {"torchvision": Torchvision, "timm": Timm}
PUBLISHED_CLASSES = 1000


class Built(NamedTuple):
    model: nn.Module
    weights: str
    """Source of the weights, in words."""
    untrained: str = ""
    """``untrained``, ``partly untrained``, or empty: a mark for every measured number."""


@dataclass
class Subject:
    """A model not built yet, and the data, run, normalisation and image size of its weights, if known.

    ``alike`` are ``size`` and ``white`` of the images of its training.
    """

    name: str
    build: Callable[[Dataset], Built]
    data: dict[str, Any] | None = None
    trained: Results | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    size: int | tuple[int, int] | None = None
    alike: Mapping[str, Any] = field(default_factory=dict)


def find(name: str, checkpoint: Path | None, weights: str | None, seed: int) -> Subject:
    """The subject called ``name``: a run, a checkpoint, or a model by a name with a colon."""
    path, (source, _, rest) = Path(name), name.partition(":")
    for file in (path, checkpoint):
        if file and file.suffix in (".pt2", ".onnx"):
            raise ValueError(f"{file} is an exported program, without modules: probe the network it is from")
    if weights and (checkpoint or source not in SOURCES):
        raise ValueError("--weights is for models of torchvision and timm, without --checkpoint")
    if path.is_dir():
        return from_run(path, checkpoint)
    if path.is_file():
        folder = path.resolve().parent.parent
        if not (folder / RESULTS).exists():
            code = path.suffix == ".py"
            model = f"{path.stem}:FUNCTION" if code else "the model, and this file as --checkpoint"
            raise ValueError(f"{path} is not in a run's folder, so its model is unknown: give {model}")
        return from_run(folder, path)
    if not rest:
        with suppress(FileNotFoundError):
            path.stat()
        raise ValueError(f"{name} is not a folder, a file, torchvision:NAME, timm:NAME or MODULE:FUNCTION")
    subject = from_published(source, rest, weights, seed) if source in SOURCES else from_function(name, seed)
    return with_checkpoint(subject, checkpoint) if checkpoint else subject


def from_run(folder: Path, checkpoint: Path | None = None) -> Subject:
    trained = results.read(folder)
    if trained is None:
        raise ValueError(f"{folder} is not a finished run: it has no {RESULTS}")
    if trained.examined:
        raise ValueError(f"{folder / RESULTS} is of an earlier cnnpool probe: give the run that was trained")
    path = checkpoint or results.weights(folder)
    content = read(path)
    steps = content.get("cnnpool", {}).get("steps")
    length = f", {steps} steps" if steps is not None else ""

    def build(dataset: Dataset) -> Built:
        net = rebuild(trained, dataset)
        untrained = load_into(net, content, path)
        freeze(net, trained.fit, dataset)
        return Built(net, f"{untrained or 'trained'}: {path}{length}", untrained)

    # The images may be others than those of the training.
    seen = images_of(content)
    known = seen or trained.model
    mean, std = (tuple(scale) if (scale := known.get(key)) else None for key in ("mean", "std"))
    alike = {"size": tuple(seen.get("size", ())), "white": seen.get("white")}
    return Subject(str(folder), build, dict(trained.data), trained, mean, std, alike=alike)


def rebuild(trained: Results, dataset: Dataset) -> Cnn:
    """The run's model before training, for the images of ``dataset``."""
    images = network.Images(dataset.in_channels, dataset.size, dataset.num_classes)
    return network.rebuild(trained.model, trained.stages, trained.readout, images, seed=trained.seed)


def freeze(net: Cnn, fit: Mapping[str, Any], dataset: Dataset) -> None:
    """Freeze the layers that the run with the recipe ``fit`` did not train, as it did itself."""
    if fit.get("freeze") or fit.get("freeze_norm"):
        # Lightning makes this slow to import.
        from cnnpool.fit.optimizers import plan

        recipe = Recipe(freeze=fit.get("freeze", 0), freeze_norm=fit.get("freeze_norm", False))
        plan(net, recipe, torch.zeros(1, dataset.in_channels, *dataset.size))


def from_published(package: str, name: str, weights: str | None, seed: int) -> Subject:
    """The classifier ``name`` of torchvision or timm, with published weights, a file's, or random ones.

    Images are normalised as for the package's recommended weights, even if the weights come from a file, but
    for a run's checkpoint as in that run.
    """
    full, arch = f"{package}:{name}", name
    if package == "timm" and weights not in (None, DEFAULT) and "." not in weights and "/" not in weights:
        # timm names other published weights NAME.TAG.
        arch, weights = f"{name}.{weights}", DEFAULT
    try:
        with loading(package):
            source = SOURCES[package](arch=arch, weights=weights)
        found = source.read_weights()
    except ValueError as error:
        raise ValueError(f"{full}: {error}") from None

    def at_random(dataset: Dataset) -> Built:
        torch.manual_seed(seed)
        words = f"random, seed {seed}: the numbers describe the untrained architecture"
        return Built(source.network(dataset.num_classes), words, UNTRAINED)

    if found is None:
        return Subject(full, at_random)

    def loaded(dataset: Dataset) -> Built:
        classes = PUBLISHED_CLASSES
        if isinstance(source, Timm) and not source.file:
            import timm

            classes = int(getattr(timm.get_pretrained_cfg(source.arch), "num_classes", classes))
        network = source.network(classes)
        if new := load_into_network(network, found, classes).new:
            raise ValueError(
                f"--weights {weights}: {new[0]} is not for the {classes} classes of published weights; "
                "load a model of your own classes by MODULE:FUNCTION"
            )
        return Built(network, found.source if source.file else f"published: {found.source}")

    preset = source.preset()
    return Subject(full, loaded, mean=found.mean, std=found.std, size=preset.size if preset else None)


def from_function(name: str, seed: int) -> Subject:
    """The model that ``module:function`` returns; called twice, since weights that then differ are random."""
    # Like `python -m`, so that a module in the working directory is found.
    sys.path.insert(0, str(Path.cwd()))
    try:
        function = pkgutil.resolve_name(name)
    except Exception as error:
        raise ValueError(f"cannot import {name}: {type(error).__name__}: {error}") from error

    def build(dataset: Dataset) -> Built:
        model = _called(name, function, seed)
        untrained, drawn = of_two(model, _called(name, function, seed + 1))
        words = f"as {name}() left them"
        if untrained:
            which = "" if untrained == UNTRAINED else f": {len(drawn)} weights ({drawn[0]}, ...) are random"
            words += f", seed {seed}: {untrained}{which}"
        return Built(model, words, untrained)

    return Subject(name, build)


def with_checkpoint(subject: Subject, path: Path) -> Subject:
    content, build = read(path), subject.build

    def load(dataset: Dataset) -> Built:
        model = build(dataset).model
        untrained = load_into(model, content, path)
        return Built(model, f"from {path}" + (f": {untrained}" if untrained else ""), untrained)

    subject.build = load
    return subject


def _called(name: str, function: Callable[[], object], seed: int) -> nn.Module:
    torch.manual_seed(seed)
    try:
        model = function()
    except Exception as error:
        raise ValueError(f"{name}() failed: {type(error).__name__}: {error}") from error
    if not isinstance(model, nn.Module):
        raise ValueError(f"{name}() returned a {type(model).__name__}, not a torch.nn.Module")
    return model


def read(path: Path) -> dict[str, Any]:
    """The checkpoint at ``path``: plain tensors and numbers, in an archive with valid checksums."""
    content = load(path)
    if not isinstance(content, Mapping):
        raise ValueError(f"{path} holds a {type(content).__name__}, not weights")
    return dict(content)


def load_into(model: nn.Module, content: Mapping[str, Any], path: Path) -> str:
    """Load every weight of ``model`` from a checkpoint's content; returns its mark, ``untrained`` or none."""
    state = tensors_of(content)
    if found := misfits(model.state_dict(), state):
        raise ValueError(f"{path} does not fit the model: {found}")
    initial = {name: value.detach().clone() for name, value in model.named_parameters()}
    model.load_state_dict(state)
    ours = content.get("cnnpool")
    steps = ours.get("steps") if isinstance(ours, Mapping) else content.get("global_step")
    if type(steps) is int:
        return "" if steps else UNTRAINED
    same = all(torch.equal(initial[name], value) for name, value in model.named_parameters())
    return UNTRAINED if same or has_fresh_statistics(model) else ""


def of_two(model: nn.Module, other: nn.Module) -> tuple[str, list[str]]:
    """A mark for ``model``, compared with the same function's model of another seed, and random names."""
    others = dict(other.named_parameters())
    # Biases and scales are initialised to constants.
    weights = {name: value for name, value in model.named_parameters() if value.ndim > 1}
    drawn = [
        name for name, value in weights.items() if name not in others or not torch.equal(value, others[name])
    ]
    if has_fresh_statistics(model) or (drawn and len(drawn) == len(weights)):
        return UNTRAINED, drawn
    return PARTLY if drawn else "", drawn


def has_fresh_statistics(model: nn.Module) -> bool:
    """Whether there is batch normalisation, all of it with its initial mean of 0 and variance of 1."""
    pairs = [(getattr(m, "running_mean", None), getattr(m, "running_var", None)) for m in model.modules()]
    known = [(mean, var) for mean, var in pairs if isinstance(mean, Tensor) and isinstance(var, Tensor)]
    return bool(known) and not any(mean.any() or (var != 1).any() for mean, var in known)
