"""The suite of memory: a run on a folder of photographs that need more memory than it may take."""

import io
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from PIL import Image

from cnnpool.bench.measure import ratio
from scripts.benchmarks.figures import Wanted, row
from scripts.benchmarks.start import environment

SIZE = 224
DISTINCT = 600
"""Different photographs; the others are further names of these files, decoded like files of their own."""
TEST = 64
CLASSES = 10
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
        write_photos(root, images)
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
        figures = ratio(ours, [pixels] * repeat)
        yield row(title, "MiB", median(ours), pixels, "the pixels alone", figures, wanted)


def write_photos(root: Path, images: int) -> None:
    """JPEG files in ``CLASSES`` classes of ``train/``, and ``TEST`` of ``test/``."""
    generator = np.random.default_rng(0)
    for part, files in (("train", images), ("test", TEST)):
        distinct = []
        for i in range(files):
            path = root / part / f"class{i % CLASSES}" / f"{i}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            if i < DISTINCT:
                path.write_bytes(_photo(generator))
                distinct.append(path)
            else:
                path.hardlink_to(distinct[i % DISTINCT])


def _photo(generator: np.random.Generator) -> bytes:
    coarse = Image.fromarray(generator.integers(0, 256, (16, 16, 3), dtype=np.uint8))
    file = io.BytesIO()
    coarse.resize((SIZE, SIZE), Image.Resampling.BICUBIC).save(file, "JPEG", quality=85)
    return file.getvalue()


def peak(arguments: list[str], folder: Path) -> float:
    """MiB that ``cnnpool train`` held at most, code and libraries included."""
    watched = [sys.executable, "-c", WATCH, sys.executable, *PROGRAM, *arguments]
    done = subprocess.run(watched, cwd=folder, env=environment(), check=True, stdout=subprocess.PIPE)
    # Linux counts in KiB.
    return int(done.stdout) * 1024 / MIB
