"""Readouts in graphs for other runtimes: torch.export for maps of any size, ONNX, torch.jit.trace."""

import pytest
import torch
from graphs import ANY, BATCH, COUNTS, SHAPES, exported, onnx, traced
from torch.testing import assert_close

from cnnpool.readout import READOUTS, build

FAMILIES = ("clip_attention", "gem", "gmp", "pyramid", "simpool")


def made(stem):
    torch.manual_seed(0)
    return build(stem, 4, (8, 8)).eval()


def agrees(graph, readout):
    for shape in SHAPES if readout.any_size else COUNTS:
        x = torch.randn(shape)
        with torch.no_grad():
            assert_close(graph(x), readout(x), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", READOUTS)
def test_one_graph_serves_every_size(name):
    readout = made(name)
    agrees(exported(readout, ANY if readout.any_size else BATCH).module(), readout)
    agrees(traced(readout), readout)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_onnx_runtime_computes_the_same_at_every_size(name):
    readout = made(name)
    agrees(onnx(readout, ANY if readout.any_size else BATCH)[1], readout)
