"""Images that are kept larger than the part of them that a network gets."""

import itertools

import numpy as np
import pytest
import torch
from loaders import loader
from PIL import Image
from torchvision.transforms import v2

from cnnpool import data
from cnnpool.data import ImageFolder, from_pixels
from cnnpool.data.augment import centre
from cnnpool.fit.probe_batch import sample

PLAIN = {"mean": (0.0, 0.0, 0.0), "std": (1.0, 1.0, 1.0)}


@pytest.fixture
def root(tmp_path):
    """Smooth pictures of 80 by 120 pixels."""
    rng = np.random.default_rng(0)
    for part, name, i in itertools.product(("train", "test"), ("ant", "bee"), range(6)):
        path = tmp_path / part / name / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        coarse = Image.fromarray(rng.integers(0, 256, (8, 12, 3), np.uint8))
        coarse.resize((120, 80), Image.Resampling.BICUBIC).save(path)
    return tmp_path


def build(root, **options):
    options = {"size": 28, "resize": 32, "batch_size": 4, "val_size": 2, **options}
    return data.build("image_folder", root=str(root), **options)


def test_evaluation_sees_what_torchvisions_preset_gives(root):
    dataset = build(root)
    preset = v2.Compose(
        [v2.Resize(32, interpolation=v2.InterpolationMode.BICUBIC), v2.CenterCrop(28), v2.PILToTensor()]
    )
    paths = sorted((root / "test").glob("*/*.png"))
    expected = torch.stack([preset(Image.open(path)) for path in paths]).float() / 255
    found = torch.cat([images for images, _ in dataset.plain_loader(dataset.test)])
    shape = (1, 3, 1, 1)
    found = found * torch.tensor(dataset.std).view(shape) + torch.tensor(dataset.mean).view(shape)
    assert found.shape == expected.shape == (12, 3, 28, 28)
    # Both round after each of two passes.
    assert (found - expected).abs().max() < 2.5 / 255


def test_the_network_and_its_probes_see_the_part(root):
    dataset = build(root, size=(24, 28))
    assert dataset.size == (24, 28) and dataset.train.shape == (3, 32, 32)
    assert sample(dataset, dataset.test).images.shape == (12, 3, 24, 28)
    plain = (dataset.plain_loader(split) for split in (dataset.val, dataset.test))
    for batches in (dataset.train_loader(), *plain):
        for images, _ in batches:
            assert images.shape[1:] == (3, 24, 28)
            assert images.is_contiguous(memory_format=torch.channels_last)


def test_options_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"data\.resize=32 needs data\.size"):
        ImageFolder(resize=32)
    with pytest.raises(ValueError, match=r"data.resize=32 must be at least data.size=\(30, 40\)"):
        ImageFolder(resize=32, size=(30, 40))
    assert ImageFolder(resize=32, size=32).part == (32, 32) and ImageFolder(size=32).part is None


def places(n: int = 400) -> torch.Tensor:
    """Every pixel says where it lies: (row, column, image)."""
    rows, columns = torch.meshgrid(torch.arange(12), torch.arange(10), indexing="ij")
    pixels = torch.stack((rows, columns, torch.zeros_like(rows)), -1).expand(n, 12, 10, 3).clone()
    pixels[..., 2] = (torch.arange(n) % 256).view(-1, 1, 1)
    return pixels.to(torch.uint8)


def corners(**options) -> torch.Tensor:
    split = from_pixels(places(), torch.arange(400))
    ((images, labels),) = loader(split, batch_size=400, size=(8, 9), **PLAIN, **options)
    values = (images * 255).round().long()
    assert values.shape == (400, 3, 8, 9) and torch.equal(values[:, 2, 0, 0], labels % 256)
    top, left = values[:, 0, 0, 0], values[:, 1, 0, 0]
    assert torch.equal(values[:, 0, :, 0], top[:, None] + torch.arange(8))
    assert torch.equal(values[:, 1, 0], left[:, None] + torch.arange(9))
    return torch.stack((top, left), 1)


def test_training_takes_a_part_at_a_random_place():
    found = corners(shuffle=True, random_place=True)
    counts = torch.bincount(found[:, 0] * 2 + found[:, 1], minlength=10)
    # 10 places, 40 times each on average.
    assert len(counts) == 10 and counts.min() > 18 and counts.max() < 66
    assert torch.equal(found, corners(shuffle=True, random_place=True))
    assert not torch.equal(found, corners(shuffle=True, random_place=True, seed=1))


def test_evaluation_takes_the_centre():
    assert corners().unique(dim=0).tolist() == [[2, 0]]


@pytest.mark.parametrize("size", [(8, 9), (7, 8), (12, 10), (1, 1), (11, 9)])
def test_the_centre_is_torchvisions(size):
    x = places(2).permute(0, 3, 1, 2)
    assert torch.equal(centre(x, size), v2.functional.center_crop(x, list(size)))


def test_resized_crops_come_from_the_whole_and_have_the_size_asked_for():
    split = from_pixels(places(50), torch.arange(50))
    options = {"size": (8, 9), "random_place": True, "random_resized_crop": (0.9, 1.0)}
    ((images, _),) = loader(split, batch_size=50, **PLAIN, **options)
    assert images.shape == (50, 3, 8, 9)
    # Nearly the whole image: its last rows are within.
    assert (images[:, 0, -1] * 255).max() > 10
