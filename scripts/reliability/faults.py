"""Make users' mistakes and break their files, with the commands that they type, and check the answers.

usage: python scripts/reliability/faults.py [WORD | PART/PARTS]

Each fault of scripts/reliability/fault (those whose description has WORD in it, or of PARTS the one numbered
PART, from 0) is tried in a folder of its own. A fault is answered if the command ends with the right exit
status and one line on stderr that names the cause and the remedy, without a traceback, and loses nothing.
Prints one JSON object; status 1 if one is not.
"""

import io
import json
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path

import torch

from scripts.reliability import setting
from scripts.reliability.attempt import GOES_ON, MINE, Fault, attempt


def of_file(what, path, content, *says):
    """A fault of a file of settings."""
    return Fault(what, MINE, says, before=setting.write(path, content))


HERE, KEPT = "train hydra.run.dir=here", ("here/checkpoints/last.ckpt",)
RESULTS = "outputs/*/*/max*/*/results.json"
UNSET = ("environment variable NOPE is not set", "set it, or give a default by ${oc.env:NOPE,DEFAULT}")
TWO = "-m pool=max,avg"

FAULTS = [
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
    Fault("a word that sets nothing", "train pool", ("pool:", "KEY=VALUE")),
    of_file("a file with a tab", "mine/pool/mine.yaml", "name: max\n\tk: 2", "mine.yaml", "line 2"),
    of_file(
        "a file that is not UTF-8", "mine/pool/mine.yaml", b"name: max\xff", "mine.yaml", "UTF-8", "save it"
    ),
    of_file(
        "a file that stands for one of ours",
        "mine/pool/max.yaml",
        "name: avg",
        "mine/pool/max.yaml",
        "another name",
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
        before=setting.without_network_or_proxy,
    ),
    Fault(
        "random bytes for a packed file",
        "train data=mnist data.download=false data.root=none",
        ("none/MNIST/raw", "set data.download=true"),
        before=setting.write("none/MNIST/raw/train-images-idx3-ubyte.gz", os.urandom(1000)),
    ),
    Fault(
        "a class without training images",
        "train data=image_folder data.root=photos",
        ("photos/test/bee", "photos/train lacks", "remove it"),
        before=lambda: setting.images(lambda path: path.parent.rename(path.parents[2] / "test" / "cow")),
    ),
    Fault("Ctrl-C", HERE, ("by SIGINT at step 1", GOES_ON), 130, setting.signalled(signal.SIGINT), KEPT),
    Fault(
        "too little memory",
        f"{HERE} data.size=100 model.width=256",
        ("out of memory with data.batch_size=128", "lower it"),
        1,
        setting.little_memory,
    ),
    Fault(
        "more epochs on resume",
        f"{HERE} fit.epochs=3",
        ("last.ckpt", "fit.epochs: 1 -> 3", "another folder"),
        2,
        setting.cut_with(),
        KEPT,
    ),
    Fault(
        "a flipped bit in the only checkpoint",
        HERE,
        ("last.ckpt is damaged", "delete it"),
        2,
        setting.cut_with(lambda: setting.flip_bit(setting.LAST)),
        ("here/metrics.jsonl",),
    ),
    Fault(
        "a flipped bit in the last checkpoint",
        f"{HERE} fit.epochs=2",
        (),
        0,
        setting.cut_with(
            lambda: setting.flip_bit(setting.LAST), "fit.epochs=2", "fit.checkpoint_every_minutes=0"
        ),
        lines=0,
        out=("last.ckpt is damaged", "going on from previous.ckpt"),
    ),
    Fault(
        "a job needs too much memory",
        f"train {TWO}",
        ("avg", "out of memory", "lower it"),
        1,
        setting.failing,
        (RESULTS,),
        out=("1 done, 1 failed",),
    ),
    Fault(
        "a job is a mistake",
        "train -m pool=max pool.stride=2,-1",
        ("pool.stride", "from 1 to", "got -1"),
        2,
    ),
    Fault(
        "the sweep is stopped",
        f"train {TWO}",
        ("max", "by SIGTERM", GOES_ON),
        143,
        setting.signalled(signal.SIGTERM),
        ("outputs/*/*/max*/*/checkpoints/last.ckpt",),
        out=("1 stopped, 1 not run",),
    ),
    Fault(
        "jobs' processes are killed",
        f"train {TWO} launch=processes",
        ("killed by SIGKILL (out of memory?)", "output.log"),
        1,
        setting.killed_jobs,
        out=("2 failed",),
    ),
    Fault(
        "a file in the run's place",
        "train out=file",
        ("file", "another folder"),
        before=setting.write("file", ""),
    ),
    Fault(
        "a working directory that was removed",
        "train",
        ("working directory", "cd to"),
        before=setting.removed,
    ),
    Fault(
        "a folder of another finished run",
        f"{HERE} pool=avg",
        ("here", "pool.name: max -> avg", "another folder"),
        before=setting.trained,
        keeps=("here/results.json",),
    ),
    Fault(
        "the disk is full at a checkpoint",
        f"{HERE} fit.epochs=3",
        ("No space left on device", GOES_ON),
        1,
        setting.disk_full_after(16),
        KEPT,
    ),
    Fault(
        "other images, the same settings",
        f"{HERE} data=image_folder data.root=photos",
        ("finished run on other data", "data_sha256: ", "another folder"),
        before=setting.other_images,
        keeps=("here/results.json",),
    ),
    Fault(
        "a sweep over folders of images",
        "train -m data=image_folder data.root=photos,insects",
        ("data.root differs between the jobs",),
        0,
        setting.two_folders,
        ("outputs/*photos*/*/*/*/results.json", "outputs/*insects*/*/*/*/results.json"),
        out=("2 jobs: 2 done",),
    ),
    Fault(
        "the run's folder is deleted while it trains",
        f"{HERE} fit.epochs=3",
        ("here", "was deleted", "while its run was running"),
        1,
        setting.deleted,
    ),
    Fault(
        "other kernels on resume",
        HERE,
        (),
        0,
        setting.cut_with(setting.without_kernels),
        lines=0,
        out=("trained with compiled kernels: faster so far, now with compiled kernels: none",),
    ),
    Fault(
        "no finished run",
        "compare here",
        ("no finished run", "--status"),
        2,
        setting.cut_with(),
        ("here/metrics.jsonl",),
    ),
    Fault(
        "runs that cannot be compared",
        "compare runs",
        ("data_sha256", "tell them apart"),
        2,
        setting.two_kinds,
        ("runs/a/results.json",),
        3,
    ),
    Fault(
        "a failed run among the runs",
        "compare runs --no-board",
        (),
        0,
        setting.half_a_report,
        lines=0,
        out=("runs/b: failed: the loss became nan",),
    ),
    Fault("a model to probe that does not exist", "probe nosuch", ("nosuch", "torchvision:NAME")),
    Fault(
        "a damaged checkpoint to probe",
        "probe here",
        ("last.ckpt", "damaged"),
        2,
        lambda: (setting.trained(), setting.flip_bit(setting.LAST)),
        ("here/results.json",),
    ),
    Fault(
        "results.json cut short",
        "compare runs --no-board",
        (),
        0,
        setting.cut_short,
        ("runs/report/report.html",),
        0,
        ("runs/b/results.json is damaged",),
    ),
]


