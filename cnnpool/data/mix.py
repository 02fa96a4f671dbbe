"""Mix images within a batch, with labels that hold the share of each class."""

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F


def mix(
    images: Tensor,
    labels: Tensor,
    generator: torch.Generator,
    *,
    num_classes: int,
    mixup: float = 0.0,
    cutmix: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Mixup (Zhang 2018, arXiv:1710.09412) or CutMix (Yun 2019, arXiv:1905.04899) of a batch.

    Each image has a partner; one share for all is drawn from Beta(alpha, alpha). If both are enabled, each
    batch is mixed by one of them, with probability 1/2.

    Args:
        images: (N, C, H, W), floating point.
        labels: (N,), indices of classes.
        generator: on the CPU; the only randomness.
        mixup, cutmix: their alphas; 0 for none.

    Returns:
        The mixed images, and the share of each class in them, (N, num_classes), float32.
    """
    order = torch.randperm(len(images), generator=generator).to(images.device)
    coin, seed = torch.rand((), generator=generator).item(), torch.randint(1 << 62, (), generator=generator)
    by_cutting = bool(cutmix) and (not mixup or coin < 0.5)
    alpha = cutmix if by_cutting else mixup
    share = float(np.random.Generator(np.random.PCG64(int(seed))).beta(alpha, alpha))
    if by_cutting:
        rows, columns = _rectangle(images.shape[2], images.shape[3], 1 - share, generator)
        mixed = images.clone()
        mixed[:, :, rows, columns] = images[order][:, :, rows, columns]
        pasted = (rows.stop - rows.start) * (columns.stop - columns.start)
        share = 1 - pasted / (images.shape[2] * images.shape[3])
    else:
        mixed = torch.lerp(images[order], images, share)
    classes = F.one_hot(labels, num_classes).float()
    return mixed, torch.lerp(classes[order], classes, share)


def _rectangle(height: int, width: int, area: float, generator: torch.Generator) -> tuple[slice, slice]:
    """Rows and columns of a rectangle with this share of the area and the aspect ratio of the image.

    Its centre is drawn uniformly; parts beyond the border are cut off.
    """
    centre = torch.rand(2, generator=generator, dtype=torch.float64).tolist()
    spans = []
    for length, place in zip((height, width), centre, strict=True):
        half = int(length * math.sqrt(area)) // 2
        middle = int(length * place)
        spans.append(slice(max(0, middle - half), min(length, middle + half)))
    return spans[0], spans[1]
