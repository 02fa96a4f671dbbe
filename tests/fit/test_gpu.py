"""Training on a GPU, where it differs from the CPU."""

import os
from types import SimpleNamespace

import pytest
import torch

from cnnpool import data
from cnnpool.data import ImageDataset
from cnnpool.fit import Classifier, Images, optimizers
from cnnpool.fit.trainer import repeat_bits
from cnnpool.model.airbench import Airbench
from cnnpool.pool import MaxPool2d
from cnnpool.readout import build

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.mark.parametrize(("free", "kept"), [(4, True), (3, False)])
def test_images_are_kept_on_a_gpu_that_has_four_times_their_room(free, kept, monkeypatch):
    images = Images(data.build("digits", limit=64))
    splits = (images.dataset.train, images.dataset.val, images.dataset.test)
    nbytes = sum(split.rows.nbytes for split in splits)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free * nbytes, 80 * nbytes))
    device, moved = torch.device("cuda"), []
    images.trainer = SimpleNamespace(
        strategy=SimpleNamespace(root_device=device), global_rank=0, world_size=1
    )
    monkeypatch.setattr(ImageDataset, "move", lambda self, device, *, images: moved.append((device, images)))
    for loader in (images.train_dataloader, images.val_dataloader, images.test_dataloader):
        loader()
    assert moved == [(device, kept)] * 3


@pytest.fixture
def flags(monkeypatch):
    """The settings of ``repeat_bits``, put back afterwards."""
    before = torch.get_deterministic_debug_mode()
    # Set first, so that what is set by the test is undone.
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", "")
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
    for name in ("allow_tf32", "benchmark"):
        monkeypatch.setattr(torch.backends.cudnn, name, True)
    yield
    torch.set_deterministic_debug_mode(before)


@pytest.mark.parametrize(("asked", "mode"), [("auto", 1), ("warn", 1), (True, 2), (False, 0)])
def test_libraries_repeat_bits_unless_they_need_not_and_round_none(asked, mode, flags):
    torch.backends.cudnn.benchmark = bool(mode)
    repeat_bits(asked, on_cpu=False)
    assert torch.get_deterministic_debug_mode() == mode
    assert torch.backends.cudnn.benchmark is not bool(mode) and not torch.backends.cudnn.allow_tf32
    assert not torch.utils.deterministic.fill_uninitialized_memory
    assert os.environ.get("CUBLAS_WORKSPACE_CONFIG") == (":4096:8" if mode else None)


@needs_gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
@pytest.mark.parametrize("optimizer", ["muon", "adamw", "sgd"])
def test_no_step_waits_for_the_gpu(optimizer):
    torch.manual_seed(0)
    source = {"limit": 512, "batch_size": 64, "crop": 2, "shift": 1, "flip": True}
    dataset = data.build("digits", seed=0, **source)
    train, device = dataset.train_loader(), torch.device("cuda")
    train.dataset.move(device)
    net = Airbench(
        1, dataset.size, 10, pool=lambda stage, channels: MaxPool2d(channels),
        readout=lambda channels, size: build("flatten", channels, size, hidden=0), width=8
    )  # fmt: skip
    module = Classifier(None, None, {"optimizer": optimizer, "deterministic": False}, model=net).to(device)
    stepping = optimizers.build(module.recipe, net.parameters())
    for step, batch in enumerate(train):
        # The first step makes what all others use: the epoch's order, the optimiser's state, the kernels.
        torch.cuda.set_sync_debug_mode("error" if step else "default")
        try:
            module.on_train_batch_start(batch, step)
            with torch.autocast("cuda", torch.bfloat16):
                loss = module.training_step(batch, step)
            stepping.zero_grad()
            loss.backward()
            stepping.step()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert loss.isfinite()
