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


class Counting(nn.InstanceNorm2d):
    """Makes its count anew at each batch, and another buffer longer, as observers of quantisation do."""

    def __init__(self):
        super().__init__(3, track_running_stats=True)
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("seen", torch.zeros(0))
        # As kernels of blurs are, which cannot be written.
        self.register_buffer("repeated", torch.ones(1).expand(3))

    def forward(self, x):
        self.count = self.count + 1
        self.seen.resize_(3).copy_(x.mean((0, 2, 3)))
        return super().forward(x)


def test_buffers_of_other_layers_stay_as_they_were():
    conv = nn.utils.parametrizations.spectral_norm(nn.Conv2d(3, 3, 3))
    model = nn.Sequential(conv, Counting(), nn.BatchNorm2d(3)).eval()
    before, objects = copy.deepcopy(model.state_dict()), list(model.buffers())
    recalibrate(model, [torch.randn(4, 3, 8, 8)])
    changed = [key for key, value in model.state_dict().items() if not torch.equal(value, before[key])]
    assert changed == ["2.running_mean", "2.running_var", "2.num_batches_tracked"]
    assert all(one is other for one, other in zip(model.buffers(), objects, strict=True))


def test_a_swapped_network_has_the_statistics_of_its_own_maps():
    images = torch.randn(100, 3, 16, 16)
    model = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.BatchNorm2d(4), nn.ReLU())
    recalibrate(model, images.split(50))
    former = model[1].running_var.clone()
    swap(model, "blur", example=images[:1], recalibrate=images)
    with torch.no_grad():
        maps = [model[0](part).transpose(0, 1).flatten(1) for part in images.split(50)]
    assert torch.allclose(model[1].running_var, (maps[0].var(1) + maps[1].var(1)) / 2, rtol=1e-4)
    # A blur of noise has less variance.
    assert (model[1].running_var < 0.6 * former).all()


def test_the_last_images_weigh_hardly_more_than_the_first():
    images = torch.zeros(65, 1, 4, 4)
    images[64] = 1
    model = nn.Sequential(nn.MaxPool2d(2), nn.BatchNorm2d(1))
    swap(model, "avg", example=images[:1], recalibrate=images)
    # Of 33 black images, then of 31 and the white one.
    assert model[1].running_mean.item() == 1 / 64
    # A network without parameters has statistics too.
    model = nn.Sequential(nn.BatchNorm2d(1, affine=False), nn.MaxPool2d(2))
    swap(model, "avg", example=images[:1], recalibrate=images)
    assert model[0].running_mean.item() == 1 / 64


@pytest.mark.parametrize(("images", "message"), [
    (torch.ones(1, 3, 6, 6), "more than 1 value per channel"),
    (torch.ones(2, 3, 1, 1), "Kernel size"),
    (torch.ones(2, 3, 6, 6).half(), r"does not run on images \(2, 3, 6, 6\) of torch.float16: "),
    (torch.ones(0, 3, 6, 6), r"must be a tensor of images .* got \(0, 3, 6, 6\)"),
    ([torch.ones(2, 3, 6, 6)], "must be a tensor of images .* got a list"),
])  # fmt: skip
def test_a_refused_recalibration_leaves_the_network_as_it_was(images, message):
    norms = nn.BatchNorm2d(3), nn.BatchNorm2d(4, momentum=0.3)
    model = nn.Sequential(norms[0], nn.Conv2d(3, 4, 3), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), norms[1])
    model[0].eval()
    before, shown, modes = copy.deepcopy(model.state_dict()), repr(model), [m.training for m in model]
    with pytest.raises(ValueError, match=message):
        swap(model, "blur", example=torch.zeros(1, 3, 6, 6), recalibrate=images)
    assert repr(model) == shown and [module.training for module in model] == modes
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_a_network_without_statistics_is_refused_and_not_swapped():
    for model in (nn.Conv2d(3, 4, 3), nn.BatchNorm2d(3, track_running_stats=False)):
        with pytest.raises(ValueError, match="no batch normalisation whose statistics"):
            recalibrate(model, [torch.zeros(2, 3, 8, 8)])
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.MaxPool2d(2))
    with pytest.raises(ValueError, match="no batch normalisation"):
        swap(model, "blur", example=torch.zeros(1, 3, 8, 8), recalibrate=torch.zeros(2, 3, 8, 8))
    assert isinstance(model[1], nn.MaxPool2d)
