"""Image files to pixels of one size, in threads."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from PIL import ExifTags, Image, ImageOps

from cnnpool.data.base import DataError

Found = TypeVar("Found")
SUFFIXES = frozenset((".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".pgm", ".tif", ".tiff", ".webp"))
LARGEST = 512
"""Pixels of H and W up to which a size is chosen without being asked for: everything must fit in memory."""
_BLOCK = 64
_SIDEWAYS = 5
"""EXIF orientations from here on swap height and width."""


def commonest_size(paths: Sequence[str]) -> tuple[int, int]:
    """(H, W) that most images have, seen upright; of equally common ones the largest.

    Raises:
        DataError: if a file is no image; the message names it.
        ValueError: if that size is above ``LARGEST``.
    """
    counts = Counter(_in_threads(_upright_size, paths))
    size = max(counts, key=lambda s: (counts[s], s))
    if max(size) > LARGEST:
        raise ValueError(
            f"most images are {size[0]}x{size[1]}: choose what to bring them to, e.g. data.size=224"
        )
    return size


def decode_all(paths: Sequence[str], size: tuple[int, int], channels: int) -> np.ndarray:
    """Pixels of every image, uint8, (N, H, W, C).

    Args:
        paths: the files.
        size: (H, W) of all; others are resized with antialiasing to cover it, and cut at the centre.
        channels: 3 for colour, 1 for grey.

    Raises:
        DataError: if a file is no whole image of 8 bits per channel; the message names it.
    """
    pixels = np.empty((len(paths), *size, channels), np.uint8)
    decoded = _in_threads(lambda path: _decode(path, size, channels), paths)
    for place, image in zip(pixels, decoded, strict=True):
        place[...] = image
    return pixels


def _in_threads(work: Callable[[str], Found], paths: Sequence[str]) -> Iterator[Found]:
    """``work`` of each path, in order, whatever thread did it."""

    def block(begin: int) -> list[Found]:
        return [_named(work, path) for path in paths[begin : begin + _BLOCK]]

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for results in pool.map(block, range(0, len(paths), _BLOCK)):
            yield from results


def _named(work: Callable[[str], Found], path: str) -> Found:
    try:
        return work(path)
    except DataError:
        raise
    except Exception as error:
        # A damaged file raises nearly anything, by its format.
        raise DataError(
            f"cannot decode {path} ({type(error).__name__}: {error}): repair or remove it"
        ) from error


def _upright_size(path: str) -> tuple[int, int]:
    with Image.open(path) as image:
        width, height = image.size
        sideways = image.getexif().get(ExifTags.Base.Orientation, 1) >= _SIDEWAYS
    return (width, height) if sideways else (height, width)


def _decode(path: str, size: tuple[int, int], channels: int) -> np.ndarray:
    with Image.open(path) as file:
        image: Image.Image = file
        if image.mode.startswith(("I", "F")):
            raise DataError(f"{path} has more than 8 bits per channel (mode {image.mode}): save it with 8")
        ImageOps.exif_transpose(image, in_place=True)
        if image.has_transparency_data:
            image = image.convert("RGBA")
            image = Image.alpha_composite(Image.new("RGBA", image.size, "black"), image)
        image = image.convert("RGB" if channels == 3 else "L")
        height, width = size
        if image.size != (width, height):
            image = ImageOps.fit(image, (width, height), Image.Resampling.BICUBIC)
        return np.asarray(image).reshape(height, width, channels)
