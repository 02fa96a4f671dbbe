"""A trial on two images before a training begins, so that a network is refused there or not at all."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from cnnpool.lightning.probe_batch import UNPACK, described
from cnnpool.probe import Probe
from cnnpool.probe.base import Stages, examined

NETWORK = "pass network=, a function from the LightningModule to the module that turns images into logits"


def check(
    probe: Probe, network: nn.Module, find: Callable[[], Stages], images: Tensor, labels: Tensor
) -> None:
    """Raise unless ``probe`` can measure ``network`` on such images and labels.

    Args:
        images: a few, (N, C, H, W), on the network's device.
        labels: int64, N or more.
        find: the stages of ``network``.

    Raises:
        ValueError: in one sentence with the remedy.
    """
    kind = type(network).__name__
    try:
        with examined(network), torch.no_grad():
            output = network(images)
    except Exception as error:
        raise ValueError(f"{kind} fails on images {described(images)}: {_line(error)}; {NETWORK}") from error
    if not (isinstance(output, Tensor) and output.ndim == 2 and output.is_floating_point()):
        raise ValueError(f"{kind} must return logits (N, classes), got {described(output)}: {NETWORK}")
    classes = output.shape[1]
    if classes < 2 or len(output) != len(images):
        raise ValueError(
            f"{kind} must return logits (N, classes) of at least two classes, got {tuple(output.shape)} for "
            f"{len(images)} images: {NETWORK}"
        )
    if labels.max() >= classes:
        raise ValueError(f"labels must be below {classes}, the classes, got {int(labels.max())}: {UNPACK}")
    stages = find()
    if not probe.tried:
        return
    # Some probes compare different images.
    few = max(2, len(images))
    batch = (torch.cat((t, t))[:few] for t in (images, labels[: len(images)].to(images.device)))
    name = type(probe).__name__
    try:
        probe.measure(network, stages, *batch)
    except Exception as error:
        raise ValueError(f"{name} cannot measure {kind}: {_line(error)}; {NETWORK}") from error


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
