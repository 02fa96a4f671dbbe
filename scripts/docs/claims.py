"""Write docs/claims.md, and every case's number for each seed as docs/claims.csv, from runs on disk.

The sweeps that make them stand in conf/experiment/claims.yaml.
"""

import argparse
import sys
from pathlib import Path

from cnnpool.claims import notes, page, settle
from cnnpool.report import find

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("runs", nargs="+", help="folders of runs, or folders above them")
parser.add_argument("--allow", default="", metavar="KEY,...", help="what may differ among runs compared")
arguments = parser.parse_args()
runs, allow = find(arguments.runs), [key for key in arguments.allow.split(",") if key]
command = ["python", "scripts/docs/claims.py", *sys.argv[1:]]
folder = Path(__file__).resolve().parents[2] / "docs"
files = page.files(settle(runs, allow), notes(runs, allow), command)
for name in ("claims.md", "claims.csv"):
    (folder / name).write_bytes(files[name])
print(f"wrote {folder / 'claims.md'} and claims.csv")
