"""A run from its settings to its results: one object that all parts of a training share, and its resuming."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from cnnpool.data import Dataset
from cnnpool.fit.classifier import Classifier
from cnnpool.fit.datamodule import Images
from cnnpool.fit.scores import listed, of_own_loss, own_quantities
from cnnpool.model import Cnn
from cnnpool.pool.dispatch import kernels_in_use
from cnnpool.probe import Probe, declared
from cnnpool.quantity import Quantity
from cnnpool.recipe import Recipe
from cnnpool.run_folder.checkpoint import Checkpoint, latest, refuse_other
from cnnpool.run_folder.identity import same_choice
from cnnpool.run_folder.layout import CHECKPOINTS

log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class Run:
    """A training that is ready to start or to resume."""

    out: Path = Path()
    run: str = ""  # Its folder below the output root
    run_id: str = ""  # The random id of the folder, in the first process
    flags: dict[str, Any] = field(default_factory=dict)  # Of Lightning's Trainer
    seed: int
    images: Images
    classifier: Classifier
    probes: Mapping[str, Probe] = field(default_factory=dict)
    pool: dict[str, Any]
    readout: dict[str, Any]
    model: dict[str, Any]
    data: dict[str, Any]
    stages: dict[str, dict[str, Any]]
    overrides: list[str] = field(default_factory=list)
    asked: dict[str, Any] = field(default_factory=dict)  # All settings that determine the result

    @property
    def recipe(self) -> Recipe:
        return self.classifier.recipe

    @property
    def dataset(self) -> Dataset:
        return self.images.dataset

    @property
    def choice(self) -> str:
        """A name shared by all seeds of a choice: the folder above, or one of the settings."""
        folder = Path(self.run)
        if folder.name == f"seed{self.seed}":
            return str(folder.parent)
        # A folder of the user's own may have runs of several choices beside it.
        return str(folder.with_name(f"{self.pool['name']}-{same_choice(self.asked)}"))

    @property
    def network(self) -> Cnn:
        net = self.classifier.model
        assert isinstance(net, Cnn)
        return net

    @property
    def quantities(self) -> list[Quantity]:
        measured = of_own_loss(declared(self.probes.values()), type(self.classifier), Classifier)
        return listed([*own_quantities(self.classifier.metrics()), *measured], self.dataset)


def resume(run: Run) -> Checkpoint | None:
    """The newest intact checkpoint of ``run``, whose settings must be the same; None to start anew."""
    found = latest(run.out / CHECKPOINTS)
    if found is None:
        return None
    refuse_other(found, run.classifier.header["asked"], run.classifier.state_dict())
    log.info("resumed at step %s of %s", *(f"{found.header[key]:,}" for key in ("steps", "total_steps")))
    for before, now in (
        (f"torch {found.header['torch']}", f"torch {torch.__version__}"),
        (f"{found.header['threads']} threads", f"{torch.get_num_threads()} threads"),
        (f"compiled kernels: {found.header['kernels']}", f"compiled kernels: {kernels_in_use()}"),
    ):
        if before != now:
            log.warning(
                "trained with %s so far, now with %s: the last bits of the result may differ", before, now
            )
    return found
