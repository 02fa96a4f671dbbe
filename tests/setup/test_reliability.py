"""docs/reliability.md and docs/faults.md say what was measured."""

import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "scripts"))

from reliability_page import ROWS, faults, page

ROOT = Path(__file__).parents[2]
KEPT = json.loads((ROOT / "docs" / "reliability.json").read_text())


def test_the_committed_pages_are_what_the_results_say():
    assert (ROOT / "docs" / "reliability.md").read_text() == page(KEPT)
    assert (ROOT / "docs" / "faults.md").read_text() == faults(KEPT)


def test_what_was_measured_held():
    assert set(KEPT) <= set(ROWS)
    assert [command for parts in KEPT.values() for command, one in parts.items() if one["status"]] == []
