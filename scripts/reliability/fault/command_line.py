"""Mistakes on the command line and in the files it names."""

from scripts.reliability.fault.attempt import MINE, Fault
from scripts.reliability.fault.setting import write

UNSET = ("environment variable NOPE is not set", "set it, or give a default by ${oc.env:NOPE,DEFAULT}")

COMMAND_LINE = [
    Fault("a command that does not exist", "trian", ("trian", "did you mean 'train'")),
    Fault("a misspelt key", "train lrr=1", ("'lrr'", "did you mean 'fit.lr'?")),
    Fault("a new key by +", "train +extra=1", ("'extra'", "known are data")),
    Fault("an option that the operator lacks", "train +pool.extra=1", ("'extra'", "choose from")),
    Fault("an operator that does not exist", "train pool=maxx", ("pool/maxx", "did you mean 'max'?")),
    Fault("one of a sweep's operators does not exist", "train -m pool=max,nosuch", ("pool/nosuch", "choose")),
    Fault(
        "a size that is a word",
        "train pool.kernel_size=abc",
        ("pool.kernel_size", "a whole number", "got 'abc'"),
    ),
    Fault("a size of nothing", "train pool.kernel_size=0", ("pool.kernel_size", "from 1 to", "got 0")),
    Fault("a negative size", "train pool.kernel_size=-1", ("pool.kernel_size", "from 1 to", "got -1")),
    Fault("half a pixel", "train pool.kernel_size=2.5", ("pool.kernel_size", "a whole number", "got 2.5")),
    Fault(
        "three axes", "train pool.kernel_size=[2,2,2]", ("pool.kernel_size", "two of them", "got [2, 2, 2]")
    ),
    Fault("padding above half the window", "train pool.padding=2", ("pool.padding", "at most half", "got 2")),
    Fault(
        "a window larger than the map", "train pool.kernel_size=50", ("stage s1", "28x28", "smaller kernel")
    ),
    Fault("maps that shrink to nothing", "train pool.stride=100", ("stage s2", "1x1", "fewer stages")),
    Fault(
        "a size beyond 64 bits",
        f"train pool.kernel_size={2**63}",
        ("pool.kernel_size", "from 1 to", str(2**63)),
    ),
    Fault("a stage that the model lacks", "train pool@stage.s4=avg", ("stage.s4", "it has s1, s2")),
    Fault("a learning rate that is not a number", "train fit.lr=nan", ("fit.lr", "a number", "got nan")),
    Fault("a learning rate with a letter", "train fit.lr=1e-3x", ("fit.lr", "a number", "got '1e-3x'")),
    Fault("an infinite learning rate", "train fit.lr=inf", ("fit.lr", "finite", "got inf")),
    Fault("no seed", "train seed=", ("seed", "a whole number", "got ''")),
    Fault("a seed too large", f"train seed={2**70}", ("seed", "4,294,967,295", str(2**70))),
    Fault("negative epochs", "train fit.epochs=-1", ("fit.epochs", "from 1 to", "got -1")),
    Fault("batches of nothing", "train data.batch_size=0", ("data.batch_size", "from 1 to", "got 0")),
    Fault("a network of no width", "train model.width=0", ("model.width", "from 1 to", "got 0")),
    Fault("a probe that does not exist", "train +probe.nosuch.samples=3", ("'nosuch'", "choose from")),
    Fault("a mandatory value left out", "train data.root=???", ("data.root", "Missing", "data.root=VALUE")),
    Fault("a reference to nothing", "train out=${nosuch.key}", ("nosuch.key", "not found", "give a value")),
    Fault("an environment variable unset", "train seed=${oc.env:NOPE}", UNSET),
    Fault(
        "an environment variable unset in a folder's name",
        "train hydra.run.dir='${oc.env:NOPE}/here'",
        UNSET,
    ),
    Fault("a sweep without -m", "train pool=max,avg", ("cnnpool train -m pool=max,avg", "quote the value")),
    Fault("a range without -m", "train seed=range(3)", ("cnnpool train -m seed=range(3)",)),
    Fault("a sweep of a million", "train -m seed=range(1000000)", ("more than 10000", "--max-jobs")),
    Fault("a sweep of nothing", "train -m pool=glob(zz*)", ("pool=glob(zz*)", "nothing to run")),
    Fault("options in place of a choice", "train pool={name:avg}", ("pool={name:avg}", "by its name")),
    Fault("a single run's folder for a sweep", "train -m seed=0,1 hydra.run.dir=x", ("hydra.sweep.dir",)),
    Fault("a word that sets nothing", "train pool", ("pool:", "key=value")),
    Fault("a quote left open", "train pool='max", ("pool='max", "key=value")),
    Fault("a choice by a list", "train fit=[1]", ("fit=[1]", "by its name")),
    Fault("nothing in place of a choice", "train ~pool", ("~pool", "pool=VALUE")),
    Fault("an option that does not exist", "train --nosuch", ("--nosuch", "see --help")),
    Fault("a shortened option", "train --config-di=mine", ("--config-di=mine", "see --help")),
    Fault("a secret among the settings", "train +api_token=s3cr3t", ("api_token", "the environment")),
    Fault(
        "a secret in a sweep", "train -m seed=0,1 +data.password=s3cr3t", ("data.password", "the environment")
    ),
    Fault(
        "a file with a tab",
        MINE,
        ("mine.yaml", "line 2"),
        before=write("mine/pool/mine.yaml", "name: max\n\tk: 2"),
    ),
    Fault(
        "a key twice in a file",
        MINE,
        ("mine.yaml", "duplicate key"),
        before=write("mine/pool/mine.yaml", "name: max\nname: avg"),
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
    Fault("an empty folder name", "train out=", ("out=", "names no folder")),
    Fault("an operator to explain that does not exist", "explain maxx", ("maxx", "did you mean")),
    Fault("a suite that does not exist", "bench nosuch", ("nosuch", "pool", "--help")),
]
