"""docs/reliability.md and docs/faults.md say what was measured, by scripts that are still there."""

import json
from pathlib import Path

import pytest

from scripts.reliability import null_logs
from scripts.reliability.__main__ import MEASUREMENTS, ROWS, faults, page
from scripts.reliability.same_against_same import verdict

ROOT = Path(__file__).parents[2]
KEPT = json.loads((ROOT / "docs" / "reliability.json").read_text())
PAGE = (ROOT / "docs" / "reliability.md").read_text()


def test_the_committed_pages_are_what_the_results_say():
    assert page(KEPT, PAGE) == PAGE
    assert (ROOT / "docs" / "faults.md").read_text() == faults(KEPT)


def test_what_was_measured_held():
    assert set(KEPT) <= set(ROWS)
    assert [command for parts in KEPT.values() for command, one in parts.items() if one["status"]] == []


def test_an_operator_against_itself_differs_by_nothing_and_a_planted_difference_is_found():
    values = [0.8 + 0.01 * (7 * seed % 11) for seed in range(20)]
    said, mean = verdict(values, values)
    assert said.startswith("no difference shown") and mean == 0.0
    said, mean = verdict(values, [value + 0.05 - 0.001 * (k % 3) for k, value in enumerate(values)])
    assert said == "better" and mean == pytest.approx(0.05 - 0.001 * (6 * 3 + 1) / 20)


def test_every_measurement_is_a_command_that_can_be_given_again():
    assert all(set(parts) <= set(MEASUREMENTS[name]) for name, parts in KEPT.items())
    commands = [command for parts in MEASUREMENTS.values() for command in parts]
    assert all((ROOT / command.split()[0]).is_file() for command in commands)


def test_groups_that_do_not_differ_are_seldom_told_apart(tmp_path):
    # Of 60 comparisons of independent groups 4 in 100 hold a false word: 9 are seen less than once in 1,000.
    for n, paired in ((3, False), (6, True)):
        assert null_logs.share(tmp_path / "runs.csv", n, n, paired, 60) < 9 / 60
