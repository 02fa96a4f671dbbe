"""Sources of networks: torchvision, timm, and packages that the user has installed."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, ClassVar, Literal, TypeVar

from torch import nn

from cnnpool.bounds import CountOrZero
from cnnpool.choices import network_options
from cnnpool.published.weights import Weights, from_file
from cnnpool.registry import Option, check_fields, check_options, did_you_mean, lookup, options_of
from cnnpool.surgery.behind import After
from cnnpool.surgery.fitting import Order

DEFAULT = "default"  # The weights that the package recommends
T = TypeVar("T")
Size = int | tuple[int, int]


@dataclass(frozen=True)
class Preset:
    """The image preparation for which weights were made, as their package publishes it."""

    source: str
    size: Size  # Of the central part on which a network is tested, in pixels
    resize: Size  # Of the whole image before
    mean: tuple[float, ...]  # By channel, white being 1, as is ``std``
    std: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class NetworkSource:
    """An architecture, its initial weights, and the position of operators.

    Args:
        arch: name of the architecture, such as ``resnet50``.
        weights: initial weights: ``default``, which are downloaded, or a file of safetensors or of a
            state_dict; null for random ones.
        order: of operator and convolution where a strided convolution is replaced: after, behind the
            convolution at stride 1; before, at stride 1 before the convolution, a quarter of the arithmetic.
        after: what the operator then follows: the convolution, or normalisation and activation behind it.
        min_channels: stages of fewer channels are unchanged, >= 0; 16 skips most stems.
        skip_stem: leave the first stage unchanged.
        normalise: pixels by mean and standard deviation of the weights, if these are known (of a run's own
            checkpoint, those of the run), or of the training data.
    """

    arch: str
    weights: str | None = None
    order: Order = "after"
    after: After = "convolution"
    min_channels: CountOrZero = 0
    skip_stem: bool = False
    normalise: Literal["weights", "data"] = "weights"
    checks_options: ClassVar[bool] = True  # In its constructor

    def __post_init__(self) -> None:
        check_fields(self, "model")
        self.check()

    @property
    def file(self) -> Path | None:
        """The file that ``weights`` names, recognised by its suffix or a folder in its path; else None."""
        path = Path(self.weights or "")
        is_file = path.suffix in (".safetensors", ".pth", ".pt", ".ckpt", ".bin") or "/" in str(path)
        return path if is_file else None

    def check(self) -> None:
        raise NotImplementedError

    def network(self, num_classes: int, **options: Any) -> nn.Module:
        raise NotImplementedError

    def read_weights(self) -> Weights | None:
        if self.weights is None:
            return None
        weights = from_file(self.file) if self.file else self.fetch_weights()
        if self.normalise == "data":
            return replace(weights, mean=None, std=None)
        preset = None if weights.mean else self.preset()
        return replace(weights, mean=preset.mean, std=preset.std) if preset else weights

    def preset(self) -> Preset | None:
        """How images were prepared for the weights, as published for the architecture; None if unknown."""
        return None

    def fetch_weights(self) -> Weights:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Torchvision(NetworkSource):
    """A classifier of torchvision; ``weights`` may also be one of its own names, such as IMAGENET1K_V1."""

    def check(self) -> None:
        from torchvision import models

        known = models.list_models(module=models)
        if self.arch not in known:
            remedy = did_you_mean(self.arch, known)
            raise ValueError(f"arch must be a classifier of torchvision, got {self.arch!r}; {remedy}")
        if self.weights and not self.file:
            self._entry()

    def network(self, num_classes: int, **options: Any) -> nn.Module:
        from torchvision import models

        network: nn.Module = models.get_model(self.arch, weights=None, num_classes=num_classes)
        return network

    def fetch_weights(self) -> Weights:
        entry = self._entry()
        options = {"progress": False, "check_hash": True, "weights_only": True}
        state = fetched(lambda: entry.get_state_dict(**options))
        return Weights(state, f"torchvision {entry}")

    def preset(self) -> Preset | None:
        if not self.weights:
            return None
        entry = self._entry()
        found = entry.transforms()
        crop, resize = _size(*found.crop_size), _size(*found.resize_size)
        return Preset(f"torchvision {entry}", crop, resize, tuple(found.mean), tuple(found.std))

    def _entry(self) -> Any:
        from torchvision import models

        published = models.get_model_weights(self.arch)
        try:
            return published["DEFAULT" if self.file or self.weights == DEFAULT else self.weights]
        except KeyError:
            names = ", ".join((DEFAULT, *(each.name for each in published)))
            raise ValueError(f"weights must be {names}, or a file, got {self.weights!r}") from None


@dataclass(frozen=True, kw_only=True)
class Timm(NetworkSource):
    """A classifier of timm, which must be installed; ``arch`` may be NAME.TAG for other published weights."""

    def check(self) -> None:
        timm, (name, _, _) = _timm(), self.arch.partition(".")
        if not timm.is_model(name):
            remedy = did_you_mean(self.arch, timm.list_models())
            raise ValueError(f"arch must be a model of timm, got {self.arch!r}; {remedy}")
        try:
            timm.get_pretrained_cfg(self.arch)
        except RuntimeError:
            remedy = did_you_mean(self.arch, timm.list_pretrained(f"{name}.*") or [name])
            raise ValueError(f"arch {self.arch!r} is not a tag of timm's {name}; {remedy}") from None
        if self.weights not in (None, DEFAULT) and not self.file:
            remedy = f"others of timm are chosen by arch={name}.TAG"
            raise ValueError(f"weights must be {DEFAULT} or a file, got {self.weights!r}; {remedy}")

    def network(self, num_classes: int, **options: Any) -> nn.Module:
        network: nn.Module = _timm().create_model(self.arch, num_classes=num_classes)
        return network

    def fetch_weights(self) -> Weights:
        timm = _timm()
        config = timm.get_pretrained_cfg(self.arch)
        if config is None or not config.has_weights:
            raise ValueError(f"weights of {self.arch} are not published by timm: give a file")
        network = fetched(lambda: timm.create_model(self.arch, pretrained=True))
        return Weights(network.state_dict(), f"timm {self.arch}")

    def preset(self) -> Preset | None:
        config = _timm().get_pretrained_cfg(self.arch) if self.weights else None
        if not config:
            return None
        size = tuple(config.input_size[1:])
        # Rounded down like ``timm.data.create_transform`` for testing.
        resize = _size(*(int(side / config.crop_pct) for side in size))
        return Preset(f"timm {self.arch}", _size(*size), resize, tuple(config.mean), tuple(config.std))


@dataclass(frozen=True, kw_only=True)
class Installed(NetworkSource):
    """A network that an installed package declares by an entry point of the group ``cnnpool.networks``.

    ``arch`` is its name or value, ``package.module:function``: a function of the number of classes, whose
    further arguments are options beside those below.
    """

    def check(self) -> None:
        own_options(self.arch)
        if self.weights and not self.file:
            raise ValueError(f"weights must be a file, got {self.weights!r}")

    def network(self, num_classes: int, **options: Any) -> nn.Module:
        build: Callable[..., Any] = lookup({}, "networks", self.arch)
        network = build(num_classes, **check_options(own_options(self.arch), self.arch, options))
        if not isinstance(network, nn.Module):
            raise ValueError(f"arch {self.arch} returned a {type(network).__name__}, not a torch.nn.Module")
        return network


def own_options(arch: str) -> dict[str, Option]:
    """The options of an installed network that :class:`Installed` does not have itself."""
    known = options_of(Installed)
    return {key: option for key, option in network_options(arch).items() if key not in known}


def _size(height: int, width: int | None = None) -> Size:
    return height if width in (None, height) else (height, width)


def _timm() -> Any:
    try:
        import timm
    except ImportError:
        raise ValueError("arch needs timm, which is not installed: pip install timm") from None
    return timm


def fetched(fetch: Callable[[], T]) -> T:
    """The result of ``fetch``, which downloads published weights; a ValueError if they are unavailable."""
    try:
        return fetch()
    except (OSError, RuntimeError, UnpicklingError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"the published weights could not be fetched: {reason}") from error
