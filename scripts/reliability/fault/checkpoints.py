"""Checkpoints that are damaged, foreign, or hostile."""

import os

import torch

from scripts.reliability.fault.attempt import Fault
from scripts.reliability.fault.setting import LAST, altered, cut_with, flip_bit, forced_hostile, hostile

CHECKPOINTS = [
    Fault(
        "a checkpoint cut short",
        "train hydra.run.dir=here",
        ("last.ckpt is damaged", "delete it"),
        2,
        cut_with(lambda: os.truncate(LAST, 3000)),
        ("here/metrics.jsonl",),
    ),
    Fault(
        "an empty checkpoint",
        "train hydra.run.dir=here",
        ("last.ckpt is damaged", "delete it"),
        2,
        cut_with(lambda: os.truncate(LAST, 0)),
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
        "the last checkpoint deleted",
        "train hydra.run.dir=here fit.epochs=2",
        (),
        0,
        cut_with(LAST.unlink, "fit.epochs=2"),
        lines=0,
        out=("going on from previous.ckpt",),
    ),
    Fault(
        "a folder in the checkpoint's place",
        "train hydra.run.dir=here",
        ("cannot read the checkpoint", "last.ckpt", "delete it"),
        2,
        cut_with(lambda: (LAST.unlink(), LAST.mkdir())),
        ("here/metrics.jsonl",),
    ),
    Fault(
        "a checkpoint of another program",
        "train hydra.run.dir=here",
        ("last.ckpt", "not a checkpoint of cnnpool", "delete it"),
        2,
        cut_with(lambda: torch.save({"weight": torch.ones(2)}, LAST)),
        ("here/metrics.jsonl",),
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
        "the same, with torch told to allow it",
        "train hydra.run.dir=here",
        ("last.ckpt is damaged", "delete it"),
        2,
        forced_hostile,
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
