"""Forward passes that a training does not notice."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from lightning.pytorch import LightningModule
from torch import nn
from torchmetrics import Metric

from cnnpool.probe.base import buffers_kept


@contextmanager
def unnoticed(model: nn.Module) -> Iterator[None]:
    """Keep the buffers of ``model`` and the generators of Python and numpy, and drop what ``model`` logs."""
    loud = [vars(part) for part in model.modules() if isinstance(part, LightningModule)]
    logs = [own.get("log") for own in loud]
    measured = [part for part in model.modules() if isinstance(part, Metric)]
    counted = [(part, dict(vars(part)), part._copy_state_dict()) for part in measured]
    drawn = random.getstate(), np.random.get_state()
    for own in loud:
        own["log"] = lambda *_, **__: None
    try:
        with buffers_kept(model):
            yield
    finally:
        for part, own, state in counted:
            vars(part).update(own | state)
        for own, log in zip(loud, logs, strict=True):
            del own["log"]
            if log is not None:
                own["log"] = log
        random.setstate(drawn[0])
        np.random.set_state(drawn[1])
