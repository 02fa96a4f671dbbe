"""Settings that would run code."""

from scripts.reliability.fault.attempt import MINE, Fault
from scripts.reliability.fault.setting import write

GLOBAL = "# @package _global_\n"
EVIL = "train --config-dir mine experiment=evil"

SECURITY = [
    Fault(
        "code by +_target_", "train +pool._target_=os.system", ("_target_", "cannot name code", "entry point")
    ),
    Fault(
        "code by _target_ in a file",
        MINE,
        ("pool._target_", "cannot name code", "entry point"),
        before=write("mine/pool/mine.yaml", "name: max\n_target_: os.system\n"),
    ),
    Fault(
        "code by an escaped key in a file",
        EVIL,
        ("hydra.callbacks.x", "cannot name code", "entry point"),
        before=write(
            "mine/experiment/evil.yaml",
            f'{GLOBAL}hydra: {{callbacks: {{x: {{"\\x5ftarget_": os.system}}}}}}\n',
        ),
    ),
    Fault(
        "a package by a file's search path",
        "train --config-dir mine --config-name evil",
        ("mine/evil.yaml", "hydra.searchpath", "cannot name code"),
        before=write("mine/evil.yaml", "defaults: [train, _self_]\nhydra: {searchpath: [pkg://harm]}\n"),
    ),
    Fault(
        "a pickled run", "train --experimental-rerun=x.pickle", ("--experimental-rerun=x.pickle", "--help")
    ),
    Fault(
        "another search path",
        "train hydra.searchpath=[file:///tmp]",
        ("hydra.searchpath", "cannot name code"),
    ),
    Fault(
        "a logging factory",
        "train +hydra.job_logging.handlers.x={class:os.system}",
        ("hydra.job_logging", "cannot name code"),
    ),
    Fault(
        "a callback", "train +hydra.callbacks.x._target_=os.system", ("hydra.callbacks", "cannot name code")
    ),
]
