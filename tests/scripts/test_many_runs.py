"""Copies of a run for other seeds, and the time and memory of commands that read them."""

import subprocess
import sys

import numpy as np
import pytest

from cnnpool.run_folder import results
from cnnpool.run_folder.correct import packed, unpacked
from scripts.benchmarks import many_runs


def test_runs_are_copied_for_other_seeds_as_runs_that_are_finished(shelf):
    shelf.put("digits/convnet/max/seed0", correct=packed(np.arange(400) % 2 == 0))
    many_runs.multiply(shelf.root, 4)
    read = [results.read(shelf.root / f"digits/convnet/max/seed{seed}") for seed in range(4)]
    assert [one.seed for one in read] == [0, 1, 2, 3]
    accuracies = [unpacked(one.correct).mean() for one in read[1:]]
    assert accuracies == [one.accuracy for one in read[1:]] and len(set(accuracies)) > 1


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read where Linux has it")
def test_the_memory_of_a_command_is_its_own(tmp_path):
    here = np.zeros(200_000_000, np.uint8) + 1
    _, least = many_runs.spent(["-c", ""], tmp_path)
    _, more = many_runs.spent(["-c", "x = bytes(range(200)) * 500_000"], tmp_path)
    assert least < 5e7 and 9e7 < more - least < 1.1e8 and here.any()
    with pytest.raises(subprocess.CalledProcessError):
        many_runs.spent(["-c", "raise SystemExit(3)"], tmp_path)
