"""The classification data sets of torchvision, downloaded and read by torchvision itself."""

import inspect
import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock
from torch.utils.data import ConcatDataset

from cnnpool.data.decode import MADE_BY
from cnnpool.data.errors import DataError, DownloadError
from cnnpool.data.image_source import Found, ImageSource, Origin, cache_folder
from cnnpool.data.pictures import Pictures
from cnnpool.data.stamp import stamp
from cnnpool.data.torchvision_sets import SETS, TorchvisionSet
from cnnpool.registry import did_you_mean


@dataclass(frozen=True, kw_only=True)
class Torchvision(ImageSource):
    """A classification data set of torchvision, such as SVHN, EMNIST, STL10, Flowers102 or OxfordIIITPet.

    Its files lie in ``root`` as torchvision lays them out. Its own test images are the test images; those of
    validation where it has no others with labels; ``test_size`` of each class where it has neither. Decoded
    images are kept in ``<root>/.cnnpool-cache``, and made again when a name, size or time of a file changes.

    Args:
        dataset: name of the class in ``torchvision.datasets``.
        variant: of a data set that comes in several: EMNIST balanced, byclass, bymerge, letters, digits,
            mnist; DTD 1 to 10; FGVCAircraft variant, family, manufacturer; Imagenette full, 320px, 160px;
            Places365 256px, large; null for the first of these.

    Raises:
        ValueError: for a data set or a variant that does not exist.
    """

    dataset: str
    variant: str | int | None = None
    channels: Literal[1, 3] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dataset not in SETS:
            raise ValueError(
                "data.dataset must be a classification data set of torchvision, "
                f"got {self.dataset!r}; {did_you_mean(self.dataset, SETS)}"
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
        """The variant that is meant; empty where there is only one."""
        return str(self.variant or next(iter(self._set.variants), ""))

    @property
    def _title(self) -> str:
        return "-".join(filter(None, (self.dataset, self._variant)))

    def origin(self) -> Origin:
        root = Path(self.root).expanduser().absolute()
        folder = cache_folder(root) / f"torchvision-{self._title}"
        is_known = folder.exists() and any((root / name).exists() for name in self._set.files)
        # Files that torchvision still has to fetch or unpack would change the key.
        parts = None if is_known else self._parts(root)
        head = f"1 {MADE_BY} {version('torchvision')} {self.max_megapixels}"
        return Origin(
            root,
            folder,
            stamp(head, root, _files(root, self._set.files)),
            lambda: self._listed(parts or self._parts(root)),
            [f"{self._title} of torchvision, in {root}"],
            f"{self.dataset} has test images of its own" if "test" in self._set.parts else "",
        )

    def _listed(self, parts: dict[str, Any]) -> Found:
        datasets = list(parts.values())
        names = getattr(datasets[0], "classes", getattr(datasets[0], "categories", ()))
        return Found(
            Pictures(ConcatDataset(datasets), self._title),
            {part: len(dataset) for part, dataset in parts.items()},
            # Of ImageNet's synonyms the first.
            [str(name[0]) if isinstance(name, tuple) else str(name) for name in names],
        )

    def _parts(self, root: Path) -> dict[str, Any]:
        """The data set of every part, downloaded first where that is asked for and needed.

        Raises:
            DataError: if files are missing or damaged.
            DownloadError: if they could not be downloaded.
        """
        try:
            return self._construct(root, download=False)
        except Exception as error:
            # Each data set raises its own kinds of errors for files that are missing or damaged.
            if not self.download or self._set.manual:
                raise DataError(self._explained(error, root)) from error
        try:
            root.mkdir(parents=True, exist_ok=True)
            with FileLock(root / f".torchvision-{self.dataset}.lock"):
                return self._construct(root, download=True)
        except Exception as error:
            raise DownloadError(self._explained(error, root)) from error

    def _construct(self, root: Path, *, download: bool) -> dict[str, Any]:
        from torchvision import datasets

        kind, entry = getattr(datasets, self.dataset), self._set
        common = dict(entry.variants.get(self._variant, {}))
        if _takes(kind, "loader"):
            # The path instead of the image: files are decoded here, in all cores, to the size asked for.
            common["loader"] = str
        if download:
            common["download"] = True
        return {part: kind(root, **common, **arguments) for part, arguments in entry.parts.items()}

    def _explained(self, error: Exception, root: Path) -> str:
        said = " ".join(str(error).partition("You can use download=True")[0].split()).rstrip(". ")
        said = said[:300] or type(error).__name__
        if self._set.manual:
            remedy = self._set.manual.format(root=root)
        elif not self.download:
            remedy = "set data.download=true, or name the folder that holds it by data.root=FOLDER"
        else:
            remedy = "torchvision could not provide it; mend that, or put its files there by hand"
        return f"cannot read {self._title} of torchvision in {root} ({said}): {remedy}"


def _takes(kind: type, argument: str) -> bool:
    """Whether the constructor of ``kind`` or of a base, which it hands arguments on to, has ``argument``."""
    return any(argument in inspect.signature(one).parameters for one in kind.__mro__[:-1])


def _files(root: Path, names: tuple[str, ...]) -> Iterator[str]:
    """The paths of all files with these names, or in folders with these names, in a fixed order."""
    for path in (root / name for name in names):
        if path.is_file():
            yield str(path)
        for folder, folders, files in os.walk(path):
            folders.sort()
            yield from (os.path.join(folder, name) for name in sorted(files))
