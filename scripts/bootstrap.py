"""Make ``.venv`` hold what ``requirements.lock`` says, from a bare Python; dev.py calls ``setup``."""

# Standard library and Python 3.6 only: an old Python must get far enough to look for a newer one.

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import namedtuple
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
VENV = ROOT / ".venv"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
EXE = ".exe" if os.name == "nt" else ""
PYTHON = BIN / ("python" + EXE)
STAMP = VENV / ".cnnpool-stamp"
LOG = VENV / "setup.log"
UNFINISHED = "unfinished"

OLDEST, NEWEST = (3, 11), (3, 13)
OLDEST_UV = (0, 9)
PROGRESS = ("Downloading", "Downloaded", "Building", "Built", "Resolved", "Prepared", "Installed", "Bytecode")
NO_SPACE = re.compile("no space left|os error 28|disk quota|not enough space")
NO_NETWORK = re.compile(
    "dns error|name resolution|failed to fetch|error sending request|network is unreachable|timed out"
    "|connection (refused|reset)|newconnectionerror|proxyerror"
)
BAD_HASH = re.compile("hash mismatch|do not match the hashes")

Found = namedtuple("Found", "version has_venv path")


class Stop(Exception):
    """One line for the user; ``status`` is 2 for what they can mend first, 1 for a failed install."""

    def __init__(self, message, status):
        super().__init__(message)
        self.status = status


def setup():
    """Install what is missing or out of date; nothing to do, and quick, where the stamp is valid."""
    if ready():
        return
    with alone():
        if not ready():
            renew(find_uv())


def renew(uv):
    """Bring ``.venv`` from any state to the locked one; the stamp says so only at the end."""
    if VENV.exists() and (stamp() == UNFINISHED or not PYTHON.exists()):
        # Half a package looks whole to an installer; what was downloaded is still in its cache.
        shutil.rmtree(str(VENV))
    python = None if VENV.exists() else choose_python(uv)
    check_python_of_venv()
    check_room()
    VENV.mkdir(exist_ok=True)
    STAMP.write_text(UNFINISHED)
    LOG.write_text("")
    print(f"cnnpool: installing into {VENV}, some minutes the first time (log: {LOG})", flush=True)
    if python:
        run(*([uv, "venv", "--allow-existing", "--python", python] if uv else [python, "-m", "venv"]), VENV)
    install(uv)
    STAMP.write_text(fingerprint())


def ready():
    return PYTHON.exists() and stamp() == fingerprint()


def stamp():
    return STAMP.read_text() if STAMP.exists() else ""


def fingerprint():
    """sha256 of everything that an installed ``.venv`` depends on."""
    digest = hashlib.sha256()
    # pyvenv.cfg names the Python and its version; the folder counts because an editable install points at it.
    for path in (LOCK, ROOT / "pyproject.toml", VENV / "pyvenv.cfg"):
        digest.update(path.read_bytes() if path.exists() else b"")
    digest.update(f"{ROOT} {os.environ.get('CNNPOOL_TORCH', '')}".encode())
    return digest.hexdigest()


@contextlib.contextmanager
def alone():
    """Let a second set-up in the same checkout wait for the first."""
    with LOCK.open() as file:
        # No fcntl on Windows, no such lock on some network drives: there two at once are not kept apart.
        with contextlib.suppress(ImportError, OSError):
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def find_uv():
    """The uv on PATH if it is recent enough, else None: then the locked one is installed by pip."""
    uv = shutil.which("uv")
    answer = output(uv, "--version") if uv else ""
    version = answer.split()[1].split(".")[:2] if answer.startswith("uv ") else ["0", "0"]
    return uv if tuple(map(int, version)) >= OLDEST_UV else None


def choose_python(uv):
    """The Python to make ``.venv`` with: 3.11 to 3.13 if there is one, this one first."""
    names = ["python3.13", "python3.12", "python3.11", "python3.14", "python3"]
    commands = [[sys.executable], *([name] for name in names)]
    if os.name == "nt":
        commands += [["py", "-3.13"], ["py", "-3.12"], ["py", "-3.11"]]
    found = [python for python in map(probe, commands) if python]
    new_enough = [python for python in found if python.version >= OLDEST]
    if not new_enough:
        version = ".".join(map(str, sys.version_info[:3]))
        raise Stop(f"Python 3.11 or newer is needed, this is {version}: install one, then try again", 2)
    # uv makes an environment without the modules that Debian leaves out of its Python.
    able = [python for python in new_enough if python.has_venv or uv]
    if not able:
        path, (major, minor) = new_enough[0].path, new_enough[0].version
        advice = f"on Debian or Ubuntu, sudo apt install python{major}.{minor}-venv"
        raise Stop(f"{path} has no venv or ensurepip module: install it ({advice}), then try again", 2)
    return min(able, key=lambda python: python.version > NEWEST).path


