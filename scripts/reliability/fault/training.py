"""Faults that stop a training."""

import signal

import torch

from scripts.reliability.fault.attempt import GOES_ON, Fault
from scripts.reliability.fault.setting import cut_with, little_memory, signalled, without_network_or_proxy

TRAINING = [
    Fault(
        "a loss that diverges",
        "train hydra.run.dir=here fit.lr=1e30 fit.optimizer=sgd fit.warmup=0.0 data.batch_size=8",
        ("the loss became", "step", "batch", "lower fit.lr"),
        1,
    ),
    Fault(
        "Ctrl-C",
        "train hydra.run.dir=here",
        ("by SIGINT at step 1", GOES_ON),
        130,
        signalled(signal.SIGINT),
        ("here/checkpoints/last.ckpt",),
    ),
    Fault(
        "SIGTERM",
        "train hydra.run.dir=here",
        ("by SIGTERM at step 1", GOES_ON),
        143,
        signalled(signal.SIGTERM),
        ("here/checkpoints/last.ckpt",),
    ),
    Fault(
        "the terminal is closed",
        "train hydra.run.dir=here",
        ("by SIGHUP at step 1", GOES_ON),
        129,
        signalled(signal.SIGHUP),
        ("here/checkpoints/last.ckpt",),
    ),
    Fault(
        "too little memory",
        "train hydra.run.dir=here data.size=100 model.width=256",
        ("out of memory with data.batch_size=128", "lower it"),
        1,
        little_memory,
    ),
    Fault(
        "more epochs on resume",
        "train hydra.run.dir=here fit.epochs=3",
        ("last.ckpt", "fit.epochs: 1 -> 3", "another folder"),
        2,
        cut_with(lambda: None),
        ("here/checkpoints/last.ckpt",),
    ),
    Fault(
        "another learning rate on resume",
        "train hydra.run.dir=here fit.lr=0.5",
        ("last.ckpt", "fit.lr: 0.01 -> 0.5", "another folder"),
        2,
        cut_with(lambda: None),
        ("here/checkpoints/last.ckpt",),
    ),
    Fault(
        "another operator on resume",
        "train hydra.run.dir=here pool=avg",
        ("last.ckpt", "pool.name: max -> avg", "another folder"),
        2,
        cut_with(lambda: None),
        ("here/checkpoints/last.ckpt",),
    ),
    Fault(
        "another number of threads on resume",
        "train hydra.run.dir=here",
        (),
        0,
        cut_with(lambda: torch.set_num_threads(2)),
        lines=0,
        out=("trained with 1 threads so far, now with 2",),
    ),
    Fault(
        "batches that devices cannot share",
        "train fit.devices=3",
        ("data.batch_size=128", "multiple of fit.devices=3"),
    ),
    Fault(
        "no network",
        "train hydra.run.dir=here probe=default",
        (),
        0,
        without_network_or_proxy,
        ("here/results.json",),
        lines=0,
    ),
]
