"""Operators in graphs for other runtimes: torch.export for maps of any size, ONNX, torch.jit.trace."""

import logging
import warnings

import pytest
import torch
from torch import nn
from torch.export import Dim, export
from torch.testing import assert_close

from cnnpool.pool import OPERATORS, BlurPool2d, MaxBlurPool2d, MaxPool2d

ANY = dict.fromkeys((0, 2, 3), Dim.DYNAMIC)
SHAPES = ((3, 4, 10, 12), (1, 4, 9, 7), (2, 4, 32, 16))
EVEN = (SHAPES[0], SHAPES[2])
EVERY_SIZE = [stem for stem in OPERATORS if OPERATORS[stem].exports == "any size"]
EVEN_SIZE = [stem for stem in OPERATORS if OPERATORS[stem].exports == "multiples of the stride"]
STANDARD = {
    "max": (MaxPool2d(4), ["max_pool2d"]),
    "max, ties split": (MaxPool2d(4, kernel_size=3, padding=1, ties="split"), ["max_pool2d"]),
    "avg": (OPERATORS["avg"](4), ["avg_pool2d"]),
    "blur": (BlurPool2d(4), ["pad", "conv2d"]),
    "max_blur": (MaxBlurPool2d(4), ["max_pool2d", "pad", "conv2d"]),
}
ARITHMETIC = ("max_pool2d", "avg_pool2d", "pad", "conv2d", "mul", "add", "cat", "gather", "sum")


def exported(operator):
    with warnings.catch_warnings():
        # torch's own, of its own code.
        warnings.simplefilter("ignore")
        return export(operator, (torch.randn(2, 4, 8, 8),), dynamic_shapes=(ANY,))


def made(stem):
    torch.manual_seed(0)
    return OPERATORS[stem](4).eval()


@pytest.mark.parametrize("case", STANDARD)
def test_an_operator_with_a_standard_equivalent_is_that_in_the_graph(case):
    operator, expected = STANDARD[case]
    nodes = [
        str(node.target).split(".")[1]
        for node in exported(operator.eval()).graph.nodes
        if node.op == "call_function" and "." in str(node.target)
    ]
    assert [name for name in nodes if name in ARITHMETIC] == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY_SIZE + EVEN_SIZE)
def test_one_graph_serves_maps_of_any_size(name):
    operator = made(name)
    graph = exported(operator).module()
    for shape in SHAPES if name in EVERY_SIZE else EVEN:
        x = torch.randn(shape)
        assert_close(graph(x), operator(x), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({*OPERATORS} - {*EVERY_SIZE} - {*EVEN_SIZE}))
def test_a_graph_of_one_size_serves_any_batch(name):
    operator = made(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = export(operator, (torch.randn(2, 4, 8, 8),), dynamic_shapes=({0: Dim.DYNAMIC},)).module()
    for count in (1, 3):
        x = torch.randn(count, 4, 8, 8)
        assert_close(graph(x), operator(x), rtol=1e-4, atol=1e-5)


ONNX = ["avg", "blur", "max", "max_blur", "strided", "subsample"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ONNX)
def test_onnx_runtime_computes_the_same(name):
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    operator = made(name)
    # The exporter says its steps on the log.
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            operator, (torch.randn(2, 4, 8, 8),), dynamo=True, dynamic_shapes=(ANY,), verbose=False
        )
    session = runtime.InferenceSession(program.model_proto.SerializeToString())
    for shape in SHAPES:
        x = torch.randn(shape)
        (found,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
        assert_close(torch.from_numpy(found), operator(x).detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["max", "avg", "blur", "max_blur", "lp", "soft"])
def test_a_trace_computes_the_same(name):
    operator = made(name)
    with warnings.catch_warnings():
        # Of sizes that a trace keeps, and of tracing as such.
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(nn.Sequential(operator), torch.randn(2, 4, 8, 8), check_trace=False)
    x = torch.randn(3, 4, 8, 8)
    assert_close(traced(x), operator(x), rtol=1e-4, atol=1e-5)
