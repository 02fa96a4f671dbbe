import json
import logging

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from sklearn.metrics import balanced_accuracy_score, recall_score
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from cnnpool import data
from cnnpool.data.decode import FORMATS
from cnnpool.fit.classifier import score
from cnnpool.fit.scores import by_class, chance_warning, keys
from cnnpool.report import main as compare
from cnnpool.run_folder.results import read, unpacked


def test_a_case_worked_by_hand():
    correct = torch.tensor([True, False, True, True, False, False])
    found = by_class(correct, torch.tensor([0, 0, 0, 2, 2, 2]), ("a", "none", "c.d"))
    assert found == {"balanced_accuracy": 0.5, "class_accuracy": {"a": 2 / 3, "c_d": 1 / 3}}


def test_the_class_with_the_largest_share_is_the_correct_one():
    logits = torch.tensor([[3.0, 1.0, 0.0], [0.0, 1.0, 2.0]])
    shares = torch.tensor([[0.6, 0.4, 0.0], [0.0, 0.7, 0.3]])
    assert score(torch.tensor(1.5), logits, shares).tolist() == [1.5, 1.0, 2.0]
    assert score(torch.tensor(1.5), logits, torch.tensor([0, 2])).tolist() == [1.5, 2.0, 2.0]


@settings(max_examples=60)
@given(pairs=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=60))
def test_scores_are_those_of_scikit_learn(pairs):
    labels, answers = (torch.tensor(column) for column in zip(*pairs, strict=True))
    found = by_class(labels == answers, labels, "abcd")
    present = sorted(set(labels.tolist()))
    recall = recall_score(labels, answers, labels=present, average=None)
    assert list(found["class_accuracy"]) == ["abcd"[i] for i in present]
    assert list(found["class_accuracy"].values()) == pytest.approx(list(recall))
    # scikit-learn warns of answers that are no label, and of a single one.
    if set(answers.tolist()) <= set(present) and len(present) > 1:
        assert found["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(labels, answers))


@settings(max_examples=100)
@given(st.lists(st.text("ab./ (2)\n\x1b", max_size=6), unique=True, max_size=12))
def test_no_two_classes_share_a_key_and_no_key_has_parts(names):
    found = keys(names)
    assert len(set(found)) == len(names)
    assert all(key.isprintable() and "." not in key and "/" not in key for key in found)


def photographs(root, sizes):
    """Noisy images of a colour for each class: ``sizes`` of each, for training and test alike."""
    rng = np.random.default_rng(0)
    for part in ("train", "test"):
        for label, (name, size) in enumerate(sizes.items()):
            (root / part / name).mkdir(parents=True)
            for i in range(size):
                pixels = rng.integers(0, 200, (8, 8, 3), np.uint8)
                pixels[..., label % 3] += 40
                Image.fromarray(pixels).save(root / part / name / f"{i}.png")
    return root


def train(runs, root, out, operator="max"):
    images = {"name": "image_folder", "root": str(root), "skip_unreadable": True, "shift": 0}
    results, _ = runs.run(
        out, operator=operator, images=images, limit=None, batch_size=16, epochs=1, probes={}
    )
    return results, data.build(root=str(root), name="image_folder", skip_unreadable=True)


def test_a_run_on_own_images_reports_its_classes(runs, tmp_path, caplog, capsys):
    caplog.set_level(logging.INFO)
    root = photographs(tmp_path / "root", {"red": 30, "green.ish": 10, "blue": 20})
    (root / "train" / "red" / "z.png").write_bytes(b"no image")
    for operator in ("max", "avg"):
        out = tmp_path / "outputs" / operator / "seed0"
        results, dataset = train(runs, root, out, operator=operator)
    assert read(out) == results
    written = json.loads((out / "results.json").read_text())
    assert written["images"] == {
        "classes": ["blue", "green.ish", "red"], "train": [18, 9, 27], "val": [2, 1, 3],
        "test": [20, 10, 30],
        "skipped": {"train/red/z.png": f"not an image of {', '.join(FORMATS)}"}
    }  # fmt: skip
    right, labels = unpacked(results.correct), dataset.test.labels.numpy()
    expected = [right[labels == label].mean() for label in range(3)]
    test = written["test"]
    assert list(test["class_accuracy"].values()) == pytest.approx(expected)
    assert test["balanced_accuracy"] == pytest.approx(np.mean(expected))
    assert test["accuracy"] == pytest.approx(right.mean())
    assert f"test accuracy {100 * test['accuracy']:.2f} %" in caplog.text
    assert f"balanced accuracy {100 * test['balanced_accuracy']:.2f} %, from " in caplog.text
    scalars = EventAccumulator(str(out)).Reload()
    assert {f"test/class_accuracy/{key}" for key in ("blue", "green_ish", "red")} < set(
        scalars.Tags()["scalars"]
    )
    assert scalars.Scalars("test/balanced_accuracy")[0].value == pytest.approx(test["balanced_accuracy"])
    described = scalars.SummaryMetadata("test/class_accuracy/red").summary_description
    assert described.startswith("Test images of the class that are classified correctly")
    assert compare([str(tmp_path / "outputs"), "--metric", "test.balanced_accuracy"]) == 0
    assert "balanced accuracy" in capsys.readouterr().out
    page = (tmp_path / "outputs" / "report" / "report.md").read_text()
    assert "accuracy on green ish (%)" in page and "**balanced accuracy**: Mean over the classes" in page


def test_of_many_classes_a_report_has_no_columns(runs, tmp_path):
    root = photographs(tmp_path / "root", {f"c{i}": 2 for i in range(21)})
    results, _ = train(runs, root, tmp_path / "outputs" / "max" / "seed0")
    assert len(results.measured["test"]["class_accuracy"]) == 21
    assert compare([str(tmp_path / "outputs")]) == 0
    page = (tmp_path / "outputs" / "report" / "report.md").read_text()
    assert "accuracy on c" not in page and "balanced accuracy" in page


def test_what_chance_reaches_is_said():
    alike = [25, 25, 25, 25]
    # Two standard errors of a share of 1/4 of 100 images: 2 * sqrt(0.25 * 0.75 / 100) = 0.0866.
    for accuracy, counts in ((0.1, alike), (0.336, alike), (0.9, [90, 10])):
        text = chance_warning(accuracy, counts, 1500)
        assert f"accuracy {100 * accuracy:.1f} %" in text
        share = f"{100 * max(counts) / sum(counts):.1f} %"
        assert f"{share} by always predicting the commonest class, after 1,500 steps. Try a lower" in text
    for accuracy, counts in ((0.337, alike), (0.97, [90, 10]), (1.0, [100, 0]), (1.0, [7])):
        assert not chance_warning(accuracy, counts, 1)
