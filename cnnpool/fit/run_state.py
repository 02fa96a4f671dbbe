"""A run from its settings to its results: one object that every part of a training is handed."""

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
    """A training that is ready to begin or to go on.

    Args:
        out: the run's folder.
        run: the run's name, its folder below the output root.
        mark: the random one of its folder, in the first process; empty in others.
        recipe: how to train.
        seed: of weights, order and augmentation.
        dataset: all images.
        images: their loaders.
        classifier: the network and its training.
        probes: by name.
        pool, readout, model, data: the chosen names with their options, as results.json repeats them.
        stages: the operator of every stage with its options.
        overrides: the command line.
        asked: all settings that decide the result, by which a later call knows the run again.
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
        """The part of the name that all seeds of a choice share."""
        return str(Path(self.run).parent)

    @property
    def network(self) -> Cnn:
        """Images to logits, with its stages."""
        net = self.classifier.model
        assert isinstance(net, Cnn)
        return net

    @property
    def quantities(self) -> list[Quantity]:
        """Every number that the run reports."""
        return listed(declared(self.probes.values()), self.dataset)
