"""Fashion-MNIST, in MNIST's file format."""

from dataclasses import dataclass
from typing import ClassVar

from cnnpool.data.mnist import MNIST


@dataclass(frozen=True, kw_only=True)
class FashionMNIST(MNIST):
    """Pieces of clothing, 60,000 and 10,000 grey images of 28x28 (Xiao 2017, arXiv:1708.07747).

    Reads ``<root>/FashionMNIST/raw`` as MNIST does; unpacked files are checked by their form only.
    """

    title: ClassVar[str] = "FashionMNIST"
    folder: ClassVar[str] = "FashionMNIST/raw"
    mirrors: ClassVar[tuple[str, ...]] = ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",)
    classes: ClassVar[tuple[str, ...]] = (
        "t_shirt",
        "trouser",
        "pullover",
        "dress",
        "coat",
        "sandal",
        "shirt",
        "sneaker",
        "bag",
        "ankle_boot",
    )
    md5: ClassVar[dict[str, str]] = {
        "train-images-idx3-ubyte": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "train-labels-idx1-ubyte": "25c81989df183df01b3e8a0aad5dffbe",
        "t10k-images-idx3-ubyte": "bef4ecab320f06d8554ea6380940ec79",
        "t10k-labels-idx1-ubyte": "bb300cfdad3c16e7a12a480ee83cd310",
    }
    sha256: ClassVar[str | None] = None
