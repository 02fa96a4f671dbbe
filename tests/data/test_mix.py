import pytest
import torch
from loaders import loader
from torch.nn import functional as F

from cnnpool.data import from_pixels
from cnnpool.data.augment import mix
from cnnpool.data.draws import generator

LABELS = torch.arange(12) % 4


def plain(n: int = 12, size=(10, 8)) -> torch.Tensor:
    """Image i is everywhere i."""
    return torch.arange(n, dtype=torch.float32).view(n, 1, 1, 1).expand(n, 2, *size).clone()


def numbers(mixed: torch.Tensor) -> list[set[float]]:
    return [set(image.flatten().tolist()) for image in mixed]


@pytest.mark.parametrize("seed", range(5))
def test_mixup_blends_images_and_labels_by_one_share(seed):
    mixed, shares = mix(plain(), LABELS, generator(seed), num_classes=4, mixup=0.8)
    assert all(len(values) == 1 for values in numbers(mixed))
    order = torch.randperm(12, generator=generator(seed))
    moved = order != torch.arange(12)
    share = ((mixed[:, 0, 0, 0] - order) / (torch.arange(12) - order))[moved]
    torch.testing.assert_close(share, share[:1].expand_as(share), atol=1e-5, rtol=1e-5)
    expected = share[0] * F.one_hot(LABELS, 4) + (1 - share[0]) * F.one_hot(LABELS[order], 4)
    torch.testing.assert_close(shares, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("seed", range(8))
def test_cutmix_pastes_a_rectangle_whose_area_is_the_share(seed):
    mixed, shares = mix(plain(), LABELS, generator(seed), num_classes=4, cutmix=1.0)
    order = torch.randperm(12, generator=generator(seed))
    for i, image in enumerate(mixed):
        assert set(image.flatten().tolist()) <= {float(i), float(order[i])}
        if order[i] == i:
            continue
        pasted = image[0] == order[i]
        rows, columns = pasted.any(1), pasted.any(0)
        assert torch.equal(pasted, rows[:, None] & columns[None])
        kept = 1 - pasted.float().mean()
        expected = kept * F.one_hot(LABELS[i], 4) + (1 - kept) * F.one_hot(LABELS[order[i]], 4)
        torch.testing.assert_close(shares[i], expected)


def test_shares_are_drawn_from_the_beta_distribution():
    found = []
    for seed in range(400):
        order = torch.randperm(2, generator=generator(seed))
        mixed, _ = mix(plain(2), LABELS[:2], generator(seed), num_classes=4, mixup=2.0)
        if order[0] == 1:
            found.append(1 - mixed[0, 0, 0, 0])
    found = torch.stack(found)
    # Mean 1/2 and variance 1 / (4 (2 alpha + 1)) = 1/20.
    assert abs(found.mean() - 0.5) < 4 * (0.05 / len(found)) ** 0.5
    assert 0.035 < found.var() < 0.065


def test_of_two_ways_each_batch_takes_one():
    ways = [
        max(map(len, numbers(mix(plain(), LABELS, generator(seed), num_classes=4, mixup=1, cutmix=1)[0])))
        for seed in range(60)
    ]
    assert set(ways) == {1, 2} and 10 < ways.count(2) < 50


def batches(**options):
    pixels = torch.randint(0, 256, (20, 6, 5, 3), dtype=torch.uint8, generator=generator(1))
    options = {"shuffle": True, "flip": True, "seed": 3, "num_classes": 4, "cutmix": 1.0, **options}
    split = from_pixels(pixels, torch.arange(20) % 4)
    return loader(split, batch_size=6, mean=(0.5,) * 3, std=(0.2,) * 3, **options)


def test_mixed_batches_go_on_where_a_run_stopped_and_leave_other_draws_alone():
    whole = list(batches())
    again = batches()
    again.load_state_dict({"epoch": 0, "batch": 2})
    for own, other in zip(again, whole[2:], strict=True):
        assert all(map(torch.equal, own, other))
    (unmixed, labels), (mixed, shares) = next(iter(batches(cutmix=0.0))), whole[0]
    assert labels.ndim == 1 and shares.shape == (6, 4)
    same = (unmixed == mixed).float().mean()
    assert 0.1 < same <= 1
    torch.testing.assert_close(shares.sum(1), torch.ones(6))
