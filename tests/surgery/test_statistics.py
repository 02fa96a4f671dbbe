"""Statistics of batch normalisation that are measured anew, by hand and after a swap."""

import copy

import pytest
import torch
from torch import nn

from cnnpool import swap
from cnnpool.surgery.statistics import recalibrate


def test_statistics_are_the_mean_over_batches_and_nothing_else_changes():
    norm = nn.BatchNorm1d(2, momentum=0.3)
    model = nn.Sequential(norm, nn.Dropout(), nn.Linear(2, 2)).eval()
    norm.running_mean += 9
    before, drawn = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    batches = [torch.tensor([[0.0, 2.0], [2.0, 6.0]]), torch.tensor([[4.0, 1.0], [4.0, 1.0]])]
    recalibrate(model, [(batches[0], None), batches[1]])
    assert norm.running_mean.tolist() == [2.5, 2.5] and norm.running_var.tolist() == [1.0, 4.0]
    assert not any(module.training for module in model.modules()) and norm.momentum == 0.3
    assert torch.equal(torch.get_rng_state(), drawn)
    same = [key for key, value in model.state_dict().items() if torch.equal(value, before[key])]
    assert same == ["0.weight", "0.bias", "2.weight", "2.bias"]


def test_a_swapped_network_has_the_statistics_of_its_own_maps():
    images = torch.randn(100, 3, 16, 16)
    model = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.BatchNorm2d(4), nn.ReLU())
    recalibrate(model, images.split(64))
    former = model[1].running_var.clone()
    swap(model, "blur", example=images[:1], recalibrate=images)
    with torch.no_grad():
        maps = [model[0](part).transpose(0, 1).flatten(1) for part in images.split(64)]
    assert torch.allclose(model[1].running_var, (maps[0].var(1) + maps[1].var(1)) / 2, rtol=1e-4)
    # A blur of noise has less variance.
    assert (model[1].running_var < 0.6 * former).all()


def test_a_network_without_statistics_is_refused():
    for model in (nn.Conv2d(3, 4, 3), nn.BatchNorm2d(3, track_running_stats=False)):
        with pytest.raises(ValueError, match="no batch normalisation whose statistics"):
            recalibrate(model, [torch.zeros(2, 3, 8, 8)])
