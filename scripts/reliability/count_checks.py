"""Run tests, and count what they ask: comparisons, numerical derivatives, examples of hypothesis.

usage: python scripts/reliability/count_checks.py TESTS...   (patterns of file names)

Prints one JSON object; status 1 if a test failed.
"""

import io
import json
import re
import sys
from collections import Counter
from contextlib import redirect_stdout
from glob import glob

import pytest
import torch

COUNTED = {
    "compared": ((torch, "equal"), (torch, "allclose"), (torch.testing, "assert_close")),
    "first derivatives": ((torch.autograd, "gradcheck"),),
    "second derivatives": ((torch.autograd, "gradgradcheck"),),
}


class Results:
    """Counts tests by how they ended."""

    def __init__(self) -> None:
        self.tests = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.skipped:
            self.tests[report.outcome] += 1


def main(arguments: list[str]) -> int:
    counts, results, said = Counter(), Results(), io.StringIO()
    for name, functions in COUNTED.items():
        for module, function in functions:
            setattr(module, function, counting(getattr(module, function), counts, name))
    paths = sorted(path for pattern in arguments for path in glob(pattern))
    with redirect_stdout(said):
        status = pytest.main(
            ["-q", "-p", "no:cacheprovider", "--hypothesis-show-statistics", *paths], plugins=[results]
        )
    examples = sum(int(n) for n in re.findall(r"- (\d+) passing,", said.getvalue()))
    print(json.dumps({**results.tests, **counts, "examples of hypothesis": examples}))
    return int(status != 0)


def counting(function, counts: Counter, name: str):
    def call(*arguments, **options):
        counts[name] += 1
        return function(*arguments, **options)

    return call


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
