"""Statistics of batch normalisation, measured anew: after a swap its maps are others."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import update_bn


def recalibrate(model: nn.Module, batches: Iterable[Tensor | Sequence[Tensor]]) -> None:
    """Set running means and variances of batch normalisation to their means over ``batches``.

    The model runs as in training, by ``torch.optim.swa_utils.update_bn``, and keeps its mode and the random
    generators; nothing else in it changes.

    Args:
        model: changed in place, or left unchanged if it fails.
        batches: normalised images (N, C, H, W), or (images, ...); each batch counts alike.

    Raises:
        ValueError: if no module is a batch normalisation that keeps statistics.
    """
    # Imported late: a swap alone needs no backbones.
    from cnnpool.model.base import BATCH_NORM

    norms = [one for one in model.modules() if isinstance(one, BATCH_NORM)]
    if not any(one.track_running_stats for one in norms):
        raise ValueError(
            "recalibrate: the network has no batch normalisation whose statistics could be measured anew; "
            "leave it out"
        )
    device = next(one.device for one in (*model.parameters(), *model.buffers()))
    modes = [(module, module.training) for module in model.modules()]
    momenta = [(norm, norm.momentum) for norm in norms]
    buffers = [
        (module, name, buffer, buffer.clone())
        for module in model.modules()
        for name, buffer in module.named_buffers(recurse=False)
    ]
    done = False
    try:
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            update_bn(batches, model, device)
        done = True
    finally:
        for norm, momentum in momenta:
            norm.momentum = momentum
        for module, name, buffer, former in buffers:
            if done and isinstance(module, BATCH_NORM):
                continue
            setattr(module, name, buffer)
            if not torch.equal(buffer, former):
                # Observers of quantisation give theirs another size.
                buffer.resize_(former.shape).copy_(former)
        for module, mode in modes:
            module.training = mode


def in_batches(images: Tensor, most: int = 64) -> Sequence[Tensor]:
    """``images`` in the fewest batches of at most ``most``, of equal size within one; ValueError if empty."""
    if not isinstance(images, Tensor) or not len(images):
        shown = tuple(images.shape) if isinstance(images, Tensor) else f"a {type(images).__name__}"
        raise ValueError(f"recalibrate must be a tensor of images (N, C, H, W), got {shown}")
    return images.tensor_split(-(-len(images) // most))
