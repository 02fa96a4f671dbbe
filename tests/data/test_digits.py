from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from cnnpool import data
from cnnpool.data.digits import Digits, enlarge


def test_the_pixels_and_labels_are_those_of_scikit_learn():
    # Without importing it, which takes seconds.
    installed = Path(find_spec("sklearn").origin).parent / "datasets" / "data" / "digits.csv.gz"
    table = np.loadtxt(installed, delimiter=",")
    raw = Digits(size=8).read()
    images = torch.cat((raw.train.images, raw.test.images))[:, 0].numpy()
    labels = torch.cat((raw.train.labels, raw.test.labels)).numpy()
    # Sixteenths of white, halves up.
    expected = np.floor(table[:, :64] * 255 / 16 + 0.5).astype(np.uint8)
    ours = sorted(zip(map(bytes, images), labels.tolist(), strict=True))
    assert ours == sorted(zip(map(bytes, expected), table[:, 64].astype(int).tolist(), strict=True))


@pytest.mark.parametrize("size", [8, 9, 16, 28, 32])
def test_enlarging_is_bilinear_interpolation_rounded(size):
    images = np.random.default_rng(0).integers(0, 17, (20, 8, 8))
    exact = F.interpolate(
        torch.from_numpy(images)[:, None].double() * (255 / 16), size=(size, size), mode="bilinear"
    )
    assert np.abs(enlarge(images, size) - exact[:, 0].numpy()).max() <= 0.5 + 1e-9


def test_the_split_is_fixed_and_holds_every_class_alike():
    first, second = data.build("digits", seed=0), data.build("digits", seed=1)
    assert (len(first.train), len(first.val), len(first.test)) == (1221, 216, 360)
    assert torch.equal(first.test.images, second.test.images)
    counts = first.test.labels.bincount()
    assert counts.min() >= 34 and counts.max() <= 38
    assert first.sha256 == second.sha256
    # Pinned, so that no version of torch or scikit-learn changes the split or a pixel unseen.
    assert first.sha256 == "30f4bc6193b2c523cc9740a80705b7c20941b76bae1f6c3ad690dca65d4b931a"


def test_the_size_is_an_option():
    assert data.build("digits", size=32).size == (32, 32)
    with pytest.raises(ValueError, match="digits: size must be a whole number from 8 to 512, got 4"):
        data.build("digits", size=4)
