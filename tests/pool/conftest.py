"""Every operator that a command line offers, and inputs to ask it with."""

import os
from collections.abc import Callable, Iterator
from importlib.util import find_spec

import pytest
import random_maps
import torch
from torch import Tensor, func, nn

from cnnpool import schema
from cnnpool.pool import Pool2d, build, dispatch

ASKED = os.environ.get("CNNPOOL_KERNELS") != "0" and find_spec("numba") is not None
# Tests of operators that have kernels, made once by those and once by torch's operators.
COMPILED = {"aps", "avg", "blur", "max", "max_blur", "means", "stochastic"}
STEMS = sorted(schema.names("pool"))
KINDS = {
    *("adaptive_blur", "adaptive_max", "aps", "avg", "flc", "fractional_max", "gem", "lip", "lps", "max"),
    *("max_blur", "median", "resize", "s3", "stochastic", "unshuffle", "wavelet"),
}
"""One of each kind of arithmetic, for what takes seconds an operator."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "stem" in metafunc.fixturenames:
        metafunc.parametrize("stem", STEMS)
    if "kind" in metafunc.fixturenames:
        # With those that differ from main.
        changed = {*metafunc.config.option.operators.split(",")} & {*STEMS}
        metafunc.parametrize("kind", sorted(KINDS | changed))
    if metafunc.module.__name__.rpartition("test_")[2] in COMPILED:
        wanted = {"compiled": True, "plain": False} if ASKED else {"plain": False}
        metafunc.parametrize("own_code", wanted.values(), ids=wanted, indirect=True)


@pytest.fixture(autouse=True)
def own_code(request: pytest.FixtureRequest) -> Iterator[None]:
    """Small maps, too, go through our own code and not to torch: compiled, or not with CNNPOOL_KERNELS=0."""
    with dispatch.use(getattr(request, "param", ASKED)):
        yield


@pytest.fixture
def set_threads() -> Iterator[Callable[[int], None]]:
    """``torch.set_num_threads``, undone after the test."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.fixture
def set_default_dtype() -> Iterator[Callable[[torch.dtype], None]]:
    """``torch.set_default_dtype``, undone after the test."""
    before = torch.get_default_dtype()
    yield torch.set_default_dtype
    torch.set_default_dtype(before)


@pytest.fixture
def distinct() -> Callable[..., Tensor]:
    return random_maps.distinct


@pytest.fixture
def make() -> Callable[..., Pool2d]:
    """The operator in float64 and eval mode, unless told otherwise."""

    def build_ready(stem, channels=3, dtype=torch.float64, training=False, **options):
        return build(stem, channels, **options).to(dtype).train(training)

    return build_ready


@pytest.fixture
def halved() -> Callable[[Pool2d, int, int], tuple[int, int]]:
    """The output size that default options promise for an even input size."""

    def size(op, height, width):
        return (height, width) if op.dilates > 1 else (height // 2, width // 2)

    return size


@pytest.fixture
def pure() -> Callable[..., Callable[..., Tensor]]:
    """The module as a function of (parameters, x), or ``flat`` of (x, *parameters), of fixed draws."""

    def make_pure(op: nn.Module, flat: bool = False):
        names = [name for name, _ in op.named_parameters()]

        def call(parameters, x):
            if op.training:
                torch.manual_seed(0)
            return func.functional_call(op, parameters, (x,))

        return (lambda x, *values: call(dict(zip(names, values, strict=True)), x)) if flat else call

    return make_pure
