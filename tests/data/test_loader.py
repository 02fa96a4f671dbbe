import itertools
import threading

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from loaders import loader
from pictures import noise, save
from PIL import Image
from torchvision.transforms import v2

from cnnpool import data
from cnnpool.data import ImageFolder, from_pixels
from cnnpool.data.augment import centre
from cnnpool.fit.results import sample

PLAIN = {"mean": (0.0, 0.0, 0.0), "std": (1.0, 1.0, 1.0)}


def split(n: int, height: int = 6, width: int = 5):
    """Image i is known by its label i."""
    pixels = torch.randint(
        0, 256, (n, height, width, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(1)
    )
    return from_pixels(pixels, torch.arange(n))


def seen(batches) -> list[int]:
    return [label for _, labels in batches for label in labels.tolist()]


@settings(max_examples=50)
@given(n=st.integers(1, 40), size=st.integers(1, 12), epoch=st.integers(0, 3))
def test_an_epoch_shows_every_image_once(n, size, epoch):
    batches = loader(split(n), batch_size=size, shuffle=True, **PLAIN)
    batches.sampler.set_epoch(epoch)
    lengths = [len(labels) for _, labels in batches]
    assert len(lengths) == len(batches)
    assert set(lengths[:-1]) <= {size} and 1 <= lengths[-1] <= size
    assert sorted(seen(batches)) == list(range(n))


def test_images_are_normalised_in_channels_last_format():
    data = split(5)
    mean, std = (0.1, 0.5, 0.9), (0.2, 0.3, 1.5)
    ((images, labels),) = loader(data, batch_size=5, mean=mean, std=std)
    shape = (1, 3, 1, 1)
    exact = data.images.double() / 255
    exact = (exact - torch.tensor(mean).double().view(shape)) / torch.tensor(std).double().view(shape)
    torch.testing.assert_close(images.double(), exact, atol=2e-6, rtol=0)
    assert images.dtype == torch.float32
    assert images.is_contiguous(memory_format=torch.channels_last)
    assert labels.dtype == torch.int64


def epoch_of(batches, epoch):
    batches.sampler.set_epoch(epoch)
    return list(batches)


def augmented(**options):
    return loader(split(23), batch_size=5, shuffle=True, shift=1, flip=True, seed=3, **PLAIN, **options)


def same(first, second) -> bool:
    return len(first) == len(second) and all(
        torch.equal(x, y) and torch.equal(a, b) for (x, a), (y, b) in zip(first, second, strict=True)
    )


@pytest.mark.parametrize("stop", range(6))
def test_a_run_resumed_after_any_batch_sees_exactly_the_rest(stop):
    whole = epoch_of(augmented(), 2)
    first = augmented()
    first.sampler.set_epoch(2)
    list(itertools.islice(first, stop))
    state = first.state_dict()
    assert all(type(value) is int for value in state.values())
    second = augmented()
    second.load_state_dict(state)
    if stop < 5:
        second.sampler.set_epoch(2)
        assert same(list(second), whole[stop:])
        assert same(epoch_of(second, 3), epoch_of(augmented(), 3))
        second.load_state_dict(state)
        assert same(epoch_of(second, 3), epoch_of(augmented(), 3))
        # Nor does anything remain of it, in the epoch that was set.
        next(iter(second))
        assert second.state_dict() == {"epoch": 3, "batch": 1}
    else:
        # The epoch was whole: the next thing is the next one.
        assert same(list(second), epoch_of(augmented(), 3))


def test_only_the_epoch_that_goes_on_begins_in_its_middle():
    batches = augmented()
    batches.load_state_dict({"epoch": 2, "batch": 3})
    assert [len(list(batches)) for _ in range(2)] == [2, 5]


def test_each_iteration_of_a_plain_loop_is_the_next_epoch_also_after_one_that_was_left():
    batches = augmented()
    rounds = [list(batches), list(itertools.islice(batches, 2)), list(batches)]
    for epoch, found in enumerate(rounds):
        assert same(found, epoch_of(augmented(), epoch)[: len(found)])
    assert not torch.equal(*(labels for _, labels in (rounds[0][0], rounds[2][0])))
    # A Trainer that sets an epoch shows that one, however often it was shown before or looked at meanwhile.
    assert same(epoch_of(batches, 2), rounds[2])
    next(iter(batches))
    assert same(list(batches), rounds[2])


def test_processes_that_share_a_loader_without_a_shard_are_refused(monkeypatch):
    monkeypatch.setattr("cnnpool.data.loader.processes", lambda: (0, 2))
    with pytest.raises(ValueError, match="each of 2 processes would get all images of this loader"):
        list(loader(split(8), batch_size=4, shard=None, **PLAIN))


def test_an_iterator_made_before_the_epoch_is_set_follows_it():
    batches = augmented()
    iterator = iter(batches)
    batches.sampler.set_epoch(4)
    assert same(list(iterator), epoch_of(augmented(), 4))


def test_a_batch_is_made_where_the_images_lie():
    plain = loader(split(8), batch_size=4, shuffle=True, **PLAIN)
    plain.dataset.move(torch.device("meta"))
    assert plain.dataset.split.labels.device.type == "meta"
    for images, labels in plain:
        assert images.device.type == labels.device.type == "meta"
        assert images.shape == (4, 3, 6, 5) and images.is_contiguous(memory_format=torch.channels_last)


def test_a_state_beyond_the_epoch_is_refused():
    with pytest.raises(ValueError, match="cannot resume after batch 9: an epoch has 5"):
        augmented().load_state_dict({"epoch": 0, "batch": 9})


def test_the_augmentation_of_an_image_depends_on_seed_epoch_and_its_index_alone():
    same_image = from_pixels(split(1).pixels.repeat(40, 1, 1, 1), torch.arange(40))

    def made(size, epoch, seed=0, **options):
        batches = loader(same_image, batch_size=size, shift=2, shuffle=True, seed=seed, **PLAIN, **options)
        batches.sampler.set_epoch(epoch)
        return {
            int(label): image
            for images, labels in batches
            for image, label in zip(images, labels, strict=True)
        }

    whole = made(20, 1)
    assert len({image.sum().item() for image in whole.values()}) > 10
    for other in (made(7, 1), made(40, 1), made(5, 1, shard=(0, 2)) | made(5, 1, shard=(1, 2))):
        assert all(torch.equal(other[label], image) for label, image in whole.items())
    for other in (made(20, 2), made(20, 1, seed=1)):
        assert sum(torch.equal(other[label], image) for label, image in whole.items()) < 20


def test_order_and_mixing_depend_on_seed_and_epoch():
    def made(epoch, seed=0):
        batches = loader(split(8), batch_size=8, shuffle=True, seed=seed, mixup=1.0, num_classes=8, **PLAIN)
        batches.sampler.set_epoch(epoch)
        _, shares = batches.dataset.__getitems__([(epoch, 3), (epoch, 5)])
        return tuple(index for _, index in batches.sampler), shares.max().item()

    found = [made(0), made(1), made(0, seed=1)]
    assert all(len(set(kind)) == 3 for kind in zip(*found, strict=True)) and made(1) == found[1]


@pytest.mark.parametrize("world", [2, 3])
def test_shards_share_out_the_images(world):
    shards = [loader(split(20), batch_size=4, shuffle=True, shard=(r, world), **PLAIN) for r in range(world)]
    assert len({len(b) for b in shards}) == 1
    parts = [seen(b) for b in shards]
    assert len({len(p) for p in parts}) == 1 and parts[0] != sorted(parts[0])
    together = [label for part in parts for label in part]
    assert len(together) == len(set(together)) == 20 // world * world
    plain = [seen(loader(split(20), batch_size=4, shard=(r, world), **PLAIN)) for r in range(world)]
    assert sorted(label for part in plain for label in part) == list(range(20))


def test_an_empty_split_is_refused():
    with pytest.raises(ValueError, match="no batch of 4 in 0 images"):
        loader(split(0), batch_size=4, **PLAIN)
    with pytest.raises(ValueError, match="no batch of 11 in 10 images"):
        loader(split(10), batch_size=11, drop_last=True, **PLAIN)
    with pytest.raises(ValueError, match="in 1 images for each of 2 devices: use fewer devices"):
        loader(split(1), batch_size=1, shard=(1, 2), **PLAIN)


@pytest.mark.parametrize("size", [6, 300])
def test_batches_of_an_epoch_that_goes_on_are_its_own_when_the_next_one_is_set(size):
    """Also where a thread makes them: of 16 images of 300x300 it does."""
    options = {"batch_size": 16, "shuffle": True, "flip": True, "shift": 2, **PLAIN}

    def epoch(number, then):
        batches = loader(split(48, size, size), **options)
        batches.sampler.set_epoch(number)
        shown = iter(batches)
        first = next(shown)
        assert (size == 300) == any("cnnpool-data" in one.name for one in threading.enumerate())
        batches.sampler.set_epoch(then)
        return [first, *shown]

    for one, other in zip(epoch(3, 3), epoch(3, 8), strict=True):
        assert all(map(torch.equal, one, other))


@pytest.fixture
def root(tmp_path):
    """Smooth pictures of 80 by 120 pixels."""
    for part, name, i in itertools.product(("train", "test"), ("ant", "bee"), range(6)):
        coarse = Image.fromarray(noise(8, 12, 3))
        large = coarse.resize((120, 80), Image.Resampling.BICUBIC)
        save(tmp_path / part / name / f"{i}.png", np.asarray(large))
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
    with pytest.raises(ValueError, match=r"data\.channels must be"):
        ImageFolder(channels=2)
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


@pytest.mark.parametrize("size", [(8, 9), (7, 8), (12, 10), (1, 1), (11, 9)])
def test_the_centre_is_torchvisions(size):
    x = places(2).permute(0, 3, 1, 2)
    assert torch.equal(centre(x, size), v2.functional.center_crop(x, list(size)))
