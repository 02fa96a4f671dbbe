import os
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from cnnpool import pool, readout
from cnnpool.probe import cost
from cnnpool.probe.arithmetic import Arithmetic


def counted(call):
    with torch.no_grad(), Arithmetic() as ours:
        result = call()
    with torch.no_grad(), FlopCounterMode(display=False) as torchs:
        expected = call()
    assert torch.equal(result, expected)
    return ours.total, torchs.get_total_flops()


@pytest.mark.parametrize("operator", ["max", "blur", "strided", "lip", "spectral", "lps", "conv_pool"])
def test_operators_take_what_torch_counts(operator):
    torch.manual_seed(0)
    module, x = pool.build(operator, 6).eval(), torch.randn(2, 6, 8, 8)
    ours, torchs = counted(lambda: module(x))
    assert ours == torchs


@pytest.mark.parametrize("name", ["gap", "attention", "clip_attention"])
def test_readouts_take_what_torch_counts(name):
    torch.manual_seed(0)
    module, x = readout.build(name, 8, (4, 4)).eval(), torch.randn(2, 8, 4, 4)
    ours, torchs = counted(lambda: module(x))
    assert ours == torchs


def test_products_by_hand():
    a, b = torch.randn(3, 5), torch.randn(5, 7)
    assert counted(lambda: a @ b) == (2 * 3 * 5 * 7,) * 2
    x, net = torch.randn(2, 3, 6, 6), nn.Conv2d(3, 4, 3)
    assert counted(lambda: net(x)) == (2 * 2 * 4 * 4 * 4 * 3 * 9,) * 2
    q = torch.randn(1, 2, 4, 8)
    ours, torchs = counted(lambda: F.scaled_dot_product_attention(q, q, q))
    assert ours == torchs


def test_the_cost_probe_counts_the_same_by_torchs_public_counter(monkeypatch):
    class Counter(FlopCounterMode):
        def __init__(self):
            super().__init__(display=False)

        total = property(FlopCounterMode.get_total_flops)

    torch.manual_seed(0)
    stage = pool.build("conv_pool", 4)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), stage, nn.Flatten(), nn.Linear(4 * 3 * 3, 5))
    counted = cost.flops(net, {"s1": stage}, torch.randn(1, 3, 8, 8))
    monkeypatch.setattr(cost, "Arithmetic", Counter)
    assert cost.flops(net, {"s1": stage}, torch.randn(1, 3, 8, 8)) == counted > 0


SAY = """
import sys, torch
from cnnpool.probe.arithmetic import Arithmetic
with Arithmetic() as counted:
    torch.nn.functional.conv2d(torch.zeros(1, 1, 4, 4), torch.zeros(1, 1, 3, 3))
print(counted.total, "torch._dynamo" in sys.modules)
"""


def test_counting_does_not_load_torchs_compiler():
    said = subprocess.run(
        [sys.executable, "-c", SAY], capture_output=True, text=True, check=True, env=os.environ
    )
    assert said.stdout.split() == [str(2 * 4 * 9), "False"]
