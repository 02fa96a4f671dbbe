"""Compiled kernels under threads, and in forked and spawned processes."""

import multiprocessing
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from pooled import COMPILED, answers, send_by_a_fork_too

from cnnpool.pool import dispatch

pytest.importorskip("numba")
STARTS = [name for name in ("fork", "spawn") if name in multiprocessing.get_all_start_methods()]
SECONDS = 240


def same(found, expected):
    for name in COMPILED:
        for got, wanted in zip(found[name], expected[name], strict=True):
            assert torch.equal(torch.as_tensor(got), wanted), name


def test_threads_that_pool_at_once_get_what_one_gets(set_threads):
    expected = [answers(seed) for seed in range(4)]
    # More than the machine may have: the kernels' own threads are then shared by four callers.
    set_threads(2)
    with dispatch.use(True), ThreadPoolExecutor(4) as callers:
        for found, wanted in zip(callers.map(answers, [0, 1, 2, 3] * 3), expected * 3, strict=True):
            same(found, wanted)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_process_and_its_fork_compute_what_their_parent_does():
    # From a process of its own: threads that other tests have started here would not live in a fork.
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    child = context.Process(target=send_by_a_fork_too, args=(queue,))
    child.start()
    found = dict(queue.get(timeout=SECONDS) for _ in STARTS)
    child.join(SECONDS)
    assert child.exitcode == 0 and found.keys() == {*STARTS}
    expected = answers()
    for start in STARTS:
        same(found[start], expected)
