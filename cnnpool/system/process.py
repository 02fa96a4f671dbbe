"""How a command's process shares the machine, its rank, its cache, and how it ends."""

import atexit
import gc
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import NoReturn

SPINS = "1000"


def share_cores() -> None:
    """Make torch's idle threads sleep early, before it is imported: a spinning one takes others' cores."""
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)


def tune() -> bool:
    """Set for your own CPU loop what ``cnnpool train`` sets: call it before torch is imported.

    It lets torch's idle threads sleep early (``GOMP_SPINCOUNT``, unless the environment says otherwise) and
    calls ``cnnpool.keep_memory``. The OpenMP library reads the first once, as torch is imported: a call after
    that warns and sets the second alone. Returns whether both took effect.
    """
    late = "torch" in sys.modules and not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys()
    if late:
        said = f"its idle threads spin; call cnnpool.tune() before, or export GOMP_SPINCOUNT={SPINS}"
        warnings.warn(f"torch is imported already: {said}", stacklevel=2)
    else:
        share_cores()
    from cnnpool.system.hardware import keep_memory

    return keep_memory() and not late


@contextmanager
def importing() -> Iterator[None]:
    """Disable the garbage collector while importing large packages, and freeze them: an eighth faster."""
    known, was_enabled = len(sys.modules), gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        # Skip the freeze if nothing was imported: the block may have created garbage.
        if len(sys.modules) > known:
            gc.freeze()
            # Extensions report objects still frozen at exit as leaks.
            atexit.unregister(gc.unfreeze)
            atexit.register(gc.unfreeze)
        if was_enabled:
            gc.enable()


@contextmanager
def for_jobs(threads: int) -> Iterator[None]:
    """Let processes inherit that they have so many threads each, and that their working directory is not on
    the import path.
    """
    ours = {"OMP_NUM_THREADS": str(threads), "PYTHONSAFEPATH": "1"}
    before = {name: os.environ[name] for name in ours if name in os.environ}
    os.environ |= ours
    try:
        yield
    finally:
        for name in ours:
            os.environ.pop(name, None)
        os.environ |= before


def has_folder() -> bool:
    """Whether the working directory still exists; without one, torch's libraries end the process."""
    try:
        os.getcwd()
    except OSError:
        return False
    return True


def cache_of(path: Path) -> Path:
    """The folder in the user's cache for what belongs to ``path``, which may not exist yet."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(home, "cnnpool", sha256(bytes(path)).hexdigest()[:16])


def leave(status: str | int | None) -> NoReturn:
    """End the process without destroying its hundreds of modules first, which takes a quarter of a second."""
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
    """Whether this is one of several processes of one training, started by cnnpool, torchrun or srun."""
    return "LOCAL_RANK" in os.environ or "RANK" in os.environ or by_srun()


def by_srun() -> bool:
    """Whether ``srun`` started this process with others; a script of ``sbatch`` is not a step of its job."""
    return "SLURM_STEP_ID" in os.environ and os.environ.get("SLURM_NTASKS", "1") != "1"


def rank() -> int:
    """The rank given by the launcher of the processes; 0 if there is only one."""
    names = ("RANK", "LOCAL_RANK", "SLURM_PROCID")
    name = next((name for name in names if name in os.environ), "")
    try:
        return int(os.environ[name]) if name else 0
    except ValueError:
        # Lightning would not take it either.
        said = f"the environment variable {name}={os.environ[name]} is not the number of a process"
        raise ValueError(f"{said}: unset {name}") from None
