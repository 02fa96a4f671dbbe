"""Compiled kernels under threads, forked and spawned processes, DataLoader workers, DDP and torch.compile."""

import multiprocessing
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from pooled import COMPILED, Pooled, answers, images, network, send, send_from_a_fork, train_shard
from torch.testing import assert_close
from torch.utils.data import DataLoader

from cnnpool.pool import build, dispatch

pytest.importorskip("numba")
STARTS = [name for name in ("fork", "spawn") if name in multiprocessing.get_all_start_methods()]
SECONDS = 240


def same(found, expected):
    for name in COMPILED:
        for got, wanted in zip(found[name], expected[name], strict=True):
            assert torch.equal(torch.as_tensor(got), wanted), name


def test_threads_that_pool_at_once_get_what_one_gets():
    expected = [answers(seed) for seed in range(4)]
    before = torch.get_num_threads()
    try:
        # More than the machine may have: the kernels' own threads are then shared by four callers.
        torch.set_num_threads(2)
        with dispatch.use(True), ThreadPoolExecutor(4) as callers:
            for found, wanted in zip(callers.map(answers, [0, 1, 2, 3] * 3), expected * 3, strict=True):
                same(found, wanted)
    finally:
        torch.set_num_threads(before)


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


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_workers_of_a_data_loader_pool():
    expected = [Pooled()[index] for index in range(8)]
    loader = DataLoader(
        Pooled(), batch_size=4, num_workers=2, multiprocessing_context=STARTS[0], timeout=SECONDS
    )
    maxima, blurred = (torch.cat(batches) for batches in zip(*loader, strict=True))
    assert torch.equal(maxima, torch.stack([pair[0] for pair in expected]))
    assert torch.equal(blurred, torch.stack([pair[1] for pair in expected]))


@pytest.mark.slow
def test_two_processes_of_ddp_find_the_gradient_of_one(tmp_path):
    torch.multiprocessing.spawn(train_shard, (str(tmp_path / "store"), str(tmp_path)), nprocs=2)
    model = network()
    with dispatch.use(True):
        model(images()).square().mean().backward()
    for rank in (0, 1):
        gradients = torch.load(tmp_path / f"{rank}.pt")
        assert_close(gradients, [p.grad for p in model.parameters()], rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["max_blur", "stochastic"])
def test_one_compiled_graph_of_any_size_gives_values_and_gradients_of_the_kernels(name):
    operator = build(name, 4).eval()
    torch._dynamo.reset()
    # Inductor's own arithmetic is not at stake here, and needs a compiler.
    compiled = torch.compile(operator, dynamic=True, fullgraph=True, backend="aot_eager")
    for shape in ((2, 4, 16, 16), (3, 4, 20, 12), (1, 4, 24, 32)):
        results = []
        for call in (operator, compiled):
            x = torch.rand(shape, generator=torch.Generator().manual_seed(0)).requires_grad_()
            with dispatch.use(True):
                y = call(x)
                results.append((y.detach(), torch.autograd.grad(y.square().sum(), x)[0]))
        assert_close(results[1], results[0], rtol=1e-4, atol=1e-5)
