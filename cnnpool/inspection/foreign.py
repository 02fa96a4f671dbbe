"""Models of torchvision, of timm, and of the user's own packages."""

import pkgutil
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from cnnpool.data import Dataset
from cnnpool.inspection.checkpoint import load_into, read
from cnnpool.inspection.subject import Built, Subject
from cnnpool.inspection.untrained import UNTRAINED, of_two
from cnnpool.published.sources import Timm, Torchvision, fetched
from cnnpool.published.weights import load_into as load_into_network
from cnnpool.registry import did_you_mean
from cnnpool.system.progress import loading

PUBLISHED_CLASSES = 1000


def from_torchvision(name: str, published: str | None, seed: int) -> Subject:
    """The classifier ``name`` of torchvision, with published or random weights.

    Raises:
        ValueError: for an unknown model, or weights that cannot be had.
    """
    with loading("torchvision"):
        from torchvision import models

    known = models.list_models(module=models)
    if name not in known:
        raise ValueError(f"torchvision has no classifier {name!r}; {did_you_mean(name, known)}")
    if published is None:
        return _random(
            f"torchvision:{name}",
            seed,
            lambda dataset: models.get_model(name, weights=None, num_classes=dataset.num_classes),
        )
    try:
        entry = models.get_model_weights(name)["DEFAULT" if published == "default" else published]
    except KeyError:
        choices = ", ".join(w.name for w in models.get_model_weights(name))
        raise ValueError(f"torchvision:{name} has no weights {published!r}; choose from {choices}") from None
    preset = entry.transforms()
    return Subject(
        f"torchvision:{name}",
        lambda dataset: Built(
            fetched(lambda: models.get_model(name, weights=entry)), f"published: torchvision {entry.name}"
        ),
        mean=tuple(preset.mean),
        std=tuple(preset.std),
    )


def from_timm(name: str, published: str | None, seed: int) -> Subject:
    """The model ``name`` of timm, with published or random weights.

    Raises:
        ValueError: if timm is not installed, or has no such model.
    """
    try:
        import timm
    except ImportError:
        raise ValueError(f"timm:{name} needs timm, which is not installed: pip install timm") from None
    if not timm.is_model(name.split(".")[0]):
        raise ValueError(f"timm has no model {name!r}; {did_you_mean(name, timm.list_models())}")
    if published is None:
        return _random(
            f"timm:{name}", seed, lambda dataset: timm.create_model(name, num_classes=dataset.num_classes)
        )
    full = name if published == "default" else f"{name}.{published}"
    preset = timm.get_pretrained_cfg(full)
    if preset is None:
        raise ValueError(f"timm has no weights {published!r} of {name}")
    return Subject(
        f"timm:{name}",
        lambda dataset: Built(
            fetched(lambda: timm.create_model(full, pretrained=True)), f"published: timm {full}"
        ),
        mean=tuple(preset.mean),
        std=tuple(preset.std),
    )


def from_weights_file(package: str, name: str, file: str) -> Subject:
    """The classifier ``name`` of timm or torchvision for the published classes, with weights of a file.

    Images are normalised as for the weights that the package recommends, as in training from a file.

    Raises:
        ValueError: for an unknown model, or a file that cannot be read; when built, if it does not fit.
    """
    source = {"timm": Timm, "torchvision": Torchvision}[package](arch=name, weights=file)
    weights = source.read_weights()
    assert weights is not None

    def build(dataset: Dataset) -> Built:
        network = source.network(PUBLISHED_CLASSES)
        if new := load_into_network(network, weights, PUBLISHED_CLASSES).new:
            raise ValueError(
                f"--weights {file}: {new[0]} is not for the {PUBLISHED_CLASSES} classes of published "
                "weights; load a model of your own classes by MODULE:FUNCTION"
            )
        return Built(network, weights.source)

    return Subject(f"{package}:{name}", build, mean=weights.mean, std=weights.std)


def from_function(name: str, seed: int) -> Subject:
    """The model that ``module:function`` returns when it is called without arguments.

    The name comes from the command line: to import it is the user's own act. It is called twice, each time
    with another seed: weights that then differ are random.

    Raises:
        ValueError: if it cannot be imported, fails, or returns no module.
    """
    # As `python -m` does, so that a module beside the user is found.
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
    """The same model with the weights of a file.

    Raises:
        ValueError: if the file cannot be used; when built, if it does not fit.
    """
    content, build = read(path), subject.build

    def load(dataset: Dataset) -> Built:
        model = build(dataset).model
        untrained = load_into(model, content, path)
        return Built(model, f"from {path}" + (f": {untrained}" if untrained else ""), untrained)

    subject.build = load
    return subject


def _random(name: str, seed: int, make: Callable[[Dataset], nn.Module]) -> Subject:
    def build(dataset: Dataset) -> Built:
        torch.manual_seed(seed)
        words = f"random, seed {seed}: the figures describe the architecture, untrained"
        return Built(make(dataset), words, UNTRAINED)

    return Subject(name, build)


def _called(name: str, function: Callable[[], object], seed: int) -> nn.Module:
    torch.manual_seed(seed)
    try:
        model = function()
    except Exception as error:
        raise ValueError(f"{name}() failed: {type(error).__name__}: {error}") from error
    if not isinstance(model, nn.Module):
        raise ValueError(f"{name}() returned a {type(model).__name__}, not a torch.nn.Module")
    return model