def probe(command):
    """What the Python behind ``command`` is, or None where it does not start."""
    script = (
        "import sys, importlib.util as u; print(*sys.version_info[:2]); "
        "print(int(all(map(u.find_spec, ('venv', 'ensurepip'))))); print(sys.executable)"
    )
    lines = output(*command, "-c", script).splitlines()
    if len(lines) != 3:
        return None
    return Found(tuple(map(int, lines[0].split())), lines[1] == "1", lines[2])


def output(*command):
    """What ``command`` prints, or nothing where it fails or does not exist."""
    try:
        return subprocess.check_output([str(part) for part in command], stderr=subprocess.DEVNULL).decode()
    except (OSError, subprocess.CalledProcessError):
        return ""


def check_python_of_venv():
    found = probe([PYTHON]) if VENV.exists() else None
    if VENV.exists() and (found is None or found.version < OLDEST):
        raise Stop(f"{VENV} holds a Python that is broken or below 3.11: remove it, then try again", 2)


def check_room():
    """Refuse to start what the disk cannot hold; torch for Linux brings CUDA along."""
    full = sys.platform.startswith("linux") and not cpu_only()
    there = sum(path.lstat().st_size for path in VENV.glob("**/*")) / 1e9
    needed = (7 if full else 2) - there
    free = shutil.disk_usage(str(ROOT)).free / 1e9
    if free < needed:
        raise Stop(
            f"{needed:.1f} GB of disk space are needed in {ROOT}, {free:.1f} GB are free: "
            "make room, then try again",
            2,
        )


def cpu_only():
    choice = os.environ.get("CNNPOOL_TORCH", "")
    if choice not in ("", "cpu"):
        raise Stop(f"CNNPOOL_TORCH={choice!r} is not known: unset it, or set it to cpu", 2)
    return choice == "cpu"


def install(uv):
    """The locked packages, checked by their hashes, then cnnpool itself, editable."""
    if not uv:
        # A .venv that came from elsewhere may have no pip.
        run(PYTHON, "-m", "ensurepip")
        run(PYTHON, "-m", "pip", "install", "--require-hashes", "--requirement", write_lock_of("uv"))
        uv = BIN / ("uv" + EXE)
    # Bytecode now: where Python may not write it (most containers), each start would compile torch again.
    pip = [uv, "pip", "install", "--python", PYTHON, "--compile-bytecode"]
    if cpu_only():
        project = ROOT / "pyproject.toml"
        wanted = ["--requirements", project, "--group", f"{project}:dev"]
        run(*pip, "--torch-backend", "cpu", "--constraints", write_versions(), *wanted)
    else:
        run(*pip, "--require-hashes", "--requirements", LOCK, "--build-constraints", LOCK)
    run(*pip, "--no-deps", "--no-build-isolation", "--editable", ROOT)
    run(PYTHON, "-m", "compileall", "-q", ROOT / "cnnpool", ROOT / "scripts")


def write_lock_of(package):
    """A file with the lock's entry of one package: its first line and the indented ones below."""
    entry = []
    for line in LOCK.read_text().splitlines():
        if line.startswith(package + "==") or (entry and line.startswith(" ")):
            entry.append(line)
        elif entry:
            break
    path = VENV / f"{package}.lock"
    path.write_text("\n".join(entry) + "\n")
    return path


def write_versions():
    """A file with the lock's versions alone: the same torch built for CPUs has other hashes."""
    pins = [line.rstrip(" \\") for line in LOCK.read_text().splitlines() if line[:1].isalnum()]
    path = VENV / "versions.txt"
    path.write_text("\n".join(pins) + "\n")
    return path


def run(*command):
    """One step of the installation: its progress to the terminal, everything to the log."""
    # Not inside the checkout: the date limit in [tool.uv] is meant for resolving, and would make uv refuse
    # every file of a package mirror that tells no upload dates.
    parts, there = [str(part) for part in command], tempfile.gettempdir()
    said = []
    process = subprocess.Popen(parts, cwd=there, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    with process, LOG.open("ab") as log:
        for line in process.stdout:
            log.write(line)
            said.append(line.decode("ascii", "ignore").strip())
            if said[-1].startswith(PROGRESS):
                print("  " + said[-1], flush=True)
    if process.returncode:
        raise Stop(f"{diagnose(' '.join(said).lower())} (log: {LOG})", 1)


def diagnose(said):
    """The likely reason of a failed step, from what it said in lower case."""
    if NO_SPACE.search(said):
        return "the disk is full: make room, then try again"
    if NO_NETWORK.search(said):
        return "the package registry cannot be reached: check the network or proxy, then try again"
    if BAD_HASH.search(said):
        return "a download is not the file that requirements.lock names, and was refused"
    return "the installation failed"
