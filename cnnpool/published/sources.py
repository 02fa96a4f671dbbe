"""Where networks come from: torchvision, timm, and packages that the user has installed."""

from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol

from torch import nn

from cnnpool.published.weights import Weights, from_file
from cnnpool.registry import checked, did_you_mean

DEFAULT = "default"
"""The weights that the package itself recommends."""
GROUP = "cnnpool.networks"
"""Entry points: functions of ``num_classes`` that return a network."""


class NetworkSource(Protocol):
    """An architecture, and the weights that it is to start from."""

    name: str

    def network(self, num_classes: int) -> nn.Module:
        """The architecture with random weights, of torch's generator."""
        ...

    def weights(self) -> Weights | None:
        """The weights to start from; None for random ones."""
        ...


@checked
class Torchvision:
    """A classifier of torchvision.

    Args:
        arch: its name, such as ``resnet50``.
        weights: ``default``, or one of torchvision's by its name, downloaded; a file of safetensors or of a
            state_dict; null for random weights.

    Raises:
        ValueError: for an architecture or weights that do not exist.
    """

    def __init__(self, *, arch: str, weights: str | None = None):
        from torchvision import models

        known = models.list_models(module=models)
        if arch not in known:
            raise ValueError(
                f"arch must be a classifier of torchvision, got {arch!r}; {did_you_mean(arch, known)}"
            )
        self.name, self._weights = arch, weights
        if weights is not None and not is_file(weights):
            self._entry()

    def network(self, num_classes: int) -> nn.Module:
        from torchvision import models

        network: nn.Module = models.get_model(self.name, weights=None, num_classes=num_classes)
        return network

    def weights(self) -> Weights | None:
        if self._weights is None:
            return None
        if is_file(self._weights):
            return from_file(Path(self._weights))
        entry = self._entry()
        state = _fetched(lambda: entry.get_state_dict(progress=False, check_hash=True))
        preset = entry.transforms()
        return Weights(state, f"torchvision {entry}", tuple(preset.mean), tuple(preset.std))

    def _entry(self) -> Any:
        from torchvision import models

        published = models.get_model_weights(self.name)
        try:
            return published["DEFAULT" if self._weights == DEFAULT else self._weights]
        except KeyError:
            names = ", ".join((DEFAULT, *(each.name for each in published)))
            raise ValueError(f"weights must be {names}, or a file, got {self._weights!r}") from None


@checked
class Timm:
    """A classifier of timm, which must be installed.

    Args:
        arch: its name, such as ``convnext_tiny``; ``NAME.TAG`` for other weights than the default.
        weights: ``default``, downloaded; a file of safetensors or of a state_dict; null for random weights.

    Raises:
        ValueError: for an architecture or weights that do not exist, or if timm is not installed.
    """

    def __init__(self, *, arch: str, weights: str | None = None):
        timm = _timm()
        if not timm.is_model(arch.split(".")[0]):
            remedy = did_you_mean(arch, timm.list_models())
            raise ValueError(f"arch must be a model of timm, got {arch!r}; {remedy}")
        self.name, self._weights = arch, weights
        if weights is not None and not is_file(weights) and weights != DEFAULT:
            remedy = f"others of timm are chosen by arch={arch.split('.')[0]}.TAG"
            raise ValueError(f"weights must be {DEFAULT} or a file, got {weights!r}; {remedy}")

    def network(self, num_classes: int) -> nn.Module:
        network: nn.Module = _timm().create_model(self.name, num_classes=num_classes)
        return network

    def weights(self) -> Weights | None:
        if self._weights is None:
            return None
        if is_file(self._weights):
            return from_file(Path(self._weights))
        timm = _timm()
        preset = timm.get_pretrained_cfg(self.name)
        if preset is None or not preset.has_weights:
            raise ValueError(f"weights of {self.name} are not published by timm: give a file")
        network = _fetched(lambda: timm.create_model(self.name, pretrained=True))
        return Weights(network.state_dict(), f"timm {self.name}", tuple(preset.mean), tuple(preset.std))


@checked
class Installed:
    """A network that an installed package declares by an entry point of the group ``cnnpool.networks``.

    Args:
        arch: the entry point's name, or its value, ``package.module:function``. The function is called with
            the number of classes and returns a network that takes (N, 3, H, W).
        weights: a file of safetensors or of a state_dict; null for what the function returns.

    Raises:
        ValueError: if no installed package declares it, or it cannot be imported.
    """

    def __init__(self, *, arch: str, weights: str | None = None):
        points = {name: p for p in entry_points(group=GROUP) for name in (p.name, p.value)}
        if arch not in points:
            raise ValueError(
                f"arch must be an entry point of {GROUP} in an installed package, got {arch!r}; "
                f"{did_you_mean(arch, points)}"
            )
        self.name, self._weights = arch, weights
        try:
            self._build: Callable[[int], Any] = points[arch].load()
        except Exception as error:
            raise ValueError(f"arch {arch} cannot be imported: {type(error).__name__}: {error}") from error

    def network(self, num_classes: int) -> nn.Module:
        network = self._build(num_classes)
        if not isinstance(network, nn.Module):
            raise ValueError(f"arch {self.name} returned a {type(network).__name__}, no torch.nn.Module")
        return network

    def weights(self) -> Weights | None:
        return None if self._weights is None else from_file(Path(self._weights))


def is_file(weights: str) -> bool:
    """Whether ``weights`` is meant as a file: it has a suffix, or a folder before its name."""
    return Path(weights).suffix in (".safetensors", ".pth", ".pt", ".ckpt", ".bin") or "/" in weights


def _timm() -> Any:
    try:
        import timm
    except ImportError:
        raise ValueError("arch needs timm, which is not installed: pip install timm") from None
    return timm


def _fetched(fetch: Callable[[], Any]) -> Any:
    try:
        return fetch()
    except (OSError, RuntimeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"the published weights could not be fetched: {reason}") from error
