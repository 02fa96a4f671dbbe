"""A run from its settings to its results: one object that all parts of a training share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cnnpool.data import Dataset
from cnnpool.fit.classifier import Classifier
from cnnpool.fit.datamodule import Images
from cnnpool.fit.scores import listed
from cnnpool.model import Cnn
from cnnpool.probe import Probe, declared
from cnnpool.quantity import Quantity
from cnnpool.recipe import Recipe


@dataclass(kw_only=True)
class Run:
    """A training that is ready to start or to resume.

    Args:
        out: the run's folder.
        run: the run's name, its folder below the output root.
        mark: the random name of its folder, in the first process; empty in others.
        seed: of weights, order and augmentation.
        probes: by name.
        pool, readout, model, data: the chosen names with their options, as recorded in results.json.
        stages: the operator of every stage with its options.
        overrides: the command line.
        asked: all settings that determine the result, by which a later call recognises the run.
    """

    out: Path
    run: str
    mark: str
    recipe: Recipe
    seed: int
    dataset: Dataset
    images: Images
    classifier: Classifier
    probes: Mapping[str, Probe]
    pool: dict[str, Any]
    readout: dict[str, Any]
    model: dict[str, Any]
    data: dict[str, Any]
    stages: dict[str, dict[str, Any]]
    overrides: list[str] = field(default_factory=list)
    asked: dict[str, Any] = field(default_factory=dict)

    @property
    def choice(self) -> str:
        """The part of the name shared by all seeds of a choice."""
        return str(Path(self.run).parent)

    @property
    def network(self) -> Cnn:
        net = self.classifier.model
        assert isinstance(net, Cnn)
        return net

    @property
    def quantities(self) -> list[Quantity]:
        return listed(declared(self.probes.values()), self.dataset)
