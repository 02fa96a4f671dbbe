"""One run from a built model to results.json."""

from collections.abc import Mapping
from pathlib import Path

from cnnpool.data import Dataset
from cnnpool.fit.loggers import logging_to
from cnnpool.fit.measure import measure
from cnnpool.fit.prepare import Facts, prepare
from cnnpool.fit.record import record
from cnnpool.fit.resume import resume
from cnnpool.fit.train import train
from cnnpool.loggers import TensorBoard
from cnnpool.model import Cnn
from cnnpool.probe import Probe
from cnnpool.recipe import Recipe
from cnnpool.run_folder.results import Results
from cnnpool.system.process import rank

TENSORBOARD = TensorBoard()


def fit(
    model: Cnn,
    dataset: Dataset,
    probes: Mapping[str, Probe],
    *,
    recipe: Recipe,
    seed: int,
    out: Path,
    facts: Facts,
    log: TensorBoard = TENSORBOARD,
) -> Results | None:
    """Train ``model``, test it, measure it, and leave the run in ``out``.

    ``log`` says which logger gets numbers and pictures beside TensorBoard; when it fails later, a warning
    says so and the run goes on.

    Goes on from ``out/checkpoints/last.ckpt`` where a run was stopped, to the same bits as one never stopped.

    Returns:
        The content of ``out/results.json``; None in all processes but the first.

    Raises:
        DivergedError: if the loss stops being finite.
        DamagedError: if the checkpoint to go on from cannot be used.
        ValueError: if it belongs to a run with other settings, or ``log`` cannot be opened.
        Stopped: after a signal, once a checkpoint is saved; at once after a second one.
    """
    run = prepare(model, dataset, probes, recipe=recipe, seed=seed, out=out, facts=facts)
    start = resume(run)
    with logging_to(TENSORBOARD if rank() else log, out, facts) as logger:
        trained = train(run, start, logger)
        writer = trained.metrics.writer
        return record(run, trained, measure(run, trained), writer) if writer else None
