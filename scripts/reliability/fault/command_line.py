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
    Fault("a size of nothing", "train pool.kernel_size=0", ("pool.kernel_size", "from 1 to", "got 0")),
    Fault("padding above half the window", "train pool.padding=2", ("pool.padding", "at most half", "got 2")),
    Fault(
        "a window larger than the map", "train pool.kernel_size=50", ("stage s1", "28x28", "smaller kernel")
    ),
    Fault("a stage that the model lacks", "train pool@stage.s4=avg", ("stage.s4", "it has s1, s2")),
    Fault("a learning rate that is not a number", "train fit.lr=nan", ("fit.lr", "a number", "got nan")),
    Fault("a seed too large", f"train seed={2**70}", ("seed", "4,294,967,295", str(2**70))),
    Fault("a probe that does not exist", "train +probe.nosuch.samples=3", ("'nosuch'", "choose from")),
    Fault("a mandatory value left out", "train data.root=???", ("data.root", "Missing", "data.root=VALUE")),
    Fault("an environment variable unset", "train seed=${oc.env:NOPE}", UNSET),
    Fault("a sweep without -m", "train pool=max,avg", ("cnnpool train -m pool=max,avg", "quote the value")),
    Fault("a sweep of a million", "train -m seed=range(1000000)", ("more than 10000", "--max-jobs")),
    Fault("a sweep of nothing", "train -m pool=glob(zz*)", ("pool=glob(zz*)", "nothing to run")),
    Fault("options in place of a choice", "train pool={name:avg}", ("pool={name:avg}", "by its name")),
    Fault("a word that sets nothing", "train pool", ("pool:", "key=value")),
    Fault("an option that does not exist", "train --nosuch", ("--nosuch", "see --help")),
    Fault("a secret among the settings", "train +api_token=s3cr3t", ("api_token", "the environment")),
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
    Fault("an operator to explain that does not exist", "explain maxx", ("maxx", "did you mean")),
    Fault("a suite that does not exist", "bench nosuch", ("nosuch", "pool", "--help")),
    Fault(
        "code by +_target_", "train +pool._target_=os.system", ("_target_", "cannot name code", "entry point")
    ),
    Fault(
        "another search path",
        "train hydra.searchpath=[file:///tmp]",
        ("hydra.searchpath", "cannot name code"),
    ),
]
