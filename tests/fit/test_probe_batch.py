"""The images that probes look at during training: no more than one of them needs."""

import torch

from cnnpool import data
from cnnpool.fit.probe_batch import SAMPLES, looked_at, sample
from cnnpool.probe import GradientRouting, Probe, ShiftInvariance


class Bare(Probe):
    section = "bare"

    def read(self, model, stages, batch):
        return {}


def test_the_most_images_that_a_probe_counts_or_all():
    gradient, invariance = (
        GradientRouting(samples=7),
        ShiftInvariance(samples=9, stage_samples=3, map_samples=11),
    )
    assert looked_at([]) == 1
    assert looked_at([gradient]) == 7
    assert looked_at([gradient, ShiftInvariance(shift_samples=600)]) == 600
    assert looked_at([gradient, invariance]) == 512
    assert looked_at([gradient, Bare()]) == SAMPLES


def test_fewer_images_are_the_first_of_more():
    digits = data.build("digits", root="data", seed=0)
    few, many = sample(digits, digits.val, 5), sample(digits, digits.val)
    assert few.images.shape[0] == 5 < len(many.images)
    assert torch.equal(few.images, many.images[:5]) and torch.equal(few.labels, many.labels[:5])
