"""A network that goes down and up again by pooling and its inverse; docs/swap.md has what it prints."""

import torch
from torch import nn
from torch.nn import functional as F

from cnnpool import datamodule, probe
from cnnpool.pool import build, polyphase_unpool2d


class UNet(nn.Module):
    def __init__(self, pool):
        super().__init__()
        sizes = [(1, 16), (16, 32), (32, 32), (64, 16), (32, 11)]
        self.convs = nn.ModuleList(nn.Conv2d(*each, 3, padding=1, padding_mode="circular") for each in sizes)
        self.pools = nn.ModuleList([build(pool, 16), build(pool, 32)])

    def down(self, level, x):
        pool = self.pools[level]
        phase = pool.choose(x) if hasattr(pool, "choose") else None
        return (pool(x), None) if phase is None else (pool(x, phase), phase)

    def up(self, x, phase):
        return (
            F.interpolate(x, scale_factor=2) if phase is None else polyphase_unpool2d(x, phase, filter_size=3)
        )

    def forward(self, x):
        full = F.relu(self.convs[0](x))
        half, one = self.down(0, full)
        half = F.relu(self.convs[1](half))
        quarter, two = self.down(1, half)
        quarter = F.relu(self.convs[2](quarter))
        half = F.relu(self.convs[3](torch.cat([self.up(quarter, two), half], 1)))
        return self.convs[4](torch.cat([self.up(half, one), full], 1))


def pixel_labels(images, labels):
    """The digit where there is ink, 10 elsewhere."""
    return torch.where(images[:, 0] > images.mean(), labels[:, None, None], 10)


if __name__ == "__main__":
    for pool in ("max", "aps", "lps"):
        torch.manual_seed(0)
        data, net = datamodule("digits", batch_size=64), UNet(pool)
        steps = torch.optim.AdamW(net.parameters(), 3e-3)
        batches = data.train_dataloader()
        batches.sampler.set_epoch(0)  # One order for all: without this line, each epoch has its own
        for _ in range(3):
            for images, labels in batches:
                steps.zero_grad()
                F.cross_entropy(net(images), pixel_labels(images, labels)).backward()
                steps.step()
        images, labels = next(iter(data.test_dataloader()))
        found = probe.build("all_shifts", samples=8).measure(net, {}, images, pixel_labels(images, labels))
        print(pool, f"{found['consistency']:.2%} {found['mean_shift_accuracy']:.2%}")
