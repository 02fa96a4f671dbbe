"""Training on a data set of torchvision from the command line."""

import json
from pathlib import Path

import numpy as np


def letters(root):
    for part, count in (("train", 104), ("test", 52)):
        images = np.random.default_rng(count).integers(0, 256, (count, 28, 28), dtype=np.uint8)
        for kind, array in (("images-idx3", images), ("labels-idx1", np.arange(count) % 26 + 1)):
            path = root / "EMNIST" / "raw" / f"emnist-letters-{part}-{kind}-ubyte"
            path.parent.mkdir(parents=True, exist_ok=True)
            head = bytes((0, 0, 8, array.ndim)) + b"".join(n.to_bytes(4, "big") for n in array.shape)
            path.write_bytes(head + array.astype(np.uint8).tobytes())


def test_a_run_on_it_records_data_set_and_classes_and_is_known_again(call, tmp_path):
    letters(tmp_path / "data")
    asked = ["train", *call.quick, "data=torchvision:EMNIST", "data.variant=letters"]
    status, out, err = call(*asked)
    assert (status, err) == (0, "") and "EMNIST-letters of torchvision" in out
    folder = Path("outputs/torchvision-EMNIST/convnet")
    (path,) = folder.rglob("results.json")
    found = json.loads(path.read_text())
    assert (found["data"]["name"], found["data"]["dataset"]) == ("torchvision", "EMNIST")
    assert found["images"]["classes"] == list("abcdefghijklmnopqrstuvwxyz")
    assert "is finished already" in call(*asked)[1]


def test_mistakes_in_its_name_are_one_line(call):
    for words, said in (
        (["data=torchvision"], "data.dataset"),
        (["data=torchvision:EMIST"], "did you mean 'EMNIST'?"),
        (["data=torchvision:KMNIST", "data.download=false"], "cannot read KMNIST of torchvision"),
    ):
        status, _, err = call("train", *words)
        assert status == 2 and said in err and err.count("\n") == 1
