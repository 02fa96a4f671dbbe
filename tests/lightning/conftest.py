"""A LightningModule of somebody else's, small and deterministic."""

from pathlib import Path

import pytest
import torch
from lightning.pytorch import LightningModule
from short_runs import quiet_trainer
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

IGNORED = (
    # Lightning's own use of torch's pytrees.
    ".isinstance.treespec, LeafSpec.:FutureWarning",
    ".*does not have many workers:UserWarning",
    "The number of training batches:UserWarning",
    "You defined a `validation_step`:UserWarning",
)


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent == Path(__file__).parent:
            for text in IGNORED:
                item.add_marker(pytest.mark.filterwarnings(f"ignore:{text}"))


class TheirModule(LightningModule):
    def __init__(self, *, manual=False):
        super().__init__()
        self.automatic_optimization = not manual
        self.network = nn.Sequential(
            *(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.2)),
            *(nn.Conv2d(4, 8, 3, padding=1, stride=2), nn.ReLU()),
            *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3)),
        )

    def forward(self, x):
        return self.network(x)

    def training_step(self, batch, batch_idx):
        loss = F.cross_entropy(self(batch[0]), batch[1])
        if not self.automatic_optimization:
            optimizer = self.optimizers()
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()
            optimizer.step()
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", F.cross_entropy(self(batch[0]), batch[1]), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


@pytest.fixture
def loaders():
    images = torch.randn(48, 1, 16, 16, generator=torch.Generator().manual_seed(1))
    data = TensorDataset(images, torch.arange(48) % 3)
    return DataLoader(data, batch_size=8, shuffle=True), DataLoader(data, batch_size=8)


@pytest.fixture
def train(loaders, tmp_path):
    """A function: train their module with callbacks and loggers; returns (trainer, module)."""

    def run(*callbacks, logger=False, manual=False, validate=True, change=lambda module: module, **options):
        torch.manual_seed(0)
        module = change(TheirModule(manual=manual))
        options = {"max_epochs": 2, "logger": logger, "default_root_dir": tmp_path, **options}
        trainer = quiet_trainer(callbacks=list(callbacks), **options)
        trainer.fit(module, loaders[0], loaders[1] if validate else None)
        return trainer, trainer.lightning_module

    return run
