"""Which test images a model classified correctly: a bit an image, as text in results.json."""

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np


def packed(correct: np.ndarray) -> dict[str, Any]:
    """The record of ``correct``, (N,) booleans in the test set's order: N, and N bits in base64."""
    bits = np.packbits(correct.astype(bool)).tobytes()
    return {"images": len(correct), "bits": base64.b64encode(bits).decode("ascii")}


def unpacked(record: Mapping[str, Any]) -> np.ndarray:
    """The argument of :func:`packed`, from its record.

    Raises:
        ValueError: if the record is not one.
    """
    images, bits = record.get("images"), record.get("bits")
    if type(images) is not int or images < 0 or not isinstance(bits, str):
        raise ValueError("correct holds no images and bits")
    try:
        content = base64.b64decode(bits, validate=True)
    except ValueError:
        raise ValueError("correct.bits is not base64") from None
    if len(content) != -(-images // 8):
        raise ValueError(f"correct.bits holds {8 * len(content)} bits for {images} images")
    found = np.unpackbits(np.frombuffer(content, np.uint8))
    if found[images:].any():
        raise ValueError(f"correct.bits counts more than {images} images")
    return found[:images].astype(bool)
