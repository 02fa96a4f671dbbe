import dataclasses
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from cnnpool import data
from cnnpool.data import Raw, Source, from_pixels
from cnnpool.data.dataset import assemble, statistics, warnings
from cnnpool.data.published import Digits, enlarge

CONF = Path(__file__).parents[2] / "conf" / "data"


def numbered(n: int, num_classes: int = 3, seed: int = 0):
    """Image i is known by its first bytes."""
    pixels = np.random.default_rng(seed).integers(0, 256, (n, 4, 4, 2), np.uint8)
    pixels[:, 0, 0, 0], pixels[:, 0, 0, 1] = np.arange(n) % 256, np.arange(n) // 256
    return from_pixels(pixels, np.arange(n) % num_classes)


def raw(n: int = 90) -> Raw:
    return Raw(("a", "b", "c"), numbered(n), numbered(30, seed=1))


class Given(Source):
    def read(self) -> Raw:
        return raw()


def build(seed: int = 0, **options):
    return assemble("given", Given(**{"val_size": 9, **options}), seed=seed)


def names(split) -> set[int]:
    first = split.images[:, :, 0, 0].long()
    return set((first[:, 0] + 256 * first[:, 1]).tolist())


@settings(max_examples=30)
@given(seed=st.integers(0, 1000), val_size=st.one_of(st.integers(0, 89), st.sampled_from([0.1, 0.5])))
def test_validation_is_cut_from_the_training_images_and_shares_none(seed, val_size):
    dataset = build(seed, val_size=val_size)
    assert len(dataset.val) == (val_size if isinstance(val_size, int) else round(90 * val_size))
    assert names(dataset.train) | names(dataset.val) == set(range(90))
    assert not names(dataset.train) & names(dataset.val)
    assert len(dataset.train) + len(dataset.val) == 90
    assert torch.equal(dataset.test.images, raw().test.images)
    assert torch.equal(dataset.test.labels, raw().test.labels)


def test_the_validation_cut_follows_the_seed_and_is_stratified():
    assert names(build(1).val) == names(build(1).val) != names(build(2).val)
    assert build(1).val.labels.bincount().tolist() == [3, 3, 3]


def test_the_identity_is_that_of_the_published_data():
    assert build(1).sha256 == build(2, val_size=20, batch_size=4, flip=True).sha256 == raw().sha256
    changed = raw()
    changed.train.images[5, 0, 1, 1] ^= 1
    relabelled = raw()
    relabelled.test.labels[0] += 1
    assert len({raw().sha256, changed.sha256, relabelled.sha256, raw(89).sha256}) == 4


def test_limit_takes_a_balanced_part_that_grows_and_keeps_the_rest():
    few, more, whole = build(limit=12), build(limit=30), build()
    assert (len(few.train), len(more.train)) == (12, 30)
    assert names(few.train) < names(more.train) < names(whole.train)
    assert few.train.labels.bincount().tolist() == [4, 4, 4]
    assert names(few.val) == names(whole.val)
    assert len({few.sha256, more.sha256, whole.sha256, build(limit=12, limit_seed=1).sha256}) == 4
    assert build(limit=81).sha256 == build(limit=1000).sha256 == whole.sha256
    assert build(seed=5, limit=12).sha256 == few.sha256


@settings(max_examples=30)
@given(n=st.integers(1, 30), channels=st.integers(1, 3), size=st.integers(1, 6), seed=st.integers(0, 99))
def test_statistics_are_those_of_numpy_in_double_precision(n, channels, size, seed):
    pixels = np.random.default_rng(seed).integers(0, 256, (n, size, size, channels), np.uint8)
    mean, std = statistics(from_pixels(pixels, np.zeros(n)))
    np.testing.assert_allclose(mean, (pixels / 255).mean((0, 1, 2)), rtol=1e-12)
    np.testing.assert_allclose(std, (pixels / 255).std((0, 1, 2)), rtol=1e-9, atol=1e-12)


def test_statistics_see_the_training_part_alone():
    dataset = build(val_size=30, limit=20)
    assert (dataset.mean, dataset.std) == statistics(dataset.train)
    assert dataset.mean != statistics(raw().train)[0]


