"""Set up and run cnnpool from a checkout; needs Python 3.11 or newer, and a network the first time.

usage: python3 scripts/dev.py COMMAND [ARGUMENTS]

  quickstart   train the first comparison on the embedded digits, print it and write its report
  test         run the tests on all cores; arguments go to pytest and replace that choice
  lint         check style and formatting
  setup        only install, into .venv
  lock         resolve pyproject.toml into requirements.lock again; arguments go to uv (--upgrade)

Every command first installs what is missing. With make: make COMMAND ARGS="ARGUMENTS".
On Linux, CNNPOOL_TORCH=cpu takes torch's build without CUDA, from torch's own server: about 2 GB
on disk instead of 7, but without hashes to check the download against.
"""

# Like bootstrap.py this must run under Python 3.6: an old Python looks for a newer one, or says it is old.

import os
import subprocess
import sys

from bootstrap import BIN, EXE, LOCK, PYTHON, ROOT, VENV, Stop, setup

MOST_WORKERS = 8


def main(argv):
    """Run one command; returns its exit status, or 2 for the user's mistake and 1 for a failed install."""
    if not argv or argv[0] in ("help", "-h", "--help"):
        print(__doc__.strip())
        return 0
    try:
        if argv[0] not in COMMANDS:
            raise Stop(f"no command {argv[0]!r}; choose from {', '.join(COMMANDS)}", 2)
        setup()
        return COMMANDS[argv[0]](argv[1:])
    except Stop as stop:
        print(f"cnnpool: {stop}", file=sys.stderr)
        return stop.status
    except KeyboardInterrupt:
        print("cnnpool: interrupted; the same command starts again", file=sys.stderr)
        return 130


def quickstart(arguments):
    return call(PYTHON, ROOT / "scripts" / "quickstart.py", *arguments)


def test(arguments):
    # One thread per process: torch's own threads would fight with each other and with the workers.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    return call(PYTHON, "-m", "pytest", *(arguments or ["-n", str(workers())]))


def lint(arguments):
    ruff = BIN / ("ruff" + EXE)
    paths = arguments or ["."]
    return max(call(ruff, "check", *paths), call(ruff, "format", "--check", *paths))


def only_setup(arguments):
    print(f"cnnpool: ready in {VENV}")
    return 0


def lock(arguments):
    what = ["pyproject.toml", "--group", "dev", "--universal", "--python-version", "3.11"]
    how = ["--generate-hashes", "--no-header", "--quiet", "--output-file", LOCK.name]
    return call(BIN / ("uv" + EXE), "pip", "compile", *what, *how, *arguments)


COMMANDS = {"quickstart": quickstart, "test": test, "lint": lint, "setup": only_setup, "lock": lock}


def workers():
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST_WORKERS)


def call(*command):
    return subprocess.call([str(part) for part in command], cwd=str(ROOT))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
