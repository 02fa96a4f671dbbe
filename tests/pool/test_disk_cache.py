"""Compiled kernels on disk: read again, made again when damaged, done without on a full disk."""

import errno
import importlib.util
import logging
import os
import random
import subprocess
import sys

import pytest
import torch

pytest.importorskip("numba")

from numba import config

from cnnpool.pool.cpu import disk_cache, memory, threads
from scripts.reliability.fuzz_kernels import KERNELS


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "doubled.py").write_text(KERNELS)
    return tmp_path


@pytest.fixture
def use(folder):
    """Make the kernels anew, as a process does, and run them; (hits, misses) of the disk."""

    def run(dtype=torch.float32):
        spec = importlib.util.spec_from_file_location("doubled", folder / "doubled.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        disk_cache._listed.cache_clear()
        module.inner = disk_cache.compiled(module.inner)
        kernel = disk_cache.compiled(module.outer)
        out = torch.zeros(3, dtype=dtype)
        threads.spread(kernel, 3, 0, out.data_ptr(), memory.scalar(21.0, dtype))
        assert out.tolist() == [42.0] * 3
        stats = kernel.stats
        return sum(stats.cache_hits.values()), sum(stats.cache_misses.values())

    return run


def files(folder):
    return sorted(path for path in folder.rglob("*") if path.suffix in (".nbi", ".nbc"))


def test_a_kernel_is_compiled_once_and_then_read_from_disk(use, folder, caplog):
    assert use() == (0, 1)
    assert use() == (1, 0)
    assert use(torch.float64) == (0, 1), "another version of the same kernel"
    assert use() == use(torch.float64) == (1, 0)
    assert len(files(folder)) == 6 and not caplog.records


@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
@pytest.mark.parametrize("harm", ["cut", "emptied", "flipped", "removed"])
def test_a_damaged_file_is_made_again_and_said_in_a_line(use, folder, caplog, suffix, harm):
    use()
    generator = random.Random(0)
    for path in [path for path in files(folder) if path.suffix == suffix]:
        caplog.clear()
        data = bytearray(path.read_bytes())
        if harm == "flipped":
            data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
        path.write_bytes({"cut": data[: len(data) // 2], "emptied": b""}.get(harm, data))
        if harm == "removed":
            path.unlink()
        name = path.name.partition("-")[0]
        hits, misses = use()
        assert (hits, misses) == ((0, 1) if name == "doubled.outer" else (1, 0))
        assert [record.getMessage() for record in caplog.records] == [
            f"the compiled kernel {name} on disk is damaged or just being written: it is compiled again"
        ]
        assert use() == (1, 0) and len(caplog.records) == 1


def test_what_a_killed_process_left_without_checksums_is_made_again(use, folder, caplog):
    use()
    for path in folder.rglob("*.sha256"):
        path.unlink()
    assert use() == (0, 1)
    assert use() == (1, 0) and not caplog.records


def test_kernels_of_other_sources_are_made_again(use, monkeypatch, caplog):
    use()
    monkeypatch.setattr(disk_cache, "_key", lambda: "# of a changed intrinsic")
    assert use() == (0, 1)
    assert use() == (1, 0) and not caplog.records


def test_a_folder_in_the_place_of_a_kernel_is_done_without_and_said_once(use, folder, monkeypatch, caplog):
    use()
    monkeypatch.setattr(disk_cache, "_complained", False)
    for path in folder.rglob("*.nbc"):
        path.unlink()
        path.mkdir()
    caplog.clear()
    use()
    assert sum("cannot be kept" in record.getMessage() for record in caplog.records) == 1
    assert all(len(record.getMessage().splitlines()) == 1 for record in caplog.records)


def test_a_disk_that_is_full_is_done_without_and_said_once(use, folder, monkeypatch, caplog):
    replace = os.replace

    def full(source, target):
        if str(target).startswith(str(folder)):
            raise OSError(errno.ENOSPC, "No space left on device", str(target))
        replace(source, target)

    monkeypatch.setattr(disk_cache, "_complained", False)
    monkeypatch.setattr(os, "replace", full)
    assert use()[0] == use(torch.float64)[0] == 0
    (record,) = caplog.records
    said = record.getMessage()
    assert f"cannot be kept in {folder}" in said and "No space left" in said and "NUMBA_CACHE_DIR" in said
    assert len(record.getMessage().splitlines()) == 1
    monkeypatch.undo()
    assert use() == (0, 1) and use() == (1, 0), "kept again as soon as there is room"


def test_no_folder_that_can_be_written_is_done_without_and_said_once(use, folder, monkeypatch, caplog):
    taken = folder / "taken"
    taken.touch()
    (folder / "__pycache__").touch()
    monkeypatch.setattr(config, "CACHE_DIR", str(taken))
    monkeypatch.setenv("XDG_CACHE_HOME", str(taken))
    monkeypatch.setattr(disk_cache, "_complained", False)
    assert use()[0] == use(torch.float64)[0] == 0 and not files(folder)
    assert [record.getMessage() for record in caplog.records] == [
        "compiled kernels cannot be kept, so every run compiles them: no folder for them can be written; "
        "name one by NUMBA_CACHE_DIR"
    ]


def test_damage_found_while_loading_is_made_good(use, folder, caplog, monkeypatch):
    use()
    verify = disk_cache._verify
    # The file is damaged after it was verified.
    monkeypatch.setattr(disk_cache, "_verify", lambda kernel: True)

    def recover(error):
        monkeypatch.setattr(disk_cache, "_verify", verify)
        disk_cache._listed.cache_clear()
        original(error)

    original = disk_cache.recover
    monkeypatch.setattr(disk_cache, "recover", recover)
    for path in files(folder):
        path.write_bytes(b"\x80")
    caplog.set_level(logging.WARNING)
    assert use() == (0, 1)


def test_other_errors_of_a_kernel_are_raised(monkeypatch):
    def broken(start, stop):
        raise TypeError("a mistake in a kernel")

    broken.overloads = {}
    with pytest.raises(TypeError, match="a mistake"):
        threads.spread(broken, 1, 0)


CODE = """
import sys, torch
from cnnpool.pool import avg_pool2d, dispatch, max_pool2d
torch.manual_seed(0)
x = torch.randn(2, 3, 12, 12, requires_grad=True)
with dispatch.use(True):
    for y in (max_pool2d(x, 2), max_pool2d(x, 3, 2), avg_pool2d(x, 2)):
        (gradient,) = torch.autograd.grad(y, x, torch.ones_like(y))
        print(y.sum().item(), gradient.square().sum().item())
from cnnpool.pool.cpu import disk_cache
print(sum(sum(kernel.stats.cache_misses.values()) for kernel in disk_cache.versions))
"""


def run(folder):
    known = {**os.environ, "NUMBA_CACHE_DIR": str(folder), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, env=known, timeout=300
    )
    assert done.returncode == 0, done.stderr
    *numbers, compiled = done.stdout.splitlines()
    return numbers, int(compiled), done.stderr.splitlines()


@pytest.mark.slow
def test_operators_survive_a_damaged_cache_in_other_processes(tmp_path):
    numbers, compiled, said = run(tmp_path)
    assert compiled > 5 and not said
    assert run(tmp_path) == (numbers, 0, [])
    damaged = random.Random(1).sample(files(tmp_path), 4)
    for path in damaged:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 255
        path.write_bytes(data)
    again, compiled, said = run(tmp_path)
    assert again == numbers and 0 < compiled <= 5
    assert len(said) == len({path.name.partition("-")[0] for path in damaged})
    assert all("damaged" in line for line in said)
    assert run(tmp_path) == (numbers, 0, [])
