import io
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from cnnpool.data import DataError
from cnnpool.data.decode import centre, decode, read_header
from cnnpool.data.images import Pictures, between, commonest_size, decoded, survey, white_of_all

RNG = np.random.default_rng(0)


def smooth(height: int, width: int) -> np.ndarray:
    """Waves of a few periods in three colours."""
    y, x = np.mgrid[:height, :width] / (height, width)[0]
    waves = [np.sin(6 * x + k) * np.cos(5 * y - k) for k in range(3)]
    return np.uint8(127.5 + 120 * np.stack(waves, -1))


def exact(pixels: np.ndarray, size, factor=1) -> np.ndarray:
    """Pillow's own resizing, at once, of the part that is kept of the whole picture, cut out before.

    ``factor`` is how much smaller the picture was that was read.
    """
    image = Image.fromarray(pixels)
    read = [max(1, side // factor) for side in image.size]
    part = image.crop([edge * factor for edge in centre(read, size)])
    return np.asarray(part.resize(size[::-1], Image.Resampling.BICUBIC)).astype(int)


def factor(full, size, jpeg=False) -> int:
    """By what an image of (H, W) ``full`` is averaged before it is brought to ``size``."""
    fits = min(n // (3 * m) for n, m in zip(full, size, strict=True))
    draft = max(n for n in (1, 2, 4, 8) if n <= max(1, fits)) if jpeg else 1
    return draft * max(1, min(-(-n // draft) // (3 * m) for n, m in zip(full, size, strict=True)))


@settings(max_examples=300)
@given(*[st.integers(1, 300)] * 4)
def test_the_part_that_is_kept_is_the_central_one_to_the_nearest_pixel(height, width, to_height, to_width):
    left, top, right, bottom = centre((width, height), (to_height, to_width))
    scale = min(width / to_width, height / to_height)
    for first, end, most, wanted in ((left, right, width, to_width), (top, bottom, height, to_height)):
        assert 0 <= first < end <= most
        assert abs(end - first - max(1, wanted * scale)) <= 0.5 + 1e-9
        assert abs((first + end) / 2 - most / 2) <= 0.5


@settings(max_examples=200, deadline=None)
@given(*[st.integers(1, 60)] * 4, st.sampled_from([1, 3]))
def test_an_image_less_than_three_times_too_large_is_resized_as_pillow_does(
    height, width, to_height, to_width, channels
):
    size = (to_height, to_width)
    assume(factor((height, width), size) == 1)
    # Far from black and white, beyond which libraries cut off between their passes, in no fixed order.
    pixels = RNG.integers(64, 192, (height, width, 3) if channels == 3 else (height, width), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    found = decode(file.getvalue(), size, channels)
    assert np.abs(found - exact(pixels, size).reshape(found.shape)).max() <= 2


@pytest.mark.parametrize("full", [(1000, 1003), (333, 2001), (1501, 400)])
@pytest.mark.parametrize(("suffix", "off"), [("png", 2), ("jpg", 4)])
def test_a_much_larger_image_is_nearly_what_resizing_at_once_gives(tmp_path, full, suffix, off):
    pixels = smooth(*full)
    path = tmp_path / f"x.{suffix}"
    Image.fromarray(pixels).save(path, **({"quality": 95} if suffix == "jpg" else {}))
    for size in ((16, 16), (20, 33)):
        difference = np.abs(
            decode(str(path), size, 3) - exact(pixels, size, factor(full, size, suffix == "jpg"))
        )
        assert difference.max() <= off


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("full", [(8, 12), (90, 130)])
@pytest.mark.parametrize("suffix", ["png", "jpg", "tif"])
def test_every_orientation_of_a_camera_is_applied(tmp_path, orientation, full, suffix):
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / f"x.{suffix}"
    Image.fromarray(smooth(*full)).save(path, exif=exif, **({"quality": 98} if suffix == "jpg" else {}))
    with Image.open(path) as image:
        assert read_header(str(path)).size == ImageOps.exif_transpose(image).size[::-1]
        stored = np.asarray(image.convert("RGB"))
        left_to_do = image.getexif().get(0x0112, 1)
    size = tuple(n // (1 if full[0] == 8 else 9) for n in stored.shape[:2])
    read = factor(stored.shape[:2], size, suffix == "jpg")
    small = Image.fromarray(np.uint8(exact(stored, size, read)))
    small.getexif()[0x0112] = left_to_do
    expected = np.asarray(ImageOps.exif_transpose(small)).astype(int)
    difference = np.abs(decode(str(path), expected.shape[:2], 3) - expected)
    assert difference.max() <= (0 if full[0] == 8 else 3)


def with_chunk(png: bytes, kind: bytes, content: bytes, *, late: bool) -> bytes:
    """``png`` with a chunk behind its pixels, or before them, behind its header."""
    place = len(png) - 12 if late else 33
    sum_ = zlib.crc32(kind + content)
    chunk = len(content).to_bytes(4, "big") + kind + content + sum_.to_bytes(4, "big")
    return png[:place] + chunk + png[place:]


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("kind", ["eXIf", "iTXt"])
def test_a_png_s_orientation_is_applied_wherever_it_lies(kind, late):
    exif = Image.Exif()
    exif[0x0112] = 6
    xmp = b'XML:com.adobe.xmp\0\0\0\0\0<a tiff:Orientation="6"/>'
    content = exif.tobytes()[6:] if kind == "eXIf" else xmp
    file = io.BytesIO()
    Image.fromarray(smooth(8, 12)).save(file, "PNG")
    png = with_chunk(file.getvalue(), kind.encode(), content, late=late)
    assert np.array_equal(decode(png, (12, 8), 3), np.rot90(smooth(8, 12), -1))
    if not late:
        # Damaged pixels are not noticed, so they were not read.
        place = png.index(b"IDAT") + 4
        assert read_header(png[:place] + b"\0" * 9 + png[place + 9 :]).size == (12, 8)


@pytest.mark.parametrize(
    ("suffix", "options", "mode", "each"),
    [
        ("webp", {}, "RGB", 16),
        ("tif", {}, "RGB", 8),
        ("jpg", {}, "RGB", 4),
        ("jpg", {"progressive": True}, "RGB", 10),
        ("jpg", {"progressive": True}, "L", 3),
        ("png", {}, "I;16", 2),
        ("png", {}, "L", 1),
    ],
)
def test_the_memory_of_a_file_is_that_of_its_format(tmp_path, suffix, options, mode, each):
    path = tmp_path / f"x.{suffix}"
    Image.new(mode, (30, 20)).save(path, **options)
    assert read_header(str(path)).nbytes == each * 600


def grey(values):
    return np.repeat(np.array(values)[..., None], 3, -1)


@pytest.mark.parametrize("kind", ["I;16", "I;16B", "I"])
@pytest.mark.parametrize("suffix", ["png", "tif", "pgm"])
def test_sixteen_bits_become_eight(tmp_path, kind, suffix):
    values = RNG.integers(0, 65536, (9, 11), np.uint16)
    values[0, :4] = (0, 128, 129, 65535)
    types = {"I;16": "<u2", "I;16B": ">u2", "I": "<i4"}
    path = tmp_path / f"x.{suffix}"
    image = Image.frombytes(kind, (11, 9), values.astype(types[kind]).tobytes())
    try:
        image.save(path)
    except OSError:
        pytest.skip(f"Pillow writes no {suffix} of {kind}")
    expected = np.floor(values / 257 + 0.5).astype(int)
    assert expected[0, :4].tolist() == [0, 0, 1, 255]
    assert np.array_equal(decode(str(path), (9, 11), 1)[..., 0], expected)
    assert np.array_equal(decode(str(path), (9, 11), 3), grey(expected))


@pytest.mark.parametrize(
    ("most", "white", "kind", "suffix"),
    [
        (4000, 4095, np.uint16, "png"),
        (1023, 1023, np.uint16, "tif"),
        (255, 255, np.int32, "tif"),
        (70_000, 131_071, np.int32, "tif"),
    ],
)
def test_the_largest_value_of_the_data_set_tells_its_bits(tmp_path, most, white, kind, suffix):
    values = np.linspace(0, most, 256).round().astype(kind).reshape(16, 16)
    for name, image in (("bright", values), ("dark", values // 4)):
        Image.fromarray(image).save(tmp_path / f"{name}.{suffix}")
    paths = [str(tmp_path / f"{name}.{suffix}") for name in ("bright", "dark")]
    pictures = Pictures([(path, 0) for path in paths], {"train": 2})
    headers, _ = survey(pictures, 200)
    limit, note = white_of_all(pictures, headers)
    assert limit == white and f"white: {white:,} ({white.bit_length()} bits) in 2 grey images" in note
    found = [image[..., 0] for image, _ in decoded(pictures, headers, (16, 16, 1), white=limit)]
    assert np.array_equal(found[0], np.floor(values * 255.0 / white + 0.5))
    assert np.array_equal(found[1], np.floor(values // 4 * 255.0 / white + 0.5))
    assert len(np.unique(found[0])) > 130


def test_bits_that_a_file_states_go_before_the_largest_value(tmp_path):
    twelve = tmp_path / "x.tif"
    Image.fromarray(np.full((2, 2), 100, np.uint16)).save(twelve, tiffinfo={258: 12})
    with Image.open(twelve) as image:
        if image.tag_v2[258] != (12,):
            pytest.skip("Pillow writes the bits of its mode")
    assert read_header(str(twelve)).bits == 12 and decode(str(twelve), (2, 2), 1).max() == 6


COLOUR = (
    np.array([[(200, 100, 40), (10, 250, 90)], [(0, 0, 0), (255, 255, 255)]], np.uint8)
    .repeat(4, 0)
    .repeat(4, 1)
)


def test_the_clear_value_of_a_grey_image_of_sixteen_bits_is_white(tmp_path):
    values = np.array([[1000, 20_000], [40_000, 1001]], np.uint16)
    Image.fromarray(values).save(tmp_path / "x.png", transparency=1000)
    assert decode(str(tmp_path / "x.png"), (2, 2), 1)[..., 0].tolist() == [[255, 78], [156, 4]]


@pytest.mark.parametrize(
    ("bits", "clear", "row", "expected"),
    [
        (4, [7], b"\x07", [0, 255]),
        (2, [1], b"\x10", [0, 255]),
        (1, [0], b"\x40", [255, 255]),
        (16, [0x1234] * 3, b"\x12\x34" * 3 + b"\x34\x12" * 3, [255, 0x34]),
    ],
)
def test_the_clear_value_of_a_png_of_few_or_sixteen_bits_is_white(bits, clear, row, expected):
    head = struct.pack(">IIBBBBB", 2, 1, bits, 2 * (len(clear) == 3), 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\0IEND\xae\x42\x60\x82"
    content = struct.pack(f">{len(clear)}H", *clear)
    for kind, part in ((b"IHDR", head), (b"tRNS", content), (b"IDAT", zlib.compress(b"\0" + row))):
        png = with_chunk(png, kind, part, late=True)
    assert decode(png, (1, 2), 1)[0, :, 0].tolist() == expected
    with Image.open(io.BytesIO(png)) as image:
        assert [decode(image, (1, 2), 1)[0, :, 0].tolist() for _ in range(2)] == [expected] * 2


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_a_tiff_whose_zero_is_white_is_inverted(tmp_path, kind):
    values = np.array([[0, 1], [100, np.iinfo(kind).max]], kind)
    paths = [tmp_path / "plain.tif", tmp_path / "negative.tif"]
    Image.fromarray(values).save(paths[0])
    # Pillow inverts 8 bits when it writes them too.
    Image.fromarray(values).save(paths[1], tiffinfo={262: 0})
    with Image.open(paths[1]) as image:
        assert image.tag_v2[262] == 0
    plain, negative = (decode(str(path), (2, 2), 1).astype(int) for path in paths)
    assert np.array_equal(negative, 255 - plain if kind is np.uint16 else plain)


@pytest.mark.parametrize("values", [np.full((4, 4), -1, np.int32), np.full((4, 4), 0.5, np.float32)])
def test_numbers_without_a_white_are_refused(tmp_path, values):
    Image.fromarray(values).save(tmp_path / "x.tif")
    with pytest.raises(ValueError, match="save it with 8 or 16 bits"):
        decode(str(tmp_path / "x.tif"), (4, 4), 3)


@pytest.mark.parametrize("mode", ["RGB", "CMYK", "LAB", "P", "L", "1", "RGBA", "LA"])
def test_every_mode_becomes_colour_and_grey(tmp_path, mode):
    image = Image.fromarray(COLOUR)
    image = image.quantize(8) if mode == "P" else image.convert(mode)
    path = tmp_path / ("x.tif" if mode in ("CMYK", "LAB", "1") else "x.png")
    image.save(path)
    # Of 8 bits a channel LAB keeps less than they hold.
    colour = np.asarray(image.convert("RGB")) if mode == "LAB" else COLOUR
    luma = np.rint(colour @ [0.299, 0.587, 0.114])
    if mode == "1":
        luma = np.asarray(image) * 255
    expected = grey(luma) if mode in ("L", "1", "LA") else colour
    assert np.abs(decode(str(path), (8, 8), 3) - expected.astype(int)).max() <= 1
    assert np.abs(decode(str(path), (8, 8), 1)[..., 0] - luma).max() <= 1


def test_a_cmyk_jpeg_has_its_colours(tmp_path):
    Image.fromarray(COLOUR.repeat(8, 0).repeat(8, 1)).convert("CMYK").save(tmp_path / "x.jpg", quality=100)
    assert (
        np.abs(decode(str(tmp_path / "x.jpg"), (8, 8), 3)[1::4, 1::4] - COLOUR[1::4, 1::4].astype(int)).max()
        <= 8
    )


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "RGB", "L"])
def test_transparency_of_every_kind_lies_over_white(tmp_path, mode):
    dark = Image.new("RGB" if mode in ("RGBA", "P", "RGB") else "L", (8, 8), 0)
    dark.paste(Image.new(dark.mode, (8, 4), "white" if dark.mode == "L" else (90, 0, 0)), (0, 4))
    options = {}
    if mode in ("RGBA", "LA"):
        dark = dark.convert(mode)
        dark.putalpha(Image.fromarray(np.repeat(np.uint8([0, 255]), 32).reshape(8, 8)))
    elif mode == "P":
        dark = dark.quantize(2)
        options["transparency"] = dark.getpixel((0, 0))
    else:
        options["transparency"] = 0 if mode == "L" else (0, 0, 0)
    dark.save(tmp_path / "x.png", **options)
    image = decode(str(tmp_path / "x.png"), (8, 8), 3)
    assert (image[:4] == 255).all()
    assert image[5, 5].tolist() == [255] * 3 if dark.mode in ("L", "LA") else [90, 0, 0]


def test_half_transparent_pixels_of_a_large_image_are_mixed_before_they_are_averaged(tmp_path):
    # Black and clear in turn, over white: grey, whatever colour the clear pixels pretend to have.
    pixels = np.zeros((400, 400, 4), np.uint8)
    pixels[:, ::2, 3] = 255
    pixels[:, 1::2, :3] = (255, 0, 0)
    Image.fromarray(pixels).save(tmp_path / "x.png")
    assert np.abs(decode(str(tmp_path / "x.png"), (8, 8), 3).astype(float) - 127.5).max() <= 1


def test_the_first_frame_of_an_animation_is_read(tmp_path):
    frames = [Image.new("L", (8, 8), value) for value in (50, 200)]
    for suffix in ("gif", "webp", "tif", "png"):
        path = tmp_path / f"x.{suffix}"
        frames[0].save(path, save_all=True, append_images=frames[1:])
        assert np.abs(decode(str(path), (8, 8), 1).astype(int) - 50).max() <= 2


def test_a_camera_s_picture_of_several_images_is_read(tmp_path):
    first, second = (Image.fromarray(smooth(40, 40) // k) for k in (1, 2))
    first.save(tmp_path / "x.jpg", format="MPO", save_all=True, append_images=[second], quality=98)
    with Image.open(tmp_path / "x.jpg") as image:
        assert image.format == "MPO"
    difference = np.abs(decode(str(tmp_path / "x.jpg"), (40, 40), 3) - smooth(40, 40).astype(int))
    assert difference.mean() < 3


@pytest.mark.parametrize("workers", [1, 5])
def test_bits_do_not_depend_on_the_number_of_threads(tmp_path, monkeypatch, workers):
    monkeypatch.setattr("cnnpool.data.threads.usable", lambda: range(workers))
    paths = []
    for i in range(40):
        paths.append(str(tmp_path / f"{i}.{'jpg' if i % 2 else 'png'}"))
        Image.fromarray(smooth(10 + 7 * i, 30 + 5 * i)).save(paths[-1])
    (tmp_path / "7.jpg").write_bytes(b"x")
    pictures = Pictures([(path, 0) for path in paths], {"train": 40})
    found, unreadable = survey(pictures, 200)
    assert list(unreadable) == [7] and unreadable[7].startswith("not an image of BMP")
    for place, (image, _) in zip(found, decoded(pictures, found, (9, 9, 3)), strict=True):
        assert np.array_equal(image, decode(paths[place], (9, 9), 3))


def test_items_that_cannot_be_read_or_have_no_label_are_named_by_their_number():
    # Item 0 is asked for, as of a data set that cannot read it.
    pets = Pictures({1: None}, {"train": 1}, title="Pets")
    assert survey(pets, 200)[1] == {0: "KeyError: 0"} and pets.name(0) == "image 0 of Pets"
    with pytest.raises(DataError, match="image 0 of Pets has no label"):
        survey(Pictures([(b"", -1)], {"train": 1}, title="Pets"), 200)


def test_the_size_of_most_images_is_chosen_and_the_reason_said():
    assert commonest_size([(8, 9)] * 2 + [(7, 7)]) == (
        (8, 9),
        "that of 2 of 3 images before any are put aside",
    )
    assert commonest_size([(8, 9), (9, 9)])[0] == (9, 9)
    assert between([(3, 4), (2, 2), (5, 5)]) == "from 2x2 to 5x5" and between([(3, 4)]) == "3x4"


CHILD = """
import resource, sys
from cnnpool.data.decode import decode, quiet_pillow
with quiet_pillow():
    for path in sys.argv[1:]:
        decode(path, (16, 16), 3)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss has another unit elsewhere")
def test_a_large_image_takes_little_more_memory_than_its_pixels_a_jpeg_less(tmp_path):
    side, paths = 6000, [str(tmp_path / name) for name in ("small.png", "x.jpg", "x.png")]
    Image.new("RGB", (16, 16)).save(paths[0])
    Image.new("RGB", (side, side), (9, 99, 200)).save(paths[1])
    Image.new("RGBA", (side, side), (9, 99, 200)).save(paths[2], compress_level=1)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", CHILD, *paths]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    before, *used = (int(line) * 1024 / (4 * side * side) for line in done.stdout.split())
    assert used[0] - before < 0.2 and used[1] - before < 1.35
