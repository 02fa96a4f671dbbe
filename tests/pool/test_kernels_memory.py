"""Kernels from disk: by what the cache of Numba keeps private, and by its ordinary way where that is gone."""

import importlib.util
from contextlib import nullcontext
from functools import partial

import pytest

pytest.importorskip("numba")
import numba

from cnnpool.pool.cpu.loops import intrinsics


class Public:
    """A cache of Numba's, of which nothing is known but what every cache has."""

    def __init__(self, cache):
        self.cache_path, self.save_overload, self.loads = cache.cache_path, cache.save_overload, []
        self._ordinary = cache.load_overload

    def load_overload(self, signature, context):
        self.loads.append(signature)
        return self._ordinary(signature, context)


@pytest.fixture
def function(tmp_path):
    path = tmp_path / "doubled.py"
    path.write_text("def double(x):\n    return 2 * x\n")
    spec = importlib.util.spec_from_file_location("doubled", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.double


def uses(kernel):
    assert kernel(21) == 42
    return sum(kernel.stats.cache_hits.values()), sum(kernel.stats.cache_misses.values())


def test_a_kernel_is_compiled_once_and_then_read_from_disk(function):
    assert uses(intrinsics.compiled(function)) == (0, 1)
    again = intrinsics.compiled(function)

    def ordinary(signature, context):
        raise AssertionError("the slow way")

    again._cache.load_overload = partial(intrinsics._load, again._cache, ordinary)
    assert uses(again) == (1, 0)


def test_where_only_the_public_cache_is_left_kernels_are_read_from_disk_too(function, monkeypatch):
    caches = []

    def njit(**options):
        def make(function):
            kernel = numba.njit(**options)(function)
            caches.append(Public(kernel._cache))
            kernel._cache = caches[-1]
            return kernel

        return make

    monkeypatch.setattr(intrinsics, "njit", njit)
    assert uses(intrinsics.compiled(function)) == (0, 1)
    assert uses(intrinsics.compiled(function)) == (1, 0)
    assert [len(cache.loads) for cache in caches] == [1, 1]


def test_a_dispatcher_without_a_cache_of_that_name_is_left_as_it_is(function, monkeypatch):
    monkeypatch.setattr(intrinsics, "njit", lambda **options: lambda function: function)
    assert intrinsics.compiled(function) is function


class Missing:
    pass


class Guarded:
    def _guard_against_spurious_io_errors(self):
        return nullcontext()


class OtherSignature(Guarded):
    def _load_overload(self, signature):
        return "wrong"


class NeedsMore(Guarded):
    def _load_overload(self, signature, context):
        raise KeyError("a registry that is not loaded")


class NoGuard:
    def _guard_against_spurious_io_errors(self):
        return None

    def _load_overload(self, signature, context):
        return "wrong"


@pytest.mark.parametrize("cache", [Missing, Guarded, OtherSignature, NeedsMore, NoGuard])
def test_a_cache_that_behaves_otherwise_is_asked_in_the_ordinary_way(cache, function):
    context = numba.njit(function).targetctx
    found = intrinsics._load(cache(), lambda *asked: asked, "signature", context)
    assert found == ("signature", context)


def test_what_is_wrong_in_the_ordinary_way_too_is_raised(function):
    def ordinary(signature, context):
        raise PermissionError("the cache cannot be read")

    with pytest.raises(PermissionError, match="cannot be read"):
        intrinsics._load(Missing(), ordinary, "signature", numba.njit(function).targetctx)
