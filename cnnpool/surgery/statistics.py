"""Statistics of batch normalisation, measured anew: after a swap its maps are others."""

from collections.abc import Iterable, Sequence

from torch import Tensor, nn
from torch.optim.swa_utils import update_bn

from cnnpool.as_found import buffers_kept, examined


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

    norms = {one: one.momentum for one in model.modules() if isinstance(one, BATCH_NORM)}
    if not any(one.track_running_stats for one in norms):
        raise ValueError(
            "recalibrate: the network has no batch normalisation whose statistics could be measured anew; "
            "leave it out"
        )
    device = next(one.device for one in (*model.parameters(), *model.buffers()))
    try:
        with buffers_kept(model), examined(model):
            update_bn(batches, model, device)
            measured = [dict(norm.named_buffers(recurse=False)) for norm in norms]
    finally:
        for norm, momentum in norms.items():
            norm.momentum = momentum
    for norm, found in zip(norms, measured, strict=True):
        for name, buffer in norm.named_buffers(recurse=False):
            buffer.copy_(found[name])


def in_batches(images: Tensor, most: int = 64) -> Sequence[Tensor]:
    """``images`` in the fewest batches of at most ``most``, of equal size within one; ValueError if empty."""
    if not isinstance(images, Tensor) or not len(images):
        shown = tuple(images.shape) if isinstance(images, Tensor) else f"a {type(images).__name__}"
        raise ValueError(f"recalibrate must be a tensor of images (N, C, H, W), got {shown}")
    return images.tensor_split(-(-len(images) // most))
