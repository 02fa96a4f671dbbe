"""Flattening against torch's layers."""

import torch
from torch import nn
from torch.testing import assert_close

from cnnpool.readout import Flatten


def test_it_is_the_textbook_layer_with_its_columns_reordered():
    readout, x = Flatten(3, (4, 5), hidden=7).double(), torch.randn(2, 3, 4, 5).double()
    textbook = nn.Sequential(nn.Flatten(), nn.Linear(60, 7), nn.ReLU()).double()
    with torch.no_grad():
        weight = readout.layer[0].weight.unflatten(1, (4, 5, 3)).permute(0, 3, 1, 2)
        textbook[1].weight.copy_(weight.flatten(1))
        textbook[1].bias.copy_(readout.layer[0].bias)
    assert_close(readout(x), textbook(x))


def test_without_a_layer_it_is_the_entries_in_channels_last_order():
    x = torch.arange(12.0).reshape(1, 2, 2, 3)
    readout = Flatten(2, (2, 3), hidden=0)
    assert readout.out_features == 12 and not list(readout.parameters())
    assert readout(x).tolist() == [[0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11]]


def test_channels_last_maps_are_not_copied_but_read_in_place():
    x = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    readout = Flatten(3, (4, 5))
    seen = []
    readout.layer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].data_ptr()))
    readout(x)
    assert seen == [x.data_ptr()]


def test_weights_are_hwc_per_hidden_unit():
    assert sum(p.numel() for p in Flatten(64, (7, 7)).parameters()) == 7 * 7 * 64 * 128 + 128
