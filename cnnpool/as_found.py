"""Contexts that leave a model and the random generators as they found them."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn
from torch.nn.parameter import is_lazy


@contextmanager
def examined(model: nn.Module) -> Iterator[nn.Module]:
    """The model in eval mode; restores every module's mode and torch's random generators afterwards.

    In eval mode batch normalisation uses its running statistics and no operator draws, so nothing in the
    model changes (but see ``buffers_kept``) and each sample's output depends on that sample alone.
    """
    modes = [(module, module.training) for module in model.modules()]
    # A probe may ask for this hundreds of times: parameters are only looked at where they may be on a GPU.
    places = {p.device for p in model.parameters()} if torch.cuda.is_initialized() else set()
    with torch.random.fork_rng(devices=sorted((d for d in places if d.type == "cuda"), key=str)):
        try:
            yield model.eval() if any(training for _, training in modes) else model
        finally:
            for module, training in modes:
                module.training = training


@contextmanager
def buffers_kept(model: nn.Module) -> Iterator[None]:
    """Gives ``model`` copies of its buffers meanwhile: fake quantisers, say, write them in eval mode too."""
    owned = [
        (module, name, buffer)
        for module in model.modules()
        for name, buffer in module.named_buffers(recurse=False, remove_duplicate=False)
        if not is_lazy(buffer)
    ]
    copies = {buffer: buffer.clone() for *_, buffer in owned}
    try:
        for module, name, buffer in owned:
            setattr(module, name, copies[buffer])
        yield
    finally:
        for module, name, buffer in owned:
            setattr(module, name, buffer)


@contextmanager
def generators_kept() -> Iterator[None]:
    """Restores the random generators of Python, numpy and, on the CPU, torch afterwards."""
    drawn = random.getstate(), np.random.get_state(), torch.random.get_rng_state()
    try:
        yield
    finally:
        random.setstate(drawn[0])
        np.random.set_state(drawn[1])
        torch.random.set_rng_state(drawn[2])
