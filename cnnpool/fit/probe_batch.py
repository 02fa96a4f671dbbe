"""The images that probes look at."""

import torch

from cnnpool.data import Batches, Dataset
from cnnpool.data.base import Split
from cnnpool.data.draw import stratified
from cnnpool.probe import Batch

SAMPLES = 2048


def sample(dataset: Dataset, split: Split) -> Batch:
    """Up to ``SAMPLES`` normalised images of ``split`` and their labels, the same in every run.

    Stratified by class and mixed, so that any first n of them stand for all.
    """
    chosen = split.take(stratified(split.labels, seed=0)[:SAMPLES])
    batches = Batches(chosen, batch_size=len(chosen), mean=dataset.mean, std=dataset.std)
    return Batch(*next(iter(batches)), -torch.tensor(dataset.mean) / torch.tensor(dataset.std))
