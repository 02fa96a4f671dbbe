"""A tiny net and a batch that the probes are tried on."""

import pytest
import torch
from small_nets import network


def build_net(operator="max", *, size=(12, 12), channels=1, border="zeros", backbone="convnet", **options):
    torch.manual_seed(0)
    net = network(backbone, channels, size, 4, operator, of_pool=options, width=3, padding_mode=border)
    for module in net.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            # Statistics of a net that has seen something.
            module.running_mean.uniform_(-0.1, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    return net


def build_batch(n=6, size=(12, 12), channels=1):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(n, channels, *size, generator=generator), torch.arange(n) % 4


@pytest.fixture(scope="session")
def net():
    return build_net


@pytest.fixture(scope="session")
def batch():
    return build_batch
