"""Gradient routing of a few images, saved for the picture in the report."""

import torch
from torch import Tensor
from torch.nn import functional as F

from cnnpool.model import Cnn
from cnnpool.probe import Batch
from cnnpool.probe.gradient_taps import stage_gradients
from cnnpool.run_folder.routing import Routing

SHOWN = 4
LARGEST = 128
"""Pixels of the longer side, beyond which a picture is no clearer."""


def routing_of(model: Cnn, batch: Batch) -> Routing:
    """The first images of ``batch``, each in its own range, and the shares of channels with gradient."""
    images, labels, *_ = batch.first(SHOWN)
    taps = stage_gradients(model, model.stages, images, labels)
    shares = {stage: (tap.gradient != 0).double().mean(1, keepdim=True) for stage, tap in taps.items()}
    low, high = images.amin((1, 2, 3), keepdim=True), images.amax((1, 2, 3), keepdim=True)
    grey = images if images.shape[1] == 3 else images.mean(1, keepdim=True)
    shown = _reduced(255 * (grey - low) / (high - low).clamp_min(1e-9)).round().to(torch.uint8)
    return Routing(
        shown.permute(0, 2, 3, 1).cpu().numpy(),
        {stage: _reduced(share).squeeze(1).cpu().numpy() for stage, share in shares.items()},
    )


def _reduced(maps: Tensor) -> Tensor:
    """``maps`` (N, C, H, W), averaged down until no side is longer than ``LARGEST``."""
    longest = max(maps.shape[-2:])
    if longest <= LARGEST:
        return maps
    size = [max(1, side * LARGEST // longest) for side in maps.shape[-2:]]
    return F.interpolate(maps, size, mode="area")
