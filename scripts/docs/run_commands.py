"""Run every command of README.md and docs/*.md in a fresh clone, and print a line for each.

usage: python scripts/docs/run_commands.py [PAGE ...]

The commands run one after the other in a fresh clone of the last commit, with an empty home, no caches, and
small data sets from a mirror on the loopback; those that train take smoke settings and at most two seeds, and
the sweep of every operator two operators. Folders of images and files of weights that a command names are
made first, of noise. Exit status 1 if any command fails.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from scripts.docs.documented import Command, commands, fewer
from scripts.docs.mirror import at, serve, write_constants
from scripts.docs.small_data import publish

REPOSITORY = Path(__file__).resolve().parents[2]
LIMIT_S = 1800
SERVES_S = 15
"""What tensorboard must stay up, to count as started."""


def main(pages: list[str]) -> int:
    if missing := [page for page in pages if not (REPOSITORY / page).is_file()]:
        print(__doc__ if missing[0] in ("-h", "--help") else f"no page {missing[0]}")
        return int(missing[0] not in ("-h", "--help"))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        clone = root / "cnnpool"
        subprocess.run(["git", "clone", "--quiet", str(REPOSITORY), str(clone)], check=True)
        paths = [clone / page for page in pages] or [clone / "README.md", *sorted(clone.glob("docs/*.md"))]
        found = [command for path in paths for command in commands(path)]
        constants = publish(root / "mirror")
        with serve(root / "mirror") as url:
            write_constants(root / "constants.json", at(url, constants))
            environment = prepare(root, clone)
            failed = [command for command in found if not report(command, clone, environment)]
    print(f"{len(found)} commands, {len(failed)} failed")
    return int(bool(failed))


def prepare(root: Path, clone: Path) -> dict[str, str]:
    """The environment of the commands: an empty home, and the clone's ``cnnpool`` on the PATH."""
    home, bin_folder = root / "home", root / "bin"
    home.mkdir()
    bin_folder.mkdir()
    driver = f"{clone}/scripts/docs/mirror.py {root}/constants.json"
    for name, line in {"cnnpool": f"{sys.executable} {driver}", "python": sys.executable}.items():
        (bin_folder / name).write_text(f'#!/bin/sh\nexec {line} "$@"\n')
        (bin_folder / name).chmod(0o755)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("CNNPOOL_", "XDG_", "NUMBA_", "TORCH_"))}
    path = os.pathsep.join((str(bin_folder), str(Path(sys.executable).parent), os.environ["PATH"]))
    return kept | {"HOME": str(home), "PATH": path, "PYTHONPATH": str(clone), "no_proxy": "*"}


def report(command: Command, clone: Path, environment: dict[str, str]) -> bool:
    """Run ``command`` in ``clone`` and print a line; more lines, and False, if it failed."""
    title = "a Python program" if command.program else command.text
    if reason := command.skip_reason():
        print(f"skip           {command.page}:{command.line}  {title}  ({reason})", flush=True)
        return True
    words = [sys.executable, "-c", command.text] if command.program else fewer(command.shortened())
    make_images(words, clone)
    make_weights(words, clone)
    begun = time.monotonic()
    status, said = run(words, clone, environment)
    good = status == 0 and "Traceback (most recent call last)" not in said
    word, taken = "ok" if good else "FAIL", time.monotonic() - begun
    print(f"{word:<5}{taken:7.1f} s  {command.page}:{command.line}  {title}", flush=True)
    if not good:
        print(f"      exit status {status}")
        print("".join(f"      {line}\n" for line in said.splitlines()[-8:]), end="", flush=True)
    return good


def run(words: list[str], folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    """(exit status, all output); a program that serves is stopped after a while, and has status 0 then."""
    serves = words[0] == "tensorboard"
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        process = subprocess.Popen(
            [*words, "--port", "0"] if serves else words,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(SERVES_S if serves else LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            status = 0 if serves else 124
        output.seek(0)
        return status, output.read()


def make_images(words: list[str], clone: Path) -> None:
    """Make the folder of images that a command names by ``data.root=`` or ``--root``, if there is none."""
    line = " ".join(words)
    named = re.search(r"(?:data\.root=|--root )([\w/.-]+)", line)
    if not named or not re.search("image_folder|experiment=cifar", line) or (clone / named.group(1)).exists():
        return
    draw = np.random.default_rng(0)
    for split, count in (("train", 60), ("test", 20)):
        for kind in ("bees", "cats", "dogs"):
            folder = clone / named.group(1) / split / kind
            folder.mkdir(parents=True)
            for number in range(count):
                pixels = draw.integers(0, 256, (32, 32, 3), np.uint8)
                Image.fromarray(pixels).save(folder / f"{number}.png")


def make_weights(words: list[str], clone: Path) -> None:
    """Make the file of weights that a command names by ``model.weights=`` if there is none, for timm."""
    network, weights = (
        next((word.removeprefix(key) for word in words if word.startswith(key)), "")
        for key in ("model=timm:", "model.weights=")
    )
    if not network or not weights.endswith(".safetensors") or (clone / weights).exists():
        return
    import timm
    from safetensors.torch import save_file

    save_file(timm.create_model(network).state_dict(), clone / weights)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
