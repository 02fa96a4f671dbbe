"""Write docs/claims.md from runs on disk; the sweeps that make them stand in conf/experiment/claims.yaml."""

import argparse
import sys
from pathlib import Path

from cnnpool.claims import notes, page, settle
from cnnpool.report import find, markdown

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("runs", nargs="+", help="folders of runs, or folders above them")
parser.add_argument("--allow", default="", metavar="KEY,...", help="what may differ among runs compared")
arguments = parser.parse_args()
runs, allow = find(arguments.runs), [key for key in arguments.allow.split(",") if key]
command = ["python", "scripts/docs/claims.py", *sys.argv[1:]]
path = Path(__file__).resolve().parents[2] / "docs" / "claims.md"
blocks = page.compose(settle(runs, allow), notes(runs, allow), command)
path.write_text(markdown.render(page.TITLE, blocks))
print(f"wrote {path}")
