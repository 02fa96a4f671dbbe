"""Modules of kernels, on the CPU and on a GPU, have the functions and signatures that ``autograd`` calls."""

import ast
import inspect
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from cnnpool.pool import dispatch
from cnnpool.pool.autograd import kernels

PROTOCOLS = {
    "linear": kernels.LinearKernels,
    "max": kernels.MaxKernels,
    "max_2x2_packed": kernels.PackedMaxKernels,
    "max_blur": kernels.MaxBlurKernels,
    "multinomial": kernels.MultinomialKernels,
    "phases": kernels.PhaseKernels,
    "window_means": kernels.MeanKernels,
}
PLACES = [("cpu", stem) for stem in PROTOCOLS] + [("gpu", stem) for stem in sorted(dispatch.ON_GPU)]


@pytest.mark.parametrize(("place", "name"), PLACES)
def test_kernels_have_the_signatures_that_callers_rely_on(place, name):
    if place == "gpu" and find_spec("triton") is None:
        pytest.skip("no Triton here")
    module = import_module(f"cnnpool.pool.{place}.{name}")
    for function, wanted in inspect.getmembers(PROTOCOLS[name], inspect.isfunction):
        if function.startswith("_"):
            continue
        # A function may have more parameters than callers give, if they have defaults.
        there, expected = inspect.signature(getattr(module, function)), inspect.signature(wanted)
        given = [(p.name, p.annotation) for p in expected.parameters.values() if p.name != "self"]
        have = [(p.name, p.annotation) for p in there.parameters.values()]
        assert have[: len(given)] == given and there.return_annotation == expected.return_annotation
        assert all(p.default is not p.empty for p in list(there.parameters.values())[len(given) :])
    for constant in inspect.get_annotations(PROTOCOLS[name]):
        assert hasattr(module, constant)


def test_every_stem_on_a_gpu_has_signatures():
    assert set(PROTOCOLS) >= dispatch.ON_GPU


@pytest.mark.parametrize(
    "path", sorted((Path(dispatch.__file__).parent / "gpu").glob("*.py")), ids=lambda p: p.stem
)
def test_functions_beside_the_kernels_of_a_gpu_are_annotated(path):
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef) and "triton.jit" not in map(ast.unparse, node.decorator_list):
            bare = [a.arg for a in node.args.args if a.annotation is None and a.arg != "self"]
            assert not bare and (node.returns is not None or node.name == "__init__"), node.name
