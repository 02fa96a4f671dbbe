"""A published network in a run: trained a few steps, cut, resumed to the bit, measured."""

import pytest

from cnnpool.fit.checkpoints import Checkpoints

FEW = {
    "gradient": {"samples": 4},
    "invariance": {"samples": 4, "stage_samples": 2, "max_shift_px": 1, "worst_px": 0},
    "cost": {"samples": 2, "timed_samples": 2, "repeats": 1},
}


def options(operator):
    model = {"name": "torchvision", "arch": "mobilenet_v3_small"}
    return {
        **{"operator": operator, "model": model, "readout": "keep", "probes": FEW, "limit": 40},
        **{"images": {"size": 32, "shift": 0}, "batch_size": 2, "epochs": 1, "max_steps": 4},
        "checkpoint_every_minutes": 0.0,
    }


@pytest.mark.slow
def test_a_published_network_cut_within_an_epoch_goes_on_to_the_same_bits(runs, tmp_path, monkeypatch):
    kept, whole, cut = Checkpoints.on_train_batch_end, tmp_path / "whole", tmp_path / "cut"
    _, net = runs.run(whole, **options("strided"))

    def power_cut(self, trainer, module, *rest):
        kept(self, trainer, module, *rest)
        if module.steps == 2:
            raise RuntimeError("power cut")

    with monkeypatch.context() as failing, pytest.raises(RuntimeError, match="power cut"):
        failing.setattr(Checkpoints, "on_train_batch_end", power_cut)
        runs.run(cut, **options("strided"))
    _, again = runs.run(cut, **options("strided"))
    assert runs.same(net, again)
    assert runs.metrics(whole) == runs.metrics(cut)
    assert runs.results(whole) == runs.results(cut)
    # The first stage is the stem's convolution, or what stands behind it.
    assert runs.results(whole)["gradient"].keys() == net.stages.keys()
