"""Decode an image to pixels of a given size, with little more memory than the decoded file."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from errno import EACCES, EINVAL, EISDIR, ELOOP, ENAMETOOLONG, ENOENT, ENOTDIR, ENXIO, EPERM
from io import BytesIO
from threading import Lock
from typing import NamedTuple

import numpy as np
import PIL
import torch
from PIL import ExifTags, Image, ImageChops, UnidentifiedImageError, features
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.TiffImagePlugin import TiffImageFile
from torch.nn.functional import interpolate

from cnnpool.tables import printable

SUFFIXES = frozenset((
    ".avif", ".bmp", ".gif", ".jfif", ".jpe", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff",
    ".webp",
))  # fmt: skip
UNREAD = frozenset((".heic", ".heif", ".jp2", ".jxl", ".cr2", ".dng", ".nef", ".psd", ".svg"))
"""Suffixes of pictures that are not read."""
# Pillow may have been built without AVIF.
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP", *(("AVIF",) if features.check("avif") else ()))
"""Formats that are opened, whatever a file's name: some of Pillow's formats run other programs."""
GAP = 3  # Images are read at a reduced size of at least this many times the requested H and W
STRIP = 1 << 20  # Number of pixels converted at once
BYTES = {"1": 1, "L": 1, "P": 1, "I;16": 2, "I;16B": 2}  # Bytes per pixel in memory; 4 in all other modes
DECODING = {"AVIF": 12, "WEBP": 16}  # Bytes per pixel while such a file is decoded, whatever its mode
GREY = ("1", "L", "LA", "I", "I;16", "I;16B")
SCALES = {"L;2": 85, "L;4": 17}  # By which Pillow multiplies the values of a PNG of 2 and of 4 bits
TURNS = {3: 2, 4: 2, 5: -1, 6: -1, 7: 1, 8: 1}  # EXIF orientation -> counterclockwise quarter turns
MIRRORED = (2, 4, 5, 7)  # Orientations in which left and right change places after the turns
SIDEWAYS = (5, 6, 7, 8)  # Orientations in which height and width change places
MADE_BY = f"4 {PIL.__version__} {torch.__version__}"  # These change decoded pixels, so they void caches
OF_FILES = (EACCES, EINVAL, EISDIR, ELOOP, ENAMETOOLONG, ENOENT, ENOTDIR, ENXIO, EPERM)
"""Errors of a file that stay: it is missing or damaged, or may not be read."""
Size = tuple[int, int]
Picture = str | bytes | Image.Image  # A file's path, its content, or an image decoded elsewhere

DEPTHS = (8, 10, 12, 14, 16)
MEGAPIXELS = 200  # Largest image that is read by default
_lock, _users, _restored = Lock(), list[None](), ExitStack()  # One user for each block that has Pillow quiet


class Header(NamedTuple):
    """An image's header: (H, W) upright, and the memory that reading all its pixels takes.

    ``deep`` images are ``grey`` of more than 8 bits, of which the file may state that ``bits`` are used.
    """

    size: Size
    nbytes: int
    grey: bool
    deep: bool
    bits: int | None


def reason(error: Exception) -> str:
    """The reason why an image cannot be read, in one line."""
    if isinstance(error, UnidentifiedImageError):
        return f"not an image of {', '.join(FORMATS)}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    said = printable(str(error))[:200]
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def is_passing(error: Exception) -> bool:
    """Whether the error may be temporary: memory was short, or a disk or network failed."""
    return isinstance(error, MemoryError) or (
        isinstance(error, OSError) and error.errno not in (None, *OF_FILES)
    )


@contextmanager
def quiet_pillow() -> Iterator[None]:
    """Turn off Pillow's size limit, warnings and log, in the whole process: errors are reported by file.

    They come back when the last of several threads is done.
    """
    # Outside of the lock, which a process forked meanwhile would never get.
    Image.init()
    log = logging.getLogger("PIL")
    with _lock:
        if not _users:
            _restored.callback(setattr, Image, "MAX_IMAGE_PIXELS", Image.MAX_IMAGE_PIXELS)
            _restored.callback(log.setLevel, log.level)
            _restored.enter_context(warnings.catch_warnings(action="ignore"))
            Image.MAX_IMAGE_PIXELS = None
            log.setLevel(logging.CRITICAL)
        _users.append(None)
    try:
        yield
    finally:
        with _lock:
            _users.pop()
            if not _users:
                _restored.close()


def opened(picture: Picture) -> AbstractContextManager[Image.Image]:
    if isinstance(picture, Image.Image):
        return nullcontext(picture)
    return Image.open(BytesIO(picture) if isinstance(picture, bytes) else picture, formats=FORMATS)


def read_header(picture: Picture) -> Header:
    """Size and memory of the image, without reading pixels. May raise any exception, by the format."""
    with opened(picture) as image:
        width, height = image.size
        # Pillow applies TIFF's itself.
        size = _as_stored((height, width), _orientation(image) if image.format != "TIFF" else 1)
        nbytes = width * height * _bytes_per_pixel(image)
        deep = _is_deep(image)
        return Header(size, nbytes, image.mode in GREY, deep, _stated(image) if deep else None)


def _bytes_per_pixel(image: Image.Image) -> int:
    """The most that is held at once while the image is read, as measured."""
    own = BYTES.get(image.mode, 4)
    if image.info.get("progressive"):
        # A JPEG's coefficients, of all pixels.
        return own + 2 * len(image.getbands())
    return DECODING.get(image.format or "", 2 * own if image.format == "TIFF" else own)


def _is_deep(image: Image.Image) -> bool:
    return image.mode.startswith(("I", "F"))


def _stated(image: Image.Image) -> int | None:
    bits = image.tag_v2.get(258, (16,))[0] if isinstance(image, TiffImageFile) else 16
    return bits if bits < 16 else None


def largest(picture: Picture) -> int:
    """The largest value of a grey image of more than 8 bits; ValueError for fractions and negative values."""
    with opened(picture) as image:
        values = np.asarray(image)
    if values.dtype.kind not in "iu" or values.min() < 0:
        raise ValueError("its values are not whole numbers from 0 on: save it with 8 or 16 bits per channel")
    return int(values.max())


def white_of(most: int) -> int:
    """The white of grey images with values up to ``most``, of 8, 10, 12, 14, 16 or as many bits as needed."""
    return (1 << next((bits for bits in DEPTHS if most < 1 << bits), most.bit_length())) - 1


def decode(picture: Picture, size: Size, channels: int, white: int | None = None) -> np.ndarray:
    """The pixels of an image, uint8, (H, W, C): 3 channels for colour, 1 for grey. May raise any exception.

    Its central part with the aspect ratio of ``size``, to the nearest pixel, is resized with antialiasing
    (bicubic). Much larger images are first averaged over whole numbers of pixels, JPEGs during decoding.
    Transparency is laid over white. Grey of more than 8 bits is reduced to 8 by 255 v / white,
    rounded; without ``white``, by that of the bits that the file states, or of its largest value
    (``white_of``). Colour of 16 bits, or with transparency, is reduced to the upper 8.
    """
    with opened(picture) as image:
        full, scale = image.size, 1.0
        # An image of the caller's keeps its size.
        if isinstance(image, JpegImageFile) and picture is not image:
            drafted = image.draft(None, _wanted(_as_stored(size, _orientation(image))))
            scale = full[0] / drafted[1][2] if drafted else 1.0
        _scale_transparency(image)
        image.load()
        # Pillow turns a TIFF while it loads it.
        orientation, full = _orientation(image), full if scale > 1 else image.size
        stored = _as_stored(size, orientation)
        if _is_deep(image) and white is None:
            bits = _stated(image)
            white = (1 << bits) - 1 if bits else white_of(largest(image))
        small, factor = _reduced(image, _wanted(stored), channels, white or 255)
    if full != stored[::-1]:
        scale *= factor
        # The last pixels may extend beyond the picture.
        width, height = (max(1, int(side / scale + 1e-6)) for side in full)
        small = small.crop(centre((width, height), stored))
    pixels = np.array(small).reshape(small.height, small.width, channels)
    if pixels.shape[:2] != stored:
        # Like Pillow except for rounding, in less than half the time.
        planes = torch.from_numpy(pixels)[None].permute(0, 3, 1, 2)
        planes = interpolate(planes, size=stored, mode="bicubic", antialias=True)
        pixels = planes[0].permute(1, 2, 0).numpy()
    pixels = np.rot90(pixels, TURNS.get(orientation, 0))
    return pixels[:, ::-1] if orientation in MIRRORED else pixels


def centre(whole: tuple[int, int], size: Size) -> tuple[int, int, int, int]:
    """Left, top, right, bottom of the central part of ``whole``, (W, H), in the shape of ``size``, (H, W)."""
    ratio, wanted = whole[0] / whole[1], size[1] / size[0]
    width = max(1, round(wanted * whole[1] if ratio > wanted else whole[0]))
    height = max(1, round(whole[0] / wanted if ratio < wanted else whole[1]))
    left, top = round((whole[0] - width) * 0.5), round((whole[1] - height) * 0.5)
    return left, top, left + width, top + height


def _as_stored(size: Size, orientation: int) -> Size:
    return size[::-1] if orientation in SIDEWAYS else size


def _wanted(size: Size) -> tuple[int, int]:
    return GAP * size[1], GAP * size[0]


def _orientation(image: Image.Image) -> int:
    try:
        # A PNG's own method reads its pixels first.
        return int(Image.Image.getexif(image).get(ExifTags.Base.Orientation, 1))
    except Exception:
        # Damaged camera metadata does not damage the picture.
        return 1


def _scale_transparency(image: Image.Image) -> None:
    """Bring the clear value of a PNG to the scale of its pixels, which Pillow leaves as in the file."""
    clear = image.info.get("transparency")
    if clear is None or not isinstance(image, PngImageFile) or not image.tile:
        return
    raw = image.tile[0].args
    if raw in SCALES:
        image.info["transparency"] = clear * SCALES[raw]
    elif raw == "RGB;16B":
        image.info["transparency"] = tuple(value >> 8 for value in clear)


def _reduced(
    image: Image.Image, wanted: tuple[int, int], channels: int, white: int
) -> tuple[Image.Image, int]:
    """Load the image in 8 bits, strip by strip, since a copy would take as much memory; also its factor."""
    width, height = image.size
    factor = max(1, min(width // wanted[0], height // wanted[1]))
    mode = "RGB" if channels == 3 else "L"
    if factor == 1 and image.mode == mode and not image.has_transparency_data:
        return image, 1
    rows = max(1, STRIP // (width * factor)) * factor
    # Pillow inverts those of 8 bits itself.
    negative = _is_deep(image) and isinstance(image, TiffImageFile) and image.tag_v2.get(262) == 0
    small = Image.new(mode, (-(-width // factor), -(-height // factor)))
    for top in range(0, height, rows):
        strip = _opaque(image.crop((0, top, width, min(top + rows, height))), white).convert(mode)
        strip = ImageChops.invert(strip) if negative else strip
        small.paste(strip.reduce(factor) if factor > 1 else strip, (0, top // factor))
    return small, factor


def _opaque(strip: Image.Image, white: int) -> Image.Image:
    """``strip`` over white; a grey one of more than 8 bits reduced to 8, 255 v / ``white`` rounded."""
    if _is_deep(strip):
        largest(strip)
        values = np.asarray(strip)
        grey = ((values.astype(np.int64).clip(max=white) * 255 + white // 2) // white).astype(np.uint8)
        grey[values == strip.info.get("transparency", -1)] = 255
        return Image.fromarray(grey)
    if not strip.has_transparency_data:
        # Pillow makes no grey of these.
        return strip.convert("RGB") if strip.mode in ("LAB", "HSV") else strip
    strip = strip.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", strip.size, "white"), strip)
