"""Commands whose output nobody reads, in processes of their own."""

import os
import subprocess
import sys

import pytest

CNNPOOL = f"{sys.executable} -m cnnpool"
TRAIN = (
    "train -m pool=max,avg data.limit=64 model.width=2 fit.epochs=1 fit.pictures=false fit.progress=false "
    "probe=none"
)


def shell(command, folder):
    """(exit status of the command before the pipe, stderr)."""
    done = subprocess.run(
        ["bash", "-c", f"{command}; exit ${{PIPESTATUS[0]}}"],
        cwd=folder,
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("command", ["--help", "train --help", "train --cfg all", "compare --help"])
def test_a_reader_who_leaves_is_no_error(command, tmp_path):
    # Nothing reads at all, so that the very first write fails.
    assert shell(f"{CNNPOOL} {command} | true", tmp_path) == (0, "")
    assert shell(f"{CNNPOOL} {command} 2>&1 | head -n 1", tmp_path) == (0, "")


def test_a_closed_output_is_no_error(tmp_path):
    assert shell(f"{CNNPOOL} --help >&- 2>&-", tmp_path) == (0, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has a device that is always full")
def test_output_that_is_lost_on_a_full_disk_is_said(tmp_path):
    status, err = shell(f"{CNNPOOL} --help > /dev/full", tmp_path)
    assert (status, err) == (1, "error: standard output: No space left on device; the rest of it is lost\n")


@pytest.mark.slow
@pytest.mark.parametrize("launch", ["local", "processes"])
@pytest.mark.parametrize("where", ["| head -n 1 > first", "> /dev/full 2>&1", ">&- 2>&- <&-"])
def test_no_output_that_leads_nowhere_ends_a_sweep(launch, where, tmp_path):
    shell(f"{CNNPOOL} {TRAIN} launch={launch} {where}", tmp_path)
    assert len(list(tmp_path.rglob("results.json"))) == 2


@pytest.mark.slow
def test_a_sweep_whose_reader_leaves_is_trained_to_the_end(tmp_path):
    assert shell(f"{CNNPOOL} {TRAIN} 2>&1 | head -n 1", tmp_path) == (0, "")
    assert len(list(tmp_path.rglob("results.json"))) == 2
