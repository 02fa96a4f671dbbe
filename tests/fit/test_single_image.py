"""Images given for a prediction are prepared as those of the test."""

import io
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from PIL import Image

from cnnpool.fit.single_image import single_image

GREY = {"in_channels": 1, "size": [12, 8], "mean": [0.4], "std": [0.3]}


@pytest.mark.parametrize("shape", [(60, 60), (50, 90), (7, 5), (400, 300), (12, 8)])
def test_arrays_and_tensors_are_resized_as_their_file_is(shape):
    pixels = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    wanted = single_image(file.getvalue(), GREY)
    tensor = torch.from_numpy(pixels)[None]
    for same in (pixels, tensor, pixels / 255, tensor / 255, tensor.double() / 255):
        assert torch.equal(single_image(same, GREY), wanted)
    colour = {**GREY, "in_channels": 3, "mean": [0.4] * 3, "std": [0.3] * 3}
    assert torch.equal(single_image(tensor.repeat(3, 1, 1), colour), wanted.repeat(3, 1, 1))


def test_an_image_of_the_callers_keeps_its_size():
    file = io.BytesIO()
    Image.fromarray(np.full((800, 600), 100, np.uint8)).save(file, "JPEG")
    image = Image.open(file)
    by_image = single_image(image, GREY)
    assert image.size == (600, 800)
    assert torch.equal(single_image(image, GREY), by_image)
    torch.testing.assert_close(by_image, single_image(file.getvalue(), GREY))


def test_an_image_is_read_up_to_the_megapixels_of_the_training_not_of_pillow(monkeypatch):
    # The size that Pillow refuses is lowered: real ones take a quarter of a gigabyte.
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10_000)
    file = io.BytesIO()
    Image.new("L", (1100, 1000), 100).save(file, "PNG")
    with ThreadPoolExecutor(4) as threads:
        for seen in threads.map(lambda _: single_image(file.getvalue(), GREY), range(32)):
            torch.testing.assert_close(seen, torch.full((1, 12, 8), (100 / 255 - 0.4) / 0.3))
    assert Image.MAX_IMAGE_PIXELS == 10_000
    with pytest.raises(ValueError, match=r"more than the training's data\.max_megapixels=1: shrink it"):
        single_image(file.getvalue(), {**GREY, "max_megapixels": 1})


@pytest.mark.parametrize("channels", [2, 4])
def test_images_of_other_numbers_of_channels_may_be_arrays(channels):
    data = {"in_channels": channels, "size": [6, 6], "mean": [0.5] * channels, "std": [0.2] * channels}
    pixels = np.random.default_rng(0).integers(0, 256, (6, 6, channels), np.uint8)
    tensor = torch.from_numpy(pixels).permute(2, 0, 1)
    assert torch.equal(single_image(pixels, data), single_image(tensor, data))
    assert torch.equal(single_image(tensor, data), (tensor / 255 - 0.5) / 0.2)
    with pytest.raises(ValueError, match=f"the image has {channels + 1} channels, and the network takes"):
        single_image(np.zeros((6, 6, channels + 1), np.uint8), data)
