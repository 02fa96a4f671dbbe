"""torchvision's classification data sets, downloaded and read by torchvision itself."""

import inspect
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from torch.utils.data import ConcatDataset

from cnnpool.data.decode import MADE_BY
from cnnpool.data.errors import ONE_CLASS
from cnnpool.data.image_source import ImageSource, Origin, stamp, stamps_of
from cnnpool.data.images import Pictures
from cnnpool.data.published import FETCH, obtained
from cnnpool.registry import did_you_mean

Arguments = Mapping[str, Any]


def _by_split(*names: str) -> Mapping[str, Arguments]:
    """The splits of these names for training, validation and test; without validation, of two names."""
    parts = ("train", "val", "test") if len(names) == 3 else ("train", "test")
    return {part: {"split": name} for part, name in zip(parts, names, strict=True)}


def _variants(key: str, *values: str) -> Mapping[str, Arguments]:
    return {value: {key: value} for value in values}


BY_FLAG: Mapping[str, Arguments] = {"train": {"train": True}, "test": {"train": False}}
TRAIN_TEST, THREE = _by_split("train", "test"), _by_split("train", "val", "test")
TRAIN_VAL = _by_split("train", "val")  # Only training and validation images have labels
WHOLE: Mapping[str, Arguments] = {"train": {}}  # There is no published test set


@dataclass(frozen=True)
class TorchvisionSet:
    """A class of torchvision: its files below the root, and the arguments of its parts and variants."""

    files: tuple[str, ...]
    parts: Mapping[str, Arguments]
    variants: Mapping[str, Arguments] = field(default_factory=dict)
    manual: str = ""


EMNISTS = ("balanced", "byclass", "bymerge", "letters", "digits", "mnist")
AIRCRAFT = ("variant", "family", "manufacturer")
IMAGENETTES = ("imagenette2", "imagenette2-320", "imagenette2-160")
PLACES = ("data_256_standard", "val_256", "data_large_standard", "val_large")
IMAGENET = (
    "put the archives ILSVRC2012_*.tar of https://image-net.org into {root}, or its folders, for "
    "data=image_folder"
)
FACES = "put fer2013.csv of that page into {root}/fer2013"
CARS = "get its files as https://github.com/pytorch/vision/issues/7545 describes, into {root}/stanford_cars"
SETS = {
    "CIFAR10": TorchvisionSet(("cifar-10-batches-py",), BY_FLAG),
    "CIFAR100": TorchvisionSet(("cifar-100-python",), BY_FLAG),
    "CLEVRClassification": TorchvisionSet(("clevr",), TRAIN_VAL),
    "Caltech101": TorchvisionSet(("caltech101",), WHOLE),
    "Caltech256": TorchvisionSet(("caltech256",), WHOLE),
    "Country211": TorchvisionSet(("country211",), _by_split("train", "valid", "test")),
    "DTD": TorchvisionSet(("dtd",), THREE, {str(one): {"partition": one} for one in range(1, 11)}),
    "EMNIST": TorchvisionSet(("EMNIST/raw",), BY_FLAG, _variants("split", *EMNISTS)),
    "EuroSAT": TorchvisionSet(("eurosat",), WHOLE),
    "FER2013": TorchvisionSet(("fer2013",), TRAIN_TEST, manual=FACES),
    "FGVCAircraft": TorchvisionSet(("fgvc-aircraft-2013b",), THREE, _variants("annotation_level", *AIRCRAFT)),
    "FashionMNIST": TorchvisionSet(("FashionMNIST/raw",), BY_FLAG),
    "Flowers102": TorchvisionSet(("flowers-102",), THREE),
    "Food101": TorchvisionSet(("food-101",), TRAIN_TEST),
    "GTSRB": TorchvisionSet(("gtsrb",), TRAIN_TEST),
    "ImageNet": TorchvisionSet(("train", "val", "meta.bin"), TRAIN_VAL, manual=IMAGENET),
    "Imagenette": TorchvisionSet(IMAGENETTES, TRAIN_VAL, _variants("size", "full", "320px", "160px")),
    "KMNIST": TorchvisionSet(("KMNIST/raw",), BY_FLAG),
    "MNIST": TorchvisionSet(("MNIST/raw",), BY_FLAG),
    "OxfordIIITPet": TorchvisionSet(("oxford-iiit-pet",), _by_split("trainval", "test")),
    "PCAM": TorchvisionSet(("pcam",), THREE),
    "Places365": TorchvisionSet(
        PLACES, _by_split("train-standard", "val"), {"256px": {"small": True}, "large": {"small": False}}
    ),
    "QMNIST": TorchvisionSet(("QMNIST/raw",), BY_FLAG),
    "RenderedSST2": TorchvisionSet(("rendered-sst2",), THREE),
    "SEMEION": TorchvisionSet(("semeion.data",), WHOLE),
    "STL10": TorchvisionSet(("stl10_binary",), TRAIN_TEST),
    "SUN397": TorchvisionSet(("SUN397",), WHOLE),
    "SVHN": TorchvisionSet(("train_32x32.mat", "test_32x32.mat"), TRAIN_TEST),
    "StanfordCars": TorchvisionSet(("stanford_cars",), TRAIN_TEST, manual=CARS),
    "USPS": TorchvisionSet(("usps.bz2", "usps.t.bz2"), BY_FLAG),
}


