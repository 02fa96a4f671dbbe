"""How the process of a command shares the machine, which rank it has, and how it ends."""

import atexit
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

SPINS = "1000"


def share_cores() -> None:
    """Let torch's threads sleep soon when they have nothing to do: one that spins takes a core from others.

    On a busy machine, training is several times slower for it. To be called before torch is imported, whose
    OpenMP then reads it; ``GOMP_SPINCOUNT`` and ``OMP_WAIT_POLICY`` in the environment stay.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)


@contextmanager
def importing() -> Iterator[None]:
    """Switch the garbage collector off while large packages are imported: an eighth of the time.

    Their objects are frozen, since modules live to the end of the process.
    """
    known, was_enabled = len(sys.modules), gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        # Skip the freeze if nothing was imported: the block may have created garbage.
        if len(sys.modules) > known:
            gc.freeze()
            # Extensions report as leaked what is still frozen when the interpreter ends.
            atexit.unregister(gc.unfreeze)
            atexit.register(gc.unfreeze)
        if was_enabled:
            gc.enable()


def has_folder() -> bool:
    """Whether the working directory still exists; without one, torch's libraries end the process."""
    try:
        os.getcwd()
    except OSError:
        return False
    return True


def leave(status: str | int | None) -> NoReturn:
    """End the process without taking its hundreds of modules apart first: a quarter of a second."""
    if isinstance(status, str):
        sys.stderr.write(f"{status}\n")
        status = 1
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        # The reader may be gone.
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status or 0)


def in_group() -> bool:
    """Whether this is one of several processes of one training: ours, or those of torchrun or srun."""
    return "LOCAL_RANK" in os.environ or "RANK" in os.environ or by_srun()


def by_srun() -> bool:
    """Whether ``srun`` started this process with others; a script of ``sbatch`` is no step of its job."""
    return "SLURM_STEP_ID" in os.environ and os.environ.get("SLURM_NTASKS", "1") != "1"


def rank() -> int:
    """0 in the first process and where there is only one, as the launcher of the processes says."""
    names = ("RANK", "LOCAL_RANK", "SLURM_PROCID")
    return next((int(os.environ[name]) for name in names if name in os.environ), 0)