def main(arguments: list[str]) -> int:
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"
    # Under nohup runs outlive SIGHUP, and the closed terminal could not be tried.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    rows, unanswered = [], 0
    for fault in chosen(arguments[0] if arguments else ""):
        folder = Path(tempfile.mkdtemp())
        line, status, faulty = attempt(fault, folder)
        shutil.rmtree(folder)
        rows.append({"fault": fault.what, "command": fault.command, "said": line, "status": status})
        unanswered += bool(faulty)
        for each in faulty:
            print(f"{fault.what} ({fault.command}): {each}\n  {line}", file=sys.stderr)
    print(json.dumps({"faults": len(rows), "answered": len(rows) - unanswered, "rows": rows}))
    return int(unanswered > 0)


def wrong(what: str, folder: Path) -> list[str]:
    """All that is wrong with the answer to the fault that is described by ``what``, tried in ``folder``."""
    return attempt(next(fault for fault in FAULTS if fault.what == what), folder)[2]


def run(script: str, arguments: list[str]) -> tuple[int, str]:
    """Exit status and standard output of another script here, in this process, which has imported all."""
    with redirect_stdout(io.StringIO()) as said:
        status = import_module(f"scripts.reliability.{script}").main(arguments)
    return status, said.getvalue()


def chosen(which: str) -> Sequence[Fault]:
    """The faults with the word ``which`` in their description, or those of a part of all, as ``0/4``."""
    if found := re.fullmatch(r"(\d+)/(\d+)", which):
        part, parts = map(int, found.groups())
        return FAULTS[part * len(FAULTS) // parts : (part + 1) * len(FAULTS) // parts]
    return [fault for fault in FAULTS if which in fault.what]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
