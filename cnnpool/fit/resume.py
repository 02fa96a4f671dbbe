"""Resume a stopped run from its newest intact checkpoint."""

import logging

import torch

from cnnpool.fit.run_state import Run
from cnnpool.pool.dispatch import kernels_in_use
from cnnpool.run_folder.checkpoint import Checkpoint, latest, refuse_other
from cnnpool.run_folder.layout import CHECKPOINTS

log = logging.getLogger(__name__)


def resume(run: Run) -> Checkpoint | None:
    """The checkpoint from which ``run`` resumes; None if there is none and it starts anew.

    A DamagedError if none is usable; a ValueError names other settings or another architecture, old -> new.
    """
    found = latest(run.out / CHECKPOINTS)
    if found is None:
        return None
    refuse_other(found, run.classifier.header["asked"], run.classifier.state_dict())
    log.info("resumed at step %s of %s", *(f"{found.header[key]:,}" for key in ("steps", "total_steps")))
    _warn_of_other_bits(found)
    return found


def _warn_of_other_bits(found: Checkpoint) -> None:
    pairs = [
        (f"torch {found.header['torch']}", f"torch {torch.__version__}"),
        (f"{found.header['threads']} threads", f"{torch.get_num_threads()} threads"),
        (f"compiled kernels: {found.header['kernels']}", f"compiled kernels: {kernels_in_use()}"),
    ]
    for before, now in pairs:
        if before != now:
            log.warning(
                "trained with %s so far, now with %s: the last bits of the result may differ", before, now
            )
