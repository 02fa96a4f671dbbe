"""The suite of memory: a run on a folder of photographs that need more memory than it may take."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scripts.benchmarks.figures import Wanted, row
from scripts.benchmarks.images import photo, write_photos
from scripts.benchmarks.start import environment

SIZE = 224
DISTINCT = 600
"""Different photographs; the others are further names of these files, decoded like files of their own."""
TEST = 64
MOST_MIB = 2048
"""Memory that a whole run may take."""
MIB = 1 << 20
WATCH = """
import resource
import subprocess
import sys

status = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(status)
"""
"""A small process between, since a process counts in its own what its parent had when it began."""
PROGRAM = ["-m", "cnnpool", "train"]
NETWORK = "mobilenet_v3_small"
TRAIN = ["data=image_folder", f"data.size={SIZE}", "data.stream=true", f"data.val_size={TEST}"]
TRAIN += ["data.batch_size=16", "fit.max_steps=20", "pool=max_blur"]
TRAIN += [f"model=torchvision:{NETWORK}"]


def rows(images: int, repeat: int) -> Iterator[dict[str, Any]]:
    """Peak memory of whole runs: the first of a turn decodes the photographs, the second finds them so."""
    pixels = images * SIZE * SIZE * 3 / MIB
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "photos")
        photos = [photo(seed, (SIZE, SIZE), (16,)) for seed in range(DISTINCT)]
        write_photos(root, images, TEST, photos, classes=10)
        peaks: dict[str, list[float]] = {}
        for turn in range(repeat):
            for file in root.glob(".cnnpool-cache/*"):
                file.unlink()
            for found in ("decoding them", "decoded before"):
                title = f"{NETWORK} on {images:,} photographs, {found}: peak memory"
                run = [f"data.root={root}", f"out={found.split()[0]}{turn}"]
                peaks.setdefault(title, []).append(peak([*TRAIN, *run], Path(folder)))
    for title, ours in peaks.items():
        wanted = Wanted(MOST_MIB, most=True, unit="MiB")
        yield row(title, "MiB", ours, [pixels] * repeat, "the pixels alone", wanted)


def peak(arguments: list[str], folder: Path) -> float:
    """MiB that ``cnnpool train`` held at most, code and libraries included."""
    watched = [sys.executable, "-c", WATCH, sys.executable, *PROGRAM, *arguments]
    done = subprocess.run(watched, cwd=folder, env=environment(), check=True, stdout=subprocess.PIPE)
    # Linux counts in KiB.
    return int(done.stdout) * 1024 / MIB
