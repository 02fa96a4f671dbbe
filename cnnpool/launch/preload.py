"""Preload all modules in the fork server, so that a forked job starts at once."""

import atexit
import os
from contextlib import suppress

from cnnpool.system.process import importing

# In a separate session: only the parent process handles Ctrl-C and the end of the terminal.
with suppress(OSError, AttributeError):
    os.setsid()

# Skip the clean-up of modules at exit: it takes time, and some modules print warnings.
atexit.register(os._exit, 0)

# An error here recurs in each job, which reports it.
with suppress(Exception), importing():
    # Lightning imports OmegaConf as it saves.
    import omegaconf  # noqa: F401
    import torch

    import cnnpool.training  # noqa: F401
    from cnnpool import pool
    from cnnpool.fit import callbacks, results, trainer  # noqa: F401
    from cnnpool.launch import run_job  # noqa: F401

    pool.build("max", channels=1)(torch.zeros(1, 1, 128, 128))