@dataclass(frozen=True, kw_only=True)
class Torchvision(ImageSource):
    """A classification data set of torchvision, such as SVHN, EMNIST, STL10, Flowers102 or OxfordIIITPet.

    Its files lie in ``root`` as torchvision arranges them. Without labelled test images the validation images
    are the test images; without both, ``test_size`` of each class.

    Args:
        dataset: name of the class in ``torchvision.datasets``.
        variant: variant of a data set that has several: EMNIST balanced, byclass, bymerge, letters, digits,
            mnist; DTD 1 to 10; FGVCAircraft variant, family, manufacturer; Imagenette full, 320px, 160px;
            Places365 256px, large; null for the first of these.
    """

    dataset: str
    variant: str | int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dataset not in SETS:
            raise ValueError(
                "data.dataset must be a classification data set of torchvision, "
                f"got {self.dataset!r}; {did_you_mean(self.dataset, SETS)}; {ONE_CLASS}"
            )
        variants = self._set.variants
        if self.variant is not None and str(self.variant) not in variants:
            raise ValueError(
                f"data.variant must be a variant of {self.dataset}, got {str(self.variant)!r}; "
                f"{did_you_mean(str(self.variant), variants)}"
            )

    @property
    def _set(self) -> TorchvisionSet:
        return SETS[self.dataset]

    @property
    def _variant(self) -> str:
        return str(self.variant or next(iter(self._set.variants), ""))

    @property
    def _title(self) -> str:
        return "-".join(filter(None, (self.dataset, self._variant)))

    def origin(self) -> Origin:
        root, own = self.folder, f"torchvision-{self._title}"
        is_known = (self.cache / own).exists() and any((root / name).exists() for name in self._set.files)
        # Files that torchvision has yet to download or unpack would change the key.
        parts = None if is_known else self._parts(root)
        head = f"2 {MADE_BY} {version('torchvision')} {self.max_megapixels}"
        return Origin(
            # Asked only now: a download makes the root.
            self.cache / own,
            stamp(head, stamps_of(root, _files(root, self._set.files))),
            lambda: self._listed(parts or self._parts(root)),
            "test" in self._set.parts,
            [f"{self._title} of torchvision, in {root}"],
        )

    def _listed(self, parts: dict[str, Any]) -> Pictures:
        datasets = list(parts.values())
        names = getattr(datasets[0], "classes", getattr(datasets[0], "categories", ()))
        # The first of ImageNet's synonyms.
        classes = [str(name[0]) if isinstance(name, tuple) else str(name) for name in names]
        counts = {part: len(dataset) for part, dataset in parts.items()}
        return Pictures(ConcatDataset(datasets), counts, classes, self._title)

    def _parts(self, root: Path) -> dict[str, Any]:
        can_fetch = self.download and not self._set.manual
        return obtained(
            self._title,
            root,
            root,
            partial(self._construct, root, download=False),
            partial(self._construct, root, download=True) if can_fetch else None,
            remedy=self._set.manual.format(root=root) or FETCH,
        )

    def _construct(self, root: Path, *, download: bool) -> dict[str, Any]:
        from torchvision import datasets

        kind, entry = getattr(datasets, self.dataset), self._set
        common = dict(entry.variants.get(self._variant, {}))
        # Also checks the constructors of base classes, which receive forwarded arguments.
        if any("loader" in inspect.signature(base).parameters for base in kind.__mro__[:-1]):
            # The path instead of the image: files are decoded here, on all cores, to the requested size.
            common["loader"] = str
        if download:
            common["download"] = True
        return {part: kind(root, **common, **arguments) for part, arguments in entry.parts.items()}


def _files(root: Path, names: tuple[str, ...]) -> Iterator[str]:
    """The paths of all files with these names, or in folders with these names, in a fixed order."""
    for path in (root / name for name in names):
        if path.is_file():
            yield str(path)
        for folder, folders, files in os.walk(path):
            folders.sort()
            yield from (os.path.join(folder, name) for name in sorted(files))