def test_batches_come_as_the_options_say():
    dataset = build(seed=4, batch_size=16, eval_batch_size=7, shift=1, flip=True, crop=2)
    train = dataset.train_loader()
    assert (len(train), train.batch_size) == (81 // 16, 16)
    assert (train.sampler.seed, train.sampler.shuffle, train.dataset.seed) == (4, True, 4)
    off = {"random_resized_crop": None, "auto_augment": None, "color_jitter": 0.0}
    assert train.dataset.augment.keywords == {"crop": 2, "shift": 1, "flip": True, "size": (4, 4), **off}
    assert train.dataset.mix is None
    mixing = build(mixup=0.3, cutmix=1.0).train_loader().dataset.mix.keywords
    assert mixing == {"mixup": 0.3, "cutmix": 1.0, "num_classes": 3}
    for split in (dataset.val, dataset.test):
        batches = dataset.plain_loader(split)
        assert torch.equal(torch.cat([labels for _, labels in batches]), split.labels)
        assert [len(labels) for _, labels in batches][:-1] == [7] * (len(split) // 7)
        assert batches.dataset.augment is batches.dataset.mix is None
    images = torch.cat([images for images, _ in build(batch_size=81, limit=81).train_loader()])
    torch.testing.assert_close(images.mean((0, 2, 3)), torch.zeros(2), atol=1e-5, rtol=0)
    torch.testing.assert_close(images.std((0, 2, 3), correction=0), torch.ones(2), atol=1e-5, rtol=0)


def test_evaluation_takes_fewer_images_at_once_where_they_are_large():
    for side, images in ((8, 512), (224, 41)):
        large = from_pixels(np.zeros((4, side, side, 1), np.uint8), np.zeros(4))
        for options, size in (({}, images), ({"eval_batch_size": 7}, 7)):
            dataset = dataclasses.replace(build(**options), test=large)
            assert dataset.plain_loader(large).batch_size == size


def test_a_training_part_smaller_than_a_batch_is_one_batch():
    batches = build(batch_size=1000).train_loader()
    assert [len(labels) for _, labels in batches] == [81]


def test_a_class_without_training_images_is_named():
    dataset = build(limit=2)
    (missing,) = (name for name, count in zip("abc", dataset.counts["train"], strict=True) if not count)
    assert list(warnings(dataset)) == [f"given: no train image of {missing}"]


def test_options_out_of_range_are_refused():
    for options, message in (
        ({"val_size": 90}, "data.val_size=90 of 90 training images leaves none"),
        ({"val_size": 0.001}, "data.val_size=0.001 of 90"),
        ({"random_resized_crop": (0.5, 0.2)}, r"must be \[smallest, largest\] .*, got \[0.5, 0.2\]"),
        ({"crop": 4}, "data.crop must be at least 0 and less than 4, got 4"),
        ({"shift": 4}, "data.shift must be at least 0 and less than 4, got 4"),
        ({"color_jitter": 0.4}, "data.color_jitter=0.4 changes images of 1 or 3 channels, and these have 2"),
        ({"auto_augment": "trivialaugment"}, "data.auto_augment=trivialaugment changes .*, .* have 2: leave"),
    ):
        with pytest.raises(ValueError, match=message):
            build(**options).train_loader()
    with pytest.raises(ValueError, match="2 training images are too few for 3 x 1 micro-batches"):
        build(limit=2, batch_size=3).train_loader(shard=(0, 3))


def test_tensors_of_ones_own_that_do_not_fit_are_refused():
    images, labels = torch.zeros(6, 1, 4, 4, dtype=torch.uint8), torch.arange(6) % 2
    for train, message in (
        ((images, labels + 0.7), "train: the classes must be integers, got torch.float32"),
        ((images[:0], labels[:0]), "train has no images: give at least one"),
        ((images.numpy(), labels.numpy()), "train must be two tensors, got ndarray and ndarray: convert"),
        ((images, labels[:3]), "6 images need as many int64 labels"),
        ((images.float(), labels), r"images must be uint8 \(N, C, H, W\), got torch.float32"),
        ((images[0], labels), r"images must be uint8 \(N, C, H, W\), got torch.uint8 \(1, 4, 4\)"),
    ):
        with pytest.raises(ValueError, match=message):
            data.from_tensors(train, (images, labels))
    with pytest.raises(ValueError, match="val: the classes must be integers"):
        data.from_tensors((images, labels), (images, labels), (images, labels.double()))


def test_tensors_of_ones_own_may_change_afterwards():
    images, labels = torch.ones(6, 1, 4, 4, dtype=torch.uint8), torch.arange(6) % 2
    found = data.from_tensors((images, labels), (images, labels))().read()
    images.zero_(), labels.zero_()
    for split in (found.train, found.test):
        assert split.images.all() and split.labels.tolist() == [0, 1] * 3


def test_inconsistent_data_is_refused(monkeypatch):
    whole, plain = raw(), from_pixels(np.ones((90, 4, 4, 2), np.uint8), np.arange(90) % 3)
    small = from_pixels(np.zeros((9, 5, 4, 2), np.uint8), np.arange(9) % 3)
    for bad, message in (
        (Raw(("a", "b"), whole.train, whole.test), "test labels go from 0 to 2, not 0 to 1"),
        (Raw(whole.classes, whole.train, whole.test.take(torch.arange(0))), "has no test images"),
        (Raw(whole.classes, small, whole.test), "train images are"),
        (Raw(whole.classes, plain, whole.test), "is the same in every pixel"),
    ):
        monkeypatch.setattr(Given, "read", lambda self, bad=bad: bad)
        with pytest.raises(data.DataError, match=message):
            build()


def test_a_missing_package_is_said_with_its_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(data.DataError, match=r"^data=huggingface needs datasets: pip install 'cnnpool"):
        data.build("huggingface", path="ylecun/mnist")


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
