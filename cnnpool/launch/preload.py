"""Imported by the server of processes, so that a job forked from it starts with all modules loaded."""

import atexit
import os
from contextlib import suppress

from cnnpool.system.process import importing

# In a session of its own: Ctrl-C and the end of a terminal are for the process that waits for the jobs.
with suppress(OSError, AttributeError):
    os.setsid()

# The server leaves as it is: to take its modules apart takes time, and some complain of it.
atexit.register(os._exit, 0)

# An error here comes again in each job, which reports it.
with suppress(Exception), importing():
    import torch

    import cnnpool.fit  # noqa: F401
    from cnnpool import pool
    from cnnpool.launch import build, run_here  # noqa: F401

    pool.build("max", channels=1)(torch.zeros(1, 1, 128, 128))
