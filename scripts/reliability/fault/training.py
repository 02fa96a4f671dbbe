"""Faults that stop a training, and damaged or foreign checkpoints to go on from."""

import os
import signal

import torch

from scripts.reliability.fault.attempt import GOES_ON, Fault
from scripts.reliability.fault.setting import (
    LAST,
    altered,
    cut_with,
    flip_bit,
    hostile,
    little_memory,
    signalled,
)

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
        ("data.batch_size=128", "multiple of fit.devices x fit.accumulate, here 3 x 1"),
    ),
    Fault(
        "a checkpoint cut short",
        "train hydra.run.dir=here",
        ("last.ckpt is damaged", "delete it"),
        2,
        cut_with(lambda: os.truncate(LAST, 3000)),
        ("here/metrics.jsonl",),
    ),
    Fault(
        "a flipped bit in the only checkpoint",
        "train hydra.run.dir=here",
        ("last.ckpt is damaged", "delete it"),
        2,
        cut_with(lambda: flip_bit(LAST)),
        ("here/metrics.jsonl",),
    ),
    Fault(
        "a flipped bit in the last checkpoint",
        "train hydra.run.dir=here fit.epochs=2",
        (),
        0,
        cut_with(lambda: flip_bit(LAST), "fit.epochs=2"),
        lines=0,
        out=("last.ckpt is damaged", "going on from previous.ckpt"),
    ),
    Fault(
        "a checkpoint of a newer version",
        "train hydra.run.dir=here",
        ("last.ckpt", "schema 9", "update it"),
        2,
        cut_with(lambda: altered(lambda content: content["cnnpool"].update(schema=9))),
        ("here/metrics.jsonl",),
    ),
    Fault(
        "weights of another shape",
        "train hydra.run.dir=here",
        ("last.ckpt", "another architecture", "->"),
        2,
        cut_with(
            lambda: altered(
                lambda content: content["state_dict"].update(
                    {next(iter(content["state_dict"])): torch.ones(1)}
                )
            )
        ),
        ("here/metrics.jsonl",),
    ),
    Fault(
        "a checkpoint that would run code",
        "train hydra.run.dir=here",
        ("last.ckpt is damaged", "delete it"),
        2,
        hostile,
        ("here/checkpoints/last.ckpt",),
    ),
    Fault(
        "metrics.jsonl cut short",
        "train hydra.run.dir=here",
        ("metrics.jsonl has lost lines", "put it back"),
        2,
        cut_with(lambda: os.truncate("here/metrics.jsonl", 3)),
        ("here/checkpoints/last.ckpt",),
    ),
]
