"""Data that are missing, damaged, or hostile."""

import os

from scripts.reliability.fault.attempt import Fault
from scripts.reliability.fault.setting import images, without_network_or_proxy, write

DATA = [
    Fault(
        "no data, no download",
        "train data=mnist data.download=false data.root=none",
        ("none/MNIST", "data.root=FOLDER"),
    ),
    Fault(
        "no data, no network",
        "train data=mnist data.root=none",
        ("none/MNIST", "by hand"),
        before=without_network_or_proxy,
    ),
    Fault(
        "random bytes for a packed file",
        "train data=mnist data.download=false data.root=none",
        ("none/MNIST/raw", "set data.download=true"),
        before=write("none/MNIST/raw/train-images-idx3-ubyte.gz", os.urandom(1000)),
    ),
    Fault(
        "an image cut short",
        "train data=image_folder data.root=photos",
        ("bee/3.png", "remove it"),
        before=images(lambda path: path.write_bytes(path.read_bytes()[:60])),
    ),
    Fault(
        "a class without training images",
        "train data=image_folder data.root=photos",
        ("photos/test/bee", "photos/train lacks", "remove it"),
        before=images(lambda path: path.parent.rename(path.parents[2] / "test" / "cow")),
    ),
    Fault(
        "a class missing from the training images",
        "train hydra.run.dir=here data.limit=3",
        (),
        0,
        lines=0,
        out=("no train image of",),
    ),
]
