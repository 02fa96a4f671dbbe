"""routing.npz: the positions of a few test images that received gradient, for the report's picture."""

import io
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cnnpool.run_folder.layout import ROUTING, temp_prefix
from cnnpool.run_folder.reading import damaged, read_bytes
from cnnpool.system.atomic import write_bytes

IMAGES = "images"
STAGE = "stage."
UNPACKED = 1 << 26  # Largest size in bytes; a few images and their maps take a hundredth


@dataclass(frozen=True)
class Routing:
    """Images, (N, H, W, 1 or 3) of uint8, and by stage, (N, H', W'), the share of channels with gradient."""

    images: np.ndarray
    shares: dict[str, np.ndarray]


def write(folder: Path, routing: Routing) -> None:
    """Write ``routing`` to the folder of a run, with shares in steps of 1/255, in which only 0 becomes 0."""
    arrays: dict[str, Any] = {IMAGES: routing.images}
    arrays |= {f"{STAGE}{stage}": np.ceil(255 * one).astype("u1") for stage, one in routing.shares.items()}
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    write_bytes(folder / ROUTING, stream.getvalue(), prefix=temp_prefix(folder))


def read(folder: Path) -> Routing | None:
    """The content written by ``write`` to ``folder``; None without any, a DamagedError for another."""
    path = folder / ROUTING
    content = read_bytes(path)
    if content is None:
        return None
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if sum(one.file_size for one in archive.infolist()) > UNPACKED:
                raise ValueError("it unpacks to more than a run writes")
        with np.load(io.BytesIO(content)) as stored:
            arrays = {name: stored[name] for name in stored.files}
    # Of a damaged archive it may be any.
    except Exception as error:
        raise damaged(path, str(error)) from None
    images = arrays.pop(IMAGES, np.empty(0))
    shapes = images.ndim == 4 and all(one.ndim == 3 and len(one) == len(images) for one in arrays.values())
    shapes = shapes and images.shape[-1] in (1, 3) and all(one.size for one in (images, *arrays.values()))
    if not shapes or any(one.dtype != np.uint8 for one in (images, *arrays.values())):
        raise damaged(path, "its arrays have other shapes or numbers than a run's")
    return Routing(images, {name.removeprefix(STAGE): one / 255 for name, one in arrays.items()})
