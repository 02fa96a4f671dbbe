"""Measure what recompression does to images: its error, and how much of it a filter before stride 2 removes.

usage: python scripts/docs/jpeg_error.py EXACT RECOMPRESSED

Both are folders with a folder of images for each class, all of one size; each exact image is compared with
the nearest recompressed one of its class.
"""

import sys
from pathlib import Path

import numpy as np
from PIL import Image

HALF = 0.25
"""Half of the Nyquist frequency, in cycles per pixel: what stride 2 can hold."""


def main(exact: Path, recompressed: Path) -> int:
    """Print number of images, root mean square error and share of its energy above ``HALF``."""
    errors = [
        error for folder in sorted(exact.iterdir()) for error in _errors(folder, recompressed / folder.name)
    ]
    rms = np.sqrt(np.mean([np.mean(error**2) for error in errors]))
    energy = [np.sum(error**2) for error in errors]
    share = np.average([high_share(error) for error in errors], weights=energy)
    said = f"RMSE {rms:.2f} of 255, {100 * share:.1f} % of its energy above half of Nyquist"
    print(f"{len(errors)} images, {said}")
    return 0


def high_share(error: np.ndarray) -> float:
    """Energy at frequencies above ``HALF`` along either axis, divided by all; ``error`` is (H, W, C)."""
    power = (np.abs(np.fft.fft2(error, axes=(0, 1))) ** 2).sum(2)
    down, across = (np.abs(np.fft.fftfreq(n)) for n in error.shape[:2])
    return float(power[np.maximum.outer(down, across) > HALF].sum() / power.sum())


def _errors(exact: Path, recompressed: Path) -> list[np.ndarray]:
    candidates = np.stack([_pixels(path) for path in sorted(recompressed.iterdir())])
    flat = candidates.reshape(len(candidates), -1)
    squares = (flat**2).sum(1)
    found = []
    for path in sorted(exact.iterdir()):
        image = _pixels(path)
        found.append(image - candidates[(squares - 2 * flat @ image.ravel()).argmin()])
    return found


def _pixels(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"), np.float32)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
