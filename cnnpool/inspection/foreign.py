"""Models of torchvision, of timm, and of the user's own packages."""

import pkgutil
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from cnnpool.data import Dataset
from cnnpool.inspection.subject import UNTRAINED, Built, Subject, load_into, of_two, read
from cnnpool.published.sources import DEFAULT, NetworkSource, Timm, Torchvision
from cnnpool.published.weights import load_into as load_into_network
from cnnpool.system.progress import loading

SOURCES: dict[str, type[NetworkSource]] = {"torchvision": Torchvision, "timm": Timm}
PUBLISHED_CLASSES = 1000


def from_published(package: str, name: str, weights: str | None, seed: int) -> Subject:
    """The classifier ``name`` of torchvision or timm, with published weights, a file's, or random ones.

    Images are normalised as for the weights that the package recommends, also where these come from a file.

    Raises:
        ValueError: for an unknown model, or weights that cannot be had; when built, if they do not fit.
    """
    full, arch = f"{package}:{name}", name
    if package == "timm" and weights not in (None, DEFAULT) and "." not in weights and "/" not in weights:
        # timm calls other published weights NAME.TAG.
        arch, weights = f"{name}.{weights}", DEFAULT
    try:
        with loading(package):
            source = SOURCES[package](arch=arch, weights=weights)
        found = source.read_weights()
    except ValueError as error:
        raise ValueError(f"{full}: {error}") from None

    def at_random(dataset: Dataset) -> Built:
        torch.manual_seed(seed)
        words = f"random, seed {seed}: the figures describe the architecture, untrained"
        return Built(source.network(dataset.num_classes), words, UNTRAINED)

    if found is None:
        return Subject(full, at_random)

    def loaded(dataset: Dataset) -> Built:
        classes = _published_classes(source)
        network = source.network(classes)
        if new := load_into_network(network, found, classes).new:
            raise ValueError(
                f"--weights {weights}: {new[0]} is not for the {classes} classes of published weights; "
                "load a model of your own classes by MODULE:FUNCTION"
            )
        return Built(network, found.source if source.file else f"published: {found.source}")

    return Subject(full, loaded, mean=found.mean, std=found.std)


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


def _published_classes(source: NetworkSource) -> int:
    """Classes of the published weights: 1,000 but for some of timm."""
    if not isinstance(source, Timm) or source.file:
        return PUBLISHED_CLASSES
    import timm

    return int(getattr(timm.get_pretrained_cfg(source.arch), "num_classes", PUBLISHED_CLASSES))


def _called(name: str, function: Callable[[], object], seed: int) -> nn.Module:
    torch.manual_seed(seed)
    try:
        model = function()
    except Exception as error:
        raise ValueError(f"{name}() failed: {type(error).__name__}: {error}") from error
    if not isinstance(model, nn.Module):
        raise ValueError(f"{name}() returned a {type(model).__name__}, not a torch.nn.Module")
    return model
