"""Data sets that are read from disk, and downloaded first where they are missing."""

from abc import abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from filelock import FileLock

from cnnpool.data.base import Raw, Source
from cnnpool.data.errors import DataError, DownloadError, IncompleteError


@dataclass(frozen=True, kw_only=True)
class Published(Source):
    """A data set whose files anyone may download, laid out on disk as torchvision lays them out."""

    by_class: ClassVar[bool] = False
    title: ClassVar[str]
    """Its name in messages."""
    folder: ClassVar[str]
    """Where its files lie, below the root."""
    mirrors: ClassVar[tuple[str, ...]]
    """Addresses to download it from, tried in this order; each ends with a slash."""

    def read(self) -> Raw:
        """The data set, downloaded first if files are missing or damaged and ``download`` allows it.

        Raises:
            DataError: naming the files, why they cannot be used, and the remedy.
            DownloadError: likewise, if they could not be downloaded.
        """
        root = Path(self.root).expanduser()
        folder = root / self.folder
        try:
            return self._parse(folder)
        except IncompleteError:
            if not self.download:
                raise
        try:
            root.mkdir(parents=True, exist_ok=True)
            with FileLock(root / f".{self.title}.lock"):
                # Another process may have downloaded it while this one waited.
                with suppress(IncompleteError):
                    return self._parse(folder)
                self._download(root)
        except (OSError, DataError) as error:
            raise DownloadError(
                f"cannot download {self.title} ({error}): put its files into {folder.absolute()} by hand, "
                "or name the folder that holds them by data.root=FOLDER"
            ) from error
        return self._parse(folder)

    @abstractmethod
    def _parse(self, folder: Path) -> Raw:
        """Read and check the files in ``folder``; IncompleteError if one is missing or damaged."""

    @abstractmethod
    def _download(self, root: Path) -> None:
        """Bring the files that are missing or damaged to ``root``; DataError if that fails."""

    def _urls(self, name: str) -> list[str]:
        return [f"{mirror}{name}" for mirror in self.mirrors]
