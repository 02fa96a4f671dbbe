"""Make users' mistakes and break their files, with the commands that they type, and check the answers.

usage: python scripts/reliability/faults.py [WORD | PART/PARTS]

Each fault of scripts/reliability/fault (those whose description has WORD in it, or of PARTS the one numbered
PART, from 0) is tried in a folder of its own. A fault is answered if the command ends with the right exit
status and one line on stderr that names the cause and the remedy, without a traceback, and loses nothing.
Prints one JSON object; status 1 if one is not.
"""

import json
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

from scripts.reliability.fault.attempt import Fault, attempt
from scripts.reliability.fault.commands import COMMANDS
from scripts.reliability.fault.folders import FOLDERS

FAULTS = [*COMMANDS, *FOLDERS]


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


def chosen(which: str) -> Sequence[Fault]:
    """The faults with the word ``which`` in their description, or those of a part of all, as ``0/4``."""
    if found := re.fullmatch(r"(\d+)/(\d+)", which):
        part, parts = map(int, found.groups())
        return FAULTS[part * len(FAULTS) // parts : (part + 1) * len(FAULTS) // parts]
    return [fault for fault in FAULTS if which in fault.what]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
