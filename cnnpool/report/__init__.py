"""Run folders -> tables, statistics, plots; ``main`` is ``cnnpool compare``.

As a library: ``cnnpool.report.comparison.compare(find(["outputs/mnist"]))``.
"""

from cnnpool.report.command import main
from cnnpool.report.runs import Run, find

__all__ = ["Run", "find", "main"]
