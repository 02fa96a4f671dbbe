"""The classification data sets of torchvision, and how their constructors are asked for each part."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Arguments = Mapping[str, Any]
BY_FLAG: Mapping[str, Arguments] = {"train": {"train": True}, "test": {"train": False}}
TRAIN_TEST: Mapping[str, Arguments] = {"train": {"split": "train"}, "test": {"split": "test"}}
THREE: Mapping[str, Arguments] = {part: {"split": part} for part in ("train", "val", "test")}
TRAIN_VAL: Mapping[str, Arguments] = {"train": {"split": "train"}, "test": {"split": "val"}}
"""The validation images are the only labelled ones beside the training images."""
WHOLE: Mapping[str, Arguments] = {"train": {}}
"""There is no published test set."""


@dataclass(frozen=True)
class TorchvisionSet:
    """A class of ``torchvision.datasets``.

    Args:
        files: what it keeps below its root.
        parts: part -> arguments of the constructor, in the order train, val, test.
        variants: name -> further arguments; the first is the default. Empty where there is only one.
        manual: where to get files that torchvision does not download.
    """

    files: tuple[str, ...]
    parts: Mapping[str, Arguments]
    variants: Mapping[str, Arguments] = field(default_factory=dict)
    manual: str = ""


SETS = {
    "CIFAR10": TorchvisionSet(("cifar-10-batches-py",), BY_FLAG),
    "CIFAR100": TorchvisionSet(("cifar-100-python",), BY_FLAG),
    "CLEVRClassification": TorchvisionSet(("clevr",), TRAIN_VAL),
    "Caltech101": TorchvisionSet(("caltech101",), WHOLE),
    "Caltech256": TorchvisionSet(("caltech256",), WHOLE),
    "Country211": TorchvisionSet(
        ("country211",), {"train": {"split": "train"}, "val": {"split": "valid"}, "test": {"split": "test"}}
    ),
    "DTD": TorchvisionSet(("dtd",), THREE, {str(one): {"partition": one} for one in range(1, 11)}),
    "EMNIST": TorchvisionSet(
        ("EMNIST/raw",),
        BY_FLAG,
        {one: {"split": one} for one in ("balanced", "byclass", "bymerge", "letters", "digits", "mnist")},
    ),
    "EuroSAT": TorchvisionSet(("eurosat",), WHOLE),
    "FER2013": TorchvisionSet(
        ("fer2013",),
        TRAIN_TEST,
        manual="put fer2013.csv of that page into {root}/fer2013",
    ),
    "FGVCAircraft": TorchvisionSet(
        ("fgvc-aircraft-2013b",),
        THREE,
        {one: {"annotation_level": one} for one in ("variant", "family", "manufacturer")},
    ),
    "FashionMNIST": TorchvisionSet(("FashionMNIST/raw",), BY_FLAG),
    "Flowers102": TorchvisionSet(("flowers-102",), THREE),
    "Food101": TorchvisionSet(("food-101",), TRAIN_TEST),
    "GTSRB": TorchvisionSet(("gtsrb",), TRAIN_TEST),
    "ImageNet": TorchvisionSet(
        ("train", "val", "meta.bin"),
        TRAIN_VAL,
        manual="put the archives ILSVRC2012_*.tar of https://image-net.org into {root}, or its folders, "
        "for data=image_folder",
    ),
    "Imagenette": TorchvisionSet(
        ("imagenette2", "imagenette2-320", "imagenette2-160"),
        TRAIN_VAL,
        {one: {"size": one} for one in ("full", "320px", "160px")},
    ),
    "KMNIST": TorchvisionSet(("KMNIST/raw",), BY_FLAG),
    "MNIST": TorchvisionSet(("MNIST/raw",), BY_FLAG),
    "OxfordIIITPet": TorchvisionSet(
        ("oxford-iiit-pet",), {"train": {"split": "trainval"}, "test": {"split": "test"}}
    ),
    "PCAM": TorchvisionSet(("pcam",), THREE),
    "Places365": TorchvisionSet(
        ("data_256_standard", "val_256", "data_large_standard", "val_large"),
        {"train": {"split": "train-standard"}, "test": {"split": "val"}},
        {"256px": {"small": True}, "large": {"small": False}},
    ),
    "QMNIST": TorchvisionSet(("QMNIST/raw",), BY_FLAG),
    "RenderedSST2": TorchvisionSet(("rendered-sst2",), THREE),
    "SEMEION": TorchvisionSet(("semeion.data",), WHOLE),
    "STL10": TorchvisionSet(("stl10_binary",), TRAIN_TEST),
    "SUN397": TorchvisionSet(("SUN397",), WHOLE),
    "SVHN": TorchvisionSet(("train_32x32.mat", "test_32x32.mat"), TRAIN_TEST),
    "StanfordCars": TorchvisionSet(
        ("stanford_cars",),
        TRAIN_TEST,
        manual="get its files as https://github.com/pytorch/vision/issues/7545 describes, into "
        "{root}/stanford_cars",
    ),
    "USPS": TorchvisionSet(("usps.bz2", "usps.t.bz2"), BY_FLAG),
}
