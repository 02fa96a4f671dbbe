"""The embedded digits: real data with no download.

``digits.csv.gz`` beside this file is an exact copy of scikit-learn's (BSD 3-Clause): the test part of UCI's
"Optical Recognition of Handwritten Digits" (E. Alpaydin and C. Kaynak, 1998; CC BY 4.0), one image per row:
64 values 0..16 and the digit.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
import torch
from annotated_types import Ge, Le

from cnnpool.data.base import Raw, Source, ValSize, from_pixels
from cnnpool.data.draws import stratified

TABLE = Path(__file__).with_name("digits.csv.gz")


@dataclass(frozen=True, kw_only=True)
class Digits(Source):
    """1,797 handwritten digits of 8x8 pixels in 17 greys (Alpaydin and Kaynak 1998, UCI), enlarged to 28x28.

    There is no official split: 360 fixed images, stratified by class, are the test images. The same people
    wrote both parts, so accuracies are not comparable with published figures. ``root`` and ``download`` are
    accepted but not needed.

    Args:
        size: H and W, 8 to 512.
    """

    val_size: ValSize = 0.15
    size: Annotated[int, Ge(8), Le(512)] = 28

    by_class: ClassVar[bool] = False
    test_size: ClassVar[int] = 360

    def read(self) -> Raw:
        table = np.loadtxt(TABLE, delimiter=",", dtype=np.int64)
        pixels = enlarge(table[:, :64].reshape(-1, 8, 8), self.size)[..., None]
        labels = torch.from_numpy(table[:, 64])
        whole = from_pixels(pixels, labels)
        order = stratified(labels, seed=0)
        test, train = order[: self.test_size].sort().values, order[self.test_size :].sort().values
        return Raw(tuple("0123456789"), whole.take(train), whole.take(test))


def enlarge(images: np.ndarray, size: int) -> np.ndarray:
    """Bilinear resizing of (N, n, n) images of values 0..16 to (N, size, size) of 0..255; halves round up.

    As ``interpolate(mode="bilinear", align_corners=False)``, in integers: weights are multiples of
    1/(2 size), so the sums are exact on every machine.
    """
    n, unit = images.shape[-1], 2 * size
    position = np.clip((2 * np.arange(size) + 1) * n - size, 0, (n - 1) * unit)
    low, part = np.divmod(position, unit)
    weights = np.zeros((size, n), np.int64)
    weights[np.arange(size), low] = unit - part
    weights[np.arange(size), np.minimum(low + 1, n - 1)] += part
    whole = 16 * unit**2
    return ((weights @ images.astype(np.int64) @ weights.T * 510 + whole) // (2 * whole)).astype(np.uint8)
