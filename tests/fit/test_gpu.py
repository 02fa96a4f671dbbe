"""Training on a GPU, where it differs from the CPU."""

from types import SimpleNamespace

import pytest
import torch

from cnnpool import data
from cnnpool.fit.module import Net
from cnnpool.fit.train import move
from cnnpool.fit.trainer import repeat_bits
from cnnpool.model.airbench import Airbench
from cnnpool.pool import MaxPool2d
from cnnpool.readout import build
from cnnpool.recipe import Recipe

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def batches(count, moved):
    """A stand-in for ``Batches`` of ``count`` images of 1000 bytes; ``moved`` records its moves."""
    split = SimpleNamespace(rows=SimpleNamespace(nbytes=1000 * count))
    return SimpleNamespace(split=split, move=lambda device, images: moved.append((device, images)))


@pytest.mark.parametrize(
    ("device", "free", "moves"),
    [("cuda", 40_000, [True] * 2), ("cuda", 39_999, [False] * 2), ("cpu", 0, [])],
)
def test_images_are_moved_to_a_gpu_that_has_four_times_their_room(device, free, moves, monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, 80_000))
    moved = []
    move([batches(7, moved), batches(3, moved)], torch.device(device))
    assert moved == [(torch.device(device), images) for images in moves]


@pytest.fixture
def flags(monkeypatch):
    """The settings of ``repeat_bits``, put back afterwards."""
    before = torch.get_deterministic_debug_mode(), torch.backends.cudnn.benchmark
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", "")
    yield
    torch.set_deterministic_debug_mode(before[0])
    torch.backends.cudnn.benchmark = before[1]


@pytest.mark.parametrize(
    ("asked", "benchmark"), [("auto", False), ("warn", False), (True, False), (False, True)]
)
def test_cudnn_looks_for_its_fastest_way_where_bits_need_not_repeat(asked, benchmark, flags):
    torch.backends.cudnn.benchmark = not benchmark
    repeat_bits(asked, on_cpu=False)
    assert torch.backends.cudnn.benchmark == benchmark


def test_on_a_cpu_cudnn_is_left_alone(flags):
    torch.backends.cudnn.benchmark = True
    repeat_bits(True, on_cpu=True)
    assert torch.backends.cudnn.benchmark


@needs_gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
@pytest.mark.parametrize("optimizer", ["muon", "adamw", "sgd"])
def test_no_step_waits_for_the_gpu(optimizer):
    torch.manual_seed(0)
    source = {"limit": 512, "batch_size": 64, "crop": 2, "shift": 1, "flip": True}
    dataset = data.build("digits", seed=0, **source)
    train, device = dataset.train_batches(), torch.device("cuda")
    move([train], device)
    net = Airbench(
        1,
        dataset.size,
        10,
        pool=lambda stage, channels: MaxPool2d(channels),
        readout=lambda channels, size: build("flatten", channels, size, hidden=0),
        width=8,
    )
    recipe = Recipe(optimizer=optimizer, deterministic=False)
    module = Net(net.to(device, memory_format=torch.channels_last), recipe, seed=0, total_steps=100).to(
        device
    )
    module.configure_optimizers()
    for step, batch in enumerate(train):
        # The first step makes what all others use: the epoch's order, the optimiser's state, the kernels.
        torch.cuda.set_sync_debug_mode("error" if step else "default")
        try:
            module.on_train_batch_start(batch, step)
            with torch.autocast("cuda", torch.bfloat16):
                module.training_step(batch, step)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert torch.stack(module.training_sums).isfinite().all()
