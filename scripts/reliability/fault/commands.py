"""Commands that are mistakes, lack data, or stop while they train."""

import os
import signal

from scripts.reliability.fault.attempt import GOES_ON, MINE, Fault
from scripts.reliability.fault.setting import (
    LAST,
    cut_with,
    failing,
    flip_bit,
    images,
    killed_jobs,
    little_memory,
    raised,
    signalled,
    without_network_or_proxy,
    write,
)

UNSET = ("environment variable NOPE is not set", "set it, or give a default by ${oc.env:NOPE,DEFAULT}")
TWO = "-m pool=max,avg"

COMMANDS = [
    Fault("a misspelt key", "train lrr=1", ("'lrr'", "did you mean 'fit.lr'?")),
    Fault("a new key by +", "train +extra=1", ("'extra'", "known are data")),
    Fault("an operator that does not exist", "train pool=maxx", ("pool/maxx", "did you mean 'max'?")),
    Fault(
        "a window larger than the map", "train pool.kernel_size=50", ("stage s1", "28x28", "smaller kernel")
    ),
    Fault("a stage that the model lacks", "train pool@stage.s4=avg", ("stage.s4", "it has s1, s2")),
    Fault("a probe that does not exist", "train +probe.nosuch.samples=3", ("'nosuch'", "choose from")),
    Fault("a mandatory value left out", "train data.root=???", ("data.root", "Missing", "data.root=VALUE")),
    Fault("an environment variable unset", "train seed=${oc.env:NOPE}", UNSET),
    Fault("a sweep without -m", "train pool=max,avg", ("cnnpool train -m pool=max,avg", "quote the value")),
    Fault("a sweep of nothing", "train -m pool=glob(zz*)", ("pool=glob(zz*)", "nothing to run")),
    Fault("a word that sets nothing", "train pool", ("pool:", "key=value")),
    Fault(
        "a file with a tab",
        MINE,
        ("mine.yaml", "line 2"),
        before=write("mine/pool/mine.yaml", "name: max\n\tk: 2"),
    ),
    Fault(
        "a file that is not UTF-8",
        MINE,
        ("mine.yaml", "UTF-8", "save it"),
        before=write("mine/pool/mine.yaml", b"name: max\xff"),
    ),
    Fault(
        "a file that stands for one of ours",
        MINE,
        ("mine/pool/max.yaml", "another name"),
        before=write("mine/pool/max.yaml", "name: avg"),
    ),
    Fault("a folder of settings that is not there", "train --config-dir mine", ("mine", "not found")),
    Fault(
        "no data, no download",
        "train data=mnist data.download=false data.root=none",
        ("none/MNIST", "data.root=FOLDER"),
    ),
    Fault(
        "no data, no network",
        "train data=mnist data.root=none",
        ("none/MNIST", "by hand"),
        before=without_network_or_proxy,
    ),
    Fault(
        "random bytes for a packed file",
        "train data=mnist data.download=false data.root=none",
        ("none/MNIST/raw", "set data.download=true"),
        before=write("none/MNIST/raw/train-images-idx3-ubyte.gz", os.urandom(1000)),
    ),
    Fault(
        "a class without training images",
        "train data=image_folder data.root=photos",
        ("photos/test/bee", "photos/train lacks", "remove it"),
        before=images(lambda path: path.parent.rename(path.parents[2] / "test" / "cow")),
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
        "a job needs too much memory",
        f"train {TWO}",
        ("avg", "out of memory", "lower it"),
        1,
        failing(lambda: raised(MemoryError())),
        ("outputs/*/*/max*/*/results.json",),
        out=("1 done, 1 failed",),
    ),
    Fault(
        "a job is a mistake",
        "train -m pool=max pool.stride=2,-1",
        ("stride=-1", "pool.stride", "from 1 to", "got -1"),
        2,
        keeps=("outputs/*/*/max*/*/results.json",),
        out=("1 done, 1 failed",),
    ),
    Fault(
        "the sweep is stopped",
        f"train {TWO}",
        ("max", "by SIGTERM", GOES_ON),
        143,
        signalled(signal.SIGTERM),
        ("outputs/*/*/max*/*/checkpoints/last.ckpt",),
        out=("1 stopped, 1 not run",),
    ),
    Fault(
        "jobs' processes are killed",
        f"train {TWO} launch=processes",
        ("killed by SIGKILL (out of memory?)", "output.log"),
        1,
        killed_jobs,
        out=("2 failed",),
    ),
]
