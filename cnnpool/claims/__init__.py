"""Textbook claims about downsampling, each settled by a rule from runs on disk: ``settle``.

A claim is a function from evidence to cases; its docstring states it, and says what is measured, by which
rule it is judged, and which runs it needs.
"""

import inspect
from collections import Counter
from collections.abc import Callable, Sequence

from cnnpool.claims import page
from cnnpool.claims.average_is_clean import average_is_clean
from cnnpool.claims.batch_covers import batch_covers
from cnnpool.claims.blur_accurate import blur_accurate
from cnnpool.claims.blur_improves import blur_improves
from cnnpool.claims.blur_is_invariant import blur_is_invariant
from cnnpool.claims.blur_one_px import blur_one_px
from cnnpool.claims.blur_robust import blur_robust
from cnnpool.claims.case import Case, Finding, verdict
from cnnpool.claims.evidence import Evidence
from cnnpool.claims.global_average import global_average
from cnnpool.claims.max_is_sparse import max_is_sparse
from cnnpool.claims.max_over_average import max_over_average
from cnnpool.claims.max_wins import max_wins
from cnnpool.claims.maximum_bias import maximum_bias
from cnnpool.claims.overlap_regularises import overlap_regularises
from cnnpool.claims.routed_then_averaged import routed_then_averaged
from cnnpool.claims.small_shifts import small_shifts
from cnnpool.claims.strided_instead import strided_instead
from cnnpool.claims.strided_is_sparse import strided_is_sparse
from cnnpool.report.runs import Run, finished

CLAIMS: dict[str, Callable[[Evidence], list[Case]]] = {
    "max_is_sparse": max_is_sparse,
    "strided_is_sparse": strided_is_sparse,
    "routed_then_averaged": routed_then_averaged,
    "batch_covers": batch_covers,
    "small_shifts": small_shifts,
    "max_over_average": max_over_average,
    "maximum_bias": maximum_bias,
    "average_is_clean": average_is_clean,
    "blur_accurate": blur_accurate,
    "blur_improves": blur_improves,
    "blur_one_px": blur_one_px,
    "blur_robust": blur_robust,
    "blur_is_invariant": blur_is_invariant,
    "global_average": global_average,
    "overlap_regularises": overlap_regularises,
    "strided_instead": strided_instead,
    "max_wins": max_wins,
}


def settle(runs: Sequence[Run], allow: Sequence[str] = ()) -> list[Finding]:
    """The finding of ``runs`` on every claim.

    Args:
        runs: as found by ``cnnpool.report.find``; unfinished ones are ignored.
        allow: keys that may differ among runs that are compared, beside the claim's own.

    Raises:
        ValueError: if no run is finished.
    """
    evidence = Evidence(finished(runs), allow)
    return [finding(name, evidence) for name in CLAIMS]


def notes(runs: Sequence[Run], allow: Sequence[str] = ()) -> list[str]:
    """Caveats of the verdicts on ``runs``: those missing, and code that differs."""
    states = Counter(run.state for run in runs)
    missing = [f"{count} {state}" for state, count in states.items() if state != "done"]
    found = [f"of {len(runs)} runs found, {', '.join(missing)}: they say nothing here"] if missing else []
    environments = [run.results.environment for run in runs if run.found]
    commits = {one.get("commit") for one in environments}
    if len(commits) > 1 and not {"environment", "environment.commit"} & set(allow):
        found.append(
            f"the runs come from {len(commits)} commits: each difference is one between runs of the same "
            "commit, unless --allow environment.commit is given"
        )
    if any(one.get("dirty") for one in environments):
        found.append("some runs came from a working tree with uncommitted changes")
    return found


def judge(
    runs: Sequence[Run], allow: Sequence[str], command: Sequence[str], width: int
) -> tuple[str, dict[str, bytes]]:
    """The verdicts of ``runs``, unfinished ones among them, as text and as files by name.

    Args:
        runs: as for ``settle`` and ``notes``.
        allow: keys that may differ among runs that are compared.
        command: the command that asked, word by word.
        width: characters of a line of the text.

    Raises:
        ValueError: if no run is finished.
    """
    findings, said = settle(runs, allow), notes(runs, allow)
    return page.text(findings, said, width), page.files(findings, said, command)


def finding(name: str, evidence: Evidence) -> Finding:
    """The finding of ``evidence`` on one claim."""
    claim = CLAIMS[name]
    statement, *parts = (" ".join(part.split()) for part in (inspect.getdoc(claim) or "").split("\n\n"))
    said = dict(part.split(": ", 1) for part in parts)
    return Finding(name, statement, said["Measured"], said["Rule"], said["Needs"], claim(evidence))


__all__ = ["CLAIMS", "Case", "Evidence", "Finding", "finding", "judge", "notes", "settle", "verdict"]
