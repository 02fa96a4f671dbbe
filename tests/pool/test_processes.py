"""Compiled kernels under threads, and in forked and spawned processes."""

import multiprocessing
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from pooled import COMPILED, answers, send, send_from_a_fork

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
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_process_computes_what_its_parent_does(start):
    # From a process of its own: threads that other tests have started here would not live in a fork.
    context = multiprocessing.get_context("spawn")
    queue, forked = context.Queue(), start == "fork"
    target, threads = (send_from_a_fork, 1) if forked else (send, 2)
    child = context.Process(target=target, args=(queue, threads))
    child.start()
    found = queue.get(timeout=SECONDS)
    child.join(SECONDS)
    assert child.exitcode == 0
    same(found, answers())
