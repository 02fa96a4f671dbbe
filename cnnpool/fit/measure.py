"""The probes of a finished run, read on its test images."""

import logging
import time
from dataclasses import dataclass
from typing import Any

from cnnpool.fit.prepare import Training
from cnnpool.fit.probe_batch import sample
from cnnpool.fit.train import Trained
from cnnpool.probe import Batch
from cnnpool.system.hardware import release_memory
from cnnpool.system.progress import Progress

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Measured:
    """The results of the probes.

    Args:
        sections: the results by the probe's section.
        batch: the images that they looked at.
    """

    sections: dict[str, dict[str, Any]]
    batch: Batch


def measure(run: Training, trained: Trained) -> Measured:
    """Read every probe on the trained model, and add what the training cost."""
    # Memory that training on large images has freed would lie beside that of the probes.
    release_memory(garbage=False)
    batch = sample(run.dataset, run.dataset.test)
    # Lightning has taken it back to the CPU.
    run.model.to(trained.device)
    sections = {}
    if run.probes:
        log.info("measuring: %s", ", ".join(run.probes))
    with Progress("measuring", len(run.probes), "probes") as progress:
        for probe in run.probes.values():
            sections[probe.section] = probe.measure(run.model, run.model.stages, *batch)
            progress.step()
    run.model.cpu()
    metrics = trained.metrics
    seconds = metrics.training.seconds
    cost = {
        "train_images_per_s": metrics.images / seconds if seconds else None,
        "wall_s": time.perf_counter() - metrics.begun,
        "load": metrics.training.load,
    }
    sections["cost"] = sections.get("cost", {}) | cost
    return Measured(sections, batch)
