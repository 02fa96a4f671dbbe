"""Run folders with known numbers, as training leaves them."""

import json
from pathlib import Path

import pytest


def results(pool="max", seed=0, accuracy=0.9, **changes):
    """A results.json of schema 1; ``changes`` replace top-level entries."""
    pool = {"name": pool, "kernel_size": 2, "stride": 2} if isinstance(pool, str) else pool
    full = {
        "schema": 1,
        "run": f"{pool['name']}/seed{seed}",
        "deterministic": True,
        "data_sha256": "0123456789abcdef" * 4,
        "pool": pool,
        "stages": {"s1": pool, "s2": pool},
        "readout": {"name": "flatten"},
        "model": {"name": "convnet", "width": 24},
        "data": {"name": "digits", "batch_size": 128, "root": f"/tmp/{seed}"},
        "fit": {"epochs": 5, "optimizer": "adamw", "lr": 0.01},
        "seed": seed,
        "epochs": 5,
        "finished": f"2026-11-21T10:00:{seed:02d}Z",
        "test": {"accuracy": accuracy, "loss": 1 - accuracy},
        "val": {"accuracy": accuracy, "loss": 1 - accuracy},
        "gradient": {
            "s1": {"zero_fraction": 0.7, "coverage": 0.9, "tied_windows": 0.1},
            "s2": {"zero_fraction": 0.8, "coverage": 0.8, "tied_windows": 0.2},
        },
        "invariance": {
            "consistency": {"distinct": 0.95},
            "consistency_given_correct": 0.97,
            "worst_shift_accuracy": accuracy - 0.1,
            "stages": {
                "s1": {"relative_change": {"1": 0.2, "2": 0.3, "3": 0.35, "4": 0.4}},
                "s2": {"relative_change": {"1": 0.1, "2": 0.2, "3": 0.25, "4": 0.3}},
            },
        },
        "cost": {
            "parameters": 61706,
            "flops": 1_250_000,
            "saved_bytes": 123_456,
            "train_images_per_s": 12_300.0,
            "wall_s": 12.5,
        },
        "environment": {
            "python": "3.11",
            "torch": "2.15",
            "cnnpool": "0.1.0",
            "commit": "abc1234",
            "dirty": False,
            "device": "cpu",
            "threads": 2,
        },
        "asked": {"probe": {"invariance": {"worst_px": 1, "seed": 0, "every_epochs": 0}}},
        "overrides": [f"pool={pool['name']}", f"seed={seed}"],
    }
    return full | changes


class Shelf:
    """A folder that runs are put on."""

    def __init__(self, root: Path):
        self.root = root

    def put(self, folder=None, *, logged=3, **options):
        """A finished run with its metrics.jsonl; returns its folder."""
        content = results(**options)
        path = self.root / (folder or content["run"])
        path.mkdir(parents=True)
        (path / "results.json").write_text(json.dumps(content))
        accuracy = content["test"].get("accuracy") or 0.5
        lines = [
            {"step": 10 * (epoch + 1), "epoch": epoch, "val/accuracy": accuracy * (1 - 0.5 ** (epoch + 2))}
            for epoch in range(logged)
        ]
        (path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        return path

    def sweep(self, **pools):
        """A run per pool and seed: ``max=[0.9, 0.91]`` are the accuracies of seeds 0 and 1."""
        for pool, accuracies in pools.items():
            for seed, accuracy in enumerate(accuracies):
                self.put(pool=pool, seed=seed, accuracy=accuracy)
        return self


@pytest.fixture(scope="session")
def new_shelf():
    """Shelf itself: test modules cannot import from here."""
    return Shelf


@pytest.fixture
def shelf(tmp_path):
    return Shelf(tmp_path / "outputs")
