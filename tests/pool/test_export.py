"""Operators in graphs for other runtimes: torch.export for maps of any size, ONNX, torch.jit.trace."""

import pytest
import torch
from graphs import ANY, BATCH, COUNTS, SHAPES, exported, onnx, traced
from torch.testing import assert_close

from cnnpool.pool import OPERATORS, BlurPool2d, MaxBlurPool2d, MaxPool2d, build

STANDARD = {
    "max": (MaxPool2d(4), ["max_pool2d"]), "avg": (OPERATORS["avg"](4), ["avg_pool2d"]),
    "sum": (OPERATORS["sum"](4), ["avg_pool2d", "mul"]), "blur": (BlurPool2d(4), ["pad", "conv2d"]),
    "max_blur": (MaxBlurPool2d(4), ["max_pool2d", "pad", "conv2d"]),
    "strided": (OPERATORS["strided"](4), ["conv2d"]), "subsample": (OPERATORS["subsample"](4), [])
}  # fmt: skip
ARITHMETIC = ("max_pool2d", "avg_pool2d", "pad", "conv2d", "mul", "add", "cat", "gather", "sum")
OF_ONNX = {"max": ["MaxPool"], "avg": ["AveragePool"], "blur": ["Pad", "Conv"], "strided": ["Conv", "Relu"]}
# Options that change the arithmetic.
OPTIONS = {
    "avg": {"kernel_size": 3, "padding": 1, "ceil_mode": True, "divisor_override": 5},
    "adaptive_max": {"stride": (3, 1)},
    "aps": {"stride": 3, "filter_size": 3, "p": 1.0},
    "blur": {"padding_mode": "circular", "filter_size": 5, "stride": 3},
    "fractional_max": {"stride": 1.414, "overlapping": False},
    "wavelet": {"order": 3, "edges": "symmetric"},
}
# One for each way in which a graph can be made; an export takes seconds.
OF_RUNTIME = ("adaptive_avg", "max_blur", "spectral", "aps", "blur", "fractional_max", "wavelet")
HALF = {
    "aps": torch.float16, "soft": torch.bfloat16, "spectral": torch.bfloat16, "wavelet": torch.float16
}  # fmt: skip


def made(stem, **options):
    torch.manual_seed(0)
    return build(stem, 4, **options).eval()


def varying(stem):
    """The axes that one graph leaves open, and shapes to ask it for, by what docs/operators.md says."""
    return (ANY, SHAPES) if OPERATORS[stem].exports == "any size" else (BATCH, COUNTS)


def agrees(graph, operator, shapes, rtol=1e-4, atol=1e-5, dtype=torch.float32):
    for shape in shapes:
        x = torch.randn(shape).to(dtype)
        with torch.no_grad():
            assert_close(graph(x), operator(x), rtol=rtol, atol=atol)


def test_an_operator_with_a_standard_equivalent_is_that_in_the_graph():
    for case, (operator, expected) in STANDARD.items():
        nodes = [
            str(node.target).split(".")[1]
            for node in exported(operator.eval()).graph.nodes
            if node.op == "call_function" and "." in str(node.target)
        ]
        assert [name for name in nodes if name in ARITHMETIC] == expected, case


def test_an_operator_with_a_standard_equivalent_is_that_in_onnx_and_refuses_a_map_too_small_for_its_padding():
    for name, expected in OF_ONNX.items():
        graph, run = onnx(made(name))
        assert [node.op_type for node in graph.node] == expected
        if name == "blur":
            with pytest.raises(Exception, match="Pad"):
                run(torch.randn(1, 4, 1, 1))


def test_equal_bins_of_a_map_of_known_size_are_plain_windows_in_the_graph():
    for name, kind in (("adaptive_max", "max_pool2d"), ("adaptive_avg", "avg_pool2d")):
        program = exported(made(name), BATCH)
        assert sum(kind in str(node.target) for node in program.graph.nodes) == 1
        agrees(program.module(), made(name), COUNTS)


@pytest.mark.slow
def test_one_graph_serves_every_size(kind):
    dynamic, shapes = varying(kind)
    # The last has more elements than any limit by which operators choose their kernels.
    shapes = (*shapes, (4, 4, 128, 129) if dynamic == ANY else (700, *COUNTS[0][1:]))
    agrees(exported(made(kind), dynamic).module(), made(kind), shapes)


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_RUNTIME)
def test_onnx_runtime_computes_the_same_at_every_size(name):
    operator, (dynamic, shapes) = made(name, **OPTIONS.get(name, {})), varying(name)
    agrees(onnx(operator, dynamic)[1], operator, shapes)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dtype"), HALF.items())
def test_half_precision_exports(name, dtype):
    operator, (dynamic, shapes) = made(name).to(dtype), varying(name)
    eps = torch.finfo(dtype).eps
    agrees(exported(operator, dynamic, dtype).module(), operator, shapes, 8 * eps, 8 * eps, dtype)


def test_a_trace_computes_the_same_at_every_size(kind):
    agrees(traced(made(kind)), made(kind), SHAPES)


# Traces are still in use.
@pytest.mark.filterwarnings("ignore:`torch.jit.load` is:FutureWarning")
@pytest.mark.parametrize("name", ["aps", "lps"])
def test_a_trace_that_may_need_gradients_is_saved_and_read_again(name, tmp_path):
    network = torch.nn.Sequential(torch.nn.Conv2d(4, 4, 1), made(name))
    traced(network).save(tmp_path / "network.pt")
    agrees(torch.jit.load(tmp_path / "network.pt"), network, SHAPES)
