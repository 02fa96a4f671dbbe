"""Which probes to read, with which options, and their results."""

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cnnpool import probe
from cnnpool.cli_parser import assignment
from cnnpool.probe import PROBES, Batch, Probe
from cnnpool.probe.predictions import NoLogitsError, logits
from cnnpool.system.progress import Progress, make_way

log = logging.getLogger(__name__)

USUAL = (
    "gradient",
    "invariance",
    "equivariance",
    "aliasing",
    "heat_map",
    "sensitivity",
    "receptive_field",
    "cost",
)
"""Read unless --probes says otherwise; the others take longer."""


def build_probes(names: str | None, settings: Sequence[str], samples: int | None) -> dict[str, Probe]:
    """The probes asked for, no option that counts images above ``samples``.

    Raises:
        ValueError: for an unknown probe or option, or a value out of range.
    """
    chosen = USUAL if names is None else tuple(PROBES) if names == "all" else tuple(names.split(","))
    options: dict[str, dict[str, Any]] = {}
    for name in chosen:
        options[name] = _capped(probe.build(name), samples)
    for text in settings:
        key, value = assignment(text)
        name, _, option = key.partition(".")
        if name not in options:
            raise ValueError(f"--set {text}: {name} is not among the probes {', '.join(chosen)}")
        options[name][option] = value
    return {name: probe.build(name, **own) for name, own in options.items()}


def measure(
    model: nn.Module, stages: Mapping[str, nn.Module], batch: Batch, probes: Mapping[str, Probe]
) -> dict[str, Any]:
    """Every probe's result by section; the batch's tensors are on the CPU."""
    results = {}
    with Progress("probing", len(probes), "probes") as progress:
        for name, one in probes.items():
            start = time.perf_counter()
            results[one.section] = one.measure(model, stages, *batch)
            progress.step()
            make_way()
            log.info("%s: %.1f s", name, time.perf_counter() - start)
    return results


def score(model: nn.Module, images: Tensor, labels: Tensor) -> dict[str, float | int]:
    """Accuracy and mean loss over the images, and how many they are."""
    answers = logits(model, images)
    return {
        "accuracy": (answers.argmax(1) == labels).double().mean().item(),
        "loss": F.cross_entropy(answers.double(), labels).item(),
        "samples": len(images),
    }


def outputs_of(model: nn.Module, images: Tensor) -> Tensor:
    """The model's logits (N, K) for a few images.

    Raises:
        ValueError: if it does not run on them, or returns anything else.
    """
    try:
        found = logits(model, images)
    except NoLogitsError:
        raise
    except (RuntimeError, ValueError, TypeError, AttributeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        shape = "x".join(map(str, images.shape[1:]))
        raise ValueError(f"the model does not run on images of {shape}: {reason} (see --size)") from error
    if not torch.isfinite(found).all():
        raise ValueError(f"the model must return finite logits (N, K), got shape {tuple(found.shape)}")
    return found


def _capped(one: Probe, samples: int | None) -> dict[str, int]:
    """The options of a probe that count images and would be more than ``samples``."""
    counts = {name: value for name, value in vars(one).items() if name.endswith("samples")}
    return {name: samples for name, value in counts.items() if samples is not None and value > samples}
