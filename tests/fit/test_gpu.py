"""Training on a GPU, where it differs from the CPU."""

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
    before = torch.get_deterministic_debug_mode(), torch.backends.cudnn.benchmark
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", "")
    yield
    torch.set_deterministic_debug_mode(before[0])
    torch.backends.cudnn.benchmark = before[1]


@pytest.mark.parametrize(
    ("asked", "searches"), [("auto", False), ("warn", False), (True, False), (False, True)]
)
def test_cudnn_looks_for_its_fastest_way_where_bits_need_not_repeat(asked, searches, flags):
    torch.backends.cudnn.benchmark = not searches
    repeat_bits(asked, on_cpu=False)
    assert torch.backends.cudnn.benchmark == searches
    assert torch.get_deterministic_debug_mode() == {True: 2, False: 0}.get(asked, 1)


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
