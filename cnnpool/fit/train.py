"""The steps of a run, from its beginning or from a checkpoint, and its score on the test images."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from lightning.pytorch import Trainer

from cnnpool.data import Batches
from cnnpool.fit.by_class import by_class
from cnnpool.fit.checkpoint_callback import Checkpoints
from cnnpool.fit.loggers import RunLogger
from cnnpool.fit.metrics_callback import MetricsCallback
from cnnpool.fit.metrics_writer import MetricsWriter
from cnnpool.fit.prepare import Training
from cnnpool.fit.probe_batch import looked_at, sample
from cnnpool.fit.trainer import build_trainer, quieten
from cnnpool.run_folder.checkpoint import Checkpoint
from cnnpool.system.process import rank
from cnnpool.system.signals import Signals


@dataclass(frozen=True)
class Trained:
    """A run after its last step.

    Args:
        metrics: what it counted, and the scores of its last epoch.
        test: loss and accuracy on the test images, for some data also by class.
        correct: (N,) booleans, which test images were classified correctly, in the data set's order.
        device: that it was trained on.
        precision: the arithmetic, in Lightning's words.
    """

    metrics: MetricsCallback
    test: dict[str, Any]
    correct: torch.Tensor
    device: torch.device
    precision: str


def train(run: Training, start: Checkpoint | None, logger: RunLogger) -> Trained:
    """Train ``run`` to its end, from ``start`` if there is one, and score it on the test images.

    ``logger`` gets scalars and pictures beside TensorBoard.

    Raises:
        DivergedError: if the loss stops being finite.
        Stopped: after a signal, once a checkpoint is saved; at once after a second one.
    """
    module, dataset = run.module, run.dataset
    writer = None
    if not rank():
        kept = start.metrics["metrics_bytes"] if start else 0
        writer = MetricsWriter(run.out, kept, run.quantities, logger)
    split = dataset.val if run.val else dataset.train
    # Large images take much memory, and probes at the end have theirs.
    most = looked_at(probe for probe in run.probes.values() if probe.every_epochs)
    metrics = MetricsCallback(writer, run.probes, sample(dataset, split, most))
    quieten()
    with Signals() as signals:
        saving = Checkpoints(run.out, run.name, metrics, signals)
        trainer = build_trainer(run.recipe, [metrics, saving])
        move(run.batches, trainer.strategy.root_device)
        if start and start.steps >= module.total_steps:
            module.load_state_dict(start.weights)
            module.steps = start.steps
            metrics.load_state_dict(start.metrics)
        else:
            trainer.fit(
                module, run.train, run.val, ckpt_path=start.path if start else None, weights_only=True
            )
    return evaluate(run, trainer, metrics)


def evaluate(run: Training, trainer: Trainer, metrics: MetricsCallback) -> Trained:
    """Score the trained model, which Lightning has taken back to the CPU, on the test images."""
    trainer.test(run.module, run.test, verbose=False)
    test: dict[str, Any] = run.module.take(run.module.evaluation_sums)
    correct = run.module.take_correct(len(run.dataset.test))
    if run.dataset.source.by_class:
        test |= by_class(correct, run.dataset.test.labels, run.dataset.classes)
    return Trained(
        metrics=metrics,
        test=test,
        correct=correct,
        device=trainer.strategy.root_device,
        precision=str(trainer.precision),
    )


def move(batches: Sequence[Batches], device: torch.device) -> None:
    """Let ``batches`` be made on a GPU, with all images there if they fit into a quarter of its free memory.

    Elsewhere each batch is made on the CPU.
    """
    if device.type == "cuda":
        images = sum(each.split.rows.nbytes for each in batches)
        free, _ = torch.cuda.mem_get_info(device)
        for each in batches:
            each.move(device, images=4 * images <= free)
