"""The user's own images in folders, one folder per class."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from cnnpool.data.decode import MADE_BY
from cnnpool.data.image_source import Found, ImageSource, Origin, cache_folder, stamp
from cnnpool.data.layout import Layout, find_images
from cnnpool.data.pictures import Pictures
from cnnpool.tables import printable


@dataclass(frozen=True, kw_only=True)
class ImageFolder(ImageSource):
    """Images in ``<root>/train/<class>/`` and ``<root>/test/<class>/``, or just in ``<root>/<class>/``.

    ``training/`` and ``testing/`` mean the same, in any case of letters. A third folder ``val/`` (``valid/``,
    ``validation/``) holds the validation images, which are else cut from the training images; without a test
    folder it holds the test images. Where there is neither, ``test_size`` of each class is cut off for the
    test, by ``split_seed``, so that all runs share the same test images whatever their seed.

    The classes are the folders of train/, in alphabetical order. Folders within a class are read too, and
    links followed. Hidden files, and files whose name does not end as an image's, are left alone and counted.
    Decoded images are kept in ``<root>/.cnnpool-cache``, or, where that cannot be written, in
    ``$XDG_CACHE_HOME/cnnpool``, and made again when a name, size or time of a file changes.

    Args:
        channels: 3 for colour, 1 for grey.
    """

    channels: Literal[1, 3] = 3

    def origin(self) -> Origin:
        root = Path(self.root).expanduser().absolute()
        layout = find_images(root)
        listings = layout.parts.values()
        paths = (path for listing in listings for paths in listing.values() for path in paths)
        return Origin(
            root,
            cache_folder(root),
            stamp(f"3 {MADE_BY} {self.max_megapixels}", root, paths),
            partial(_listed, layout),
            layout.notes(),
            f"{printable(layout.folders['test'])}/ holds the test images" if "test" in layout.parts else "",
        )


def _listed(layout: Layout) -> Found:
    """The images of every part, by class."""
    items = [
        (path, label)
        for listing in layout.parts.values()
        for label, name in enumerate(layout.classes)
        for path in listing.get(name, [])
    ]
    counts = {part: sum(map(len, listing.values())) for part, listing in layout.parts.items()}
    return Found(Pictures(items), counts, layout.classes)
