"""Ways to put a blur into a pretrained network that were tried.

usage: python docs/finetune/remedies.py WAY [KEY=VALUE ...]

``fade``: the blur begins as the plain stride and is whole after half of the steps. ``freeze``: for a third of
the steps only the convolutions that lost their stride, normalisation and the last layer are trained.
``refit``: those convolutions begin with the weights by which they and the blur together are nearest, by least
squares, to what they were.
"""

import sys

import torch
from lightning.pytorch.callbacks import Callback
from torch import nn
from torch.nn import functional as F

import cnnpool
from cnnpool.pool import BlurPool2d


class Fade(Callback):
    def on_fit_start(self, trainer, module):
        for operator in module.modules():
            if isinstance(operator, BlurPool2d):
                operator.register_forward_hook(self.mix)

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        self.part = min(1.0, trainer.global_step / (0.5 * trainer.estimated_stepping_batches))

    def mix(self, operator, inputs, blurred):
        plain = inputs[0][..., ::2, ::2][..., : blurred.shape[-2], : blurred.shape[-1]]
        return torch.lerp(plain, blurred, self.part)


class Freeze(Callback):
    def on_train_start(self, trainer, module):
        kinds = nn.Linear, nn.BatchNorm2d
        free = {id(p) for one in module.modules() if isinstance(one, kinds) for p in one.parameters()}
        self.frozen = [
            p for name, p in module.named_parameters() if id(p) not in free and ".dense" not in name
        ]
        for parameter in self.frozen:
            parameter.requires_grad_(False)

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        if trainer.global_step >= trainer.estimated_stepping_batches / 3:
            for parameter in self.frozen:
                parameter.requires_grad_(True)


class Refit(Callback):
    def on_fit_start(self, trainer, module):
        taps = torch.tensor([1.0, 2.0, 1.0], dtype=torch.float64) / 4
        for pair in module.modules():
            if [type(one) for one in pair.children()][1:] != [BlurPool2d]:
                continue
            weight = pair[0].dense.weight.data
            # Of every tap of the convolution, in the rows, what it does behind the blur.
            single = torch.eye(weight[0, 0].numel(), dtype=torch.float64).unflatten(1, weight.shape[2:])
            both = F.conv2d(single[:, None], torch.outer(taps, taps)[None, None], padding=2).flatten(1)
            before = F.pad(weight.double(), (1, 1, 1, 1)).flatten(2)
            weight.copy_((before @ torch.linalg.pinv(both)).view_as(weight))


WAYS = {"fade": Fade, "freeze": Freeze, "refit": Refit}

if __name__ == "__main__":
    way, *settings = sys.argv[1:]
    print(cnnpool.train(*settings, callbacks=[WAYS[way]()]).val.accuracy)
