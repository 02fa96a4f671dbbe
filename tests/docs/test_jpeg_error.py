"""Errors whose spectrum is known by hand."""

import numpy as np
import pytest
from PIL import Image

from scripts.docs import jpeg_error

x = np.arange(16)


@pytest.mark.parametrize(
    ("wave", "share"),
    [
        (np.cos(np.pi * x), 1.0),
        (np.cos(np.pi * x / 4), 0.0),
        # A quarter of a cycle per pixel is what stride 2 still holds.
        (np.cos(np.pi * x / 2), 0.0),
        (np.cos(np.pi * x) * np.sqrt(0.5) + np.cos(np.pi * x / 4), 0.5),
    ],
)
def test_the_share_above_half_of_nyquist_is_that_of_waves_of_known_length(wave, share):
    along = np.broadcast_to(wave[:, None, None], (16, 16, 3))
    for error in (along, along.transpose(1, 0, 2)):
        assert jpeg_error.high_share(error) == pytest.approx(share, abs=1e-6)


def test_each_image_is_compared_with_its_own_recompression(tmp_path, capsys):
    generator = np.random.default_rng(0)
    images = generator.integers(0, 200, (3, 16, 16, 3), dtype=np.uint8)
    # Named otherwise, and brighter by 2 everywhere.
    for number, image in enumerate(images):
        for folder, name, pixels in (("exact", number, image), ("other", 9 - number, image + 2)):
            (tmp_path / folder / "cat").mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(tmp_path / folder / "cat" / f"{name}.png")
    assert jpeg_error.main(tmp_path / "exact", tmp_path / "other") == 0
    assert (
        capsys.readouterr().out == "3 images, RMSE 2.00 of 255, 0.0 % of its energy above half of Nyquist\n"
    )
