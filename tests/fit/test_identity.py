"""The facts besides settings that a checkpoint must match, so that no run goes on as another."""

from dataclasses import replace

import pytest

from cnnpool.data import build


@pytest.fixture
def asked(runs, tmp_path):
    return lambda **options: runs.prepared(tmp_path, probes={}, **options).classifier.header["asked"]


def test_another_precision_other_images_or_a_callback_are_another_run(asked, monkeypatch):
    found = [asked(), asked(callbacks={"early_stopping": {"patience": 2}})]
    with monkeypatch.context() as patch:
        patch.setattr("cnnpool.training.data.build", lambda **options: replace(build(**options), sha256="0"))
        found.append(asked())
    monkeypatch.setattr("cnnpool.fit.trainer.fast_precision", lambda: "16-mixed")
    found.append(asked())
    assert all(one != other for i, one in enumerate(found) for other in found[:i])
