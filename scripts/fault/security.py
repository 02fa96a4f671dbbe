"""Settings that would run code."""

from fault.attempt import MINE, Fault
from fault.setting import write

SECURITY = [
    Fault(
        "code by +_target_", "train +pool._target_=os.system", ("_target_", "cannot name code", "entry point")
    ),
    Fault(
        "code by _target_ in a file",
        MINE,
        ("mine.yaml", "cannot name code", "entry point"),
        before=write("mine/pool/mine.yaml", "name: max\n_target_: os.system\n"),
    ),
    Fault(
        "another search path",
        "train hydra.searchpath=[file:///tmp]",
        ("hydra.searchpath", "cannot name code"),
    ),
    Fault(
        "a logging factory",
        "train +hydra.job_logging.handlers.x={'()':os.system}",
        ("hydra.job_logging", "cannot name code"),
    ),
    Fault(
        "a callback", "train +hydra.callbacks.x._target_=os.system", ("hydra.callbacks", "cannot name code")
    ),
]
