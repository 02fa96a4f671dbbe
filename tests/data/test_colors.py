import pytest
import torch
from loaders import draws
from torchvision.transforms.v2 import functional as TF

from cnnpool.data import colors
from cnnpool.data.colors import color_jitter


def images(n: int = 6, channels: int = 3, size=(11, 9)) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (n, channels, *size), dtype=torch.uint8, generator=generator)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", ["brightness", "contrast", "saturation", "sharpness"])
def test_a_change_is_that_of_torchvision(name, channels):
    x, factors = images(channels=channels), torch.tensor([0.0, 0.3, 0.9, 1.0, 1.37, 1.99])
    found = getattr(colors, name)(x, factors)
    expected = torch.stack(
        [getattr(TF, f"adjust_{name}")(image, float(f)) for image, f in zip(x, factors, strict=True)]
    )
    assert found.dtype == torch.uint8
    # A sum in another order may fall on the other side of a whole number.
    difference = (found.int() - expected.int()).abs()
    assert difference.max() <= 1 and (difference > 0).float().mean() < 0.03


def test_jitter_draws_a_factor_for_each_image_within_the_strength():
    grey = torch.full((400, 3, 4, 4), 100, dtype=torch.uint8)
    found = color_jitter(grey, draws(len(grey), 1), 0.4)
    # Contrast and saturation change nothing in plain grey; each step rounds down.
    values = found[:, 0, 0, 0].int()
    assert values.min() in range(57, 64) and values.max() in range(136, 141)
    assert len(set(values.tolist())) > 50
    assert torch.equal(found, color_jitter(grey, draws(len(grey), 1), 0.4))
    same = color_jitter(images(), draws(len(images())), 0.0)
    assert (same.int() - images().int()).abs().max() <= 1
