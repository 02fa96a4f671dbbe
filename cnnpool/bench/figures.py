"""Rows of the suites that measure whole runs: in the terminal, and as a table of the documentation."""

from typing import Any

TITLES = {
    "train": "Training",
    "mnist": "MNIST to an accuracy",
    "start": "From the command to an answer",
    "sweep": "Sweeps",
}
MISSED = {
    "train": "Against torchvision's way: convolutions take most of a step, whoever hands out the images; the "
    "bare loop, too, stays below the figure wanted. Probes: the last row is what their readings take by "
    "their own clock; the two whole runs of the row above it differ by more than that.",
    "mnist": "The figure wanted was reckoned from machines on which the example takes 200 to 290 s. To be 60 "
    "times as fast as it is here, the command would have to end about when torch is imported and the images "
    "are read.",
    "sweep": "Runs one after the other in a process import everything once, and each has all cores: several "
    "at once gain only what threads within one training leave unused.",
}
"""Why a figure that is wanted may be missed."""
LINE = "{:<46}{:>12}{:>12}  {:<8}{:>9}  {:<15}{:<12}\n"


def row(case: str, unit: str, ours: float, rival: float, against: str, ratio: dict, wanted: str) -> dict:
    """One figure of ours beside a rival's.

    Args:
        case: what is measured.
        unit: of ``ours`` and ``rival``.
        against: who the rival is.
        ratio: median and quartiles over turns, as ``cnnpool.bench.measure.ratio`` gives them.
        wanted: the target, in words.
    """
    figures = {"ours": ours, "rival": rival, "unit": unit, "ratio": ratio}
    return {"case": case, "against": against, "wanted": wanted, **figures}


def header() -> str:
    return LINE.format("case", "ours", "rival", "unit", "ratio", "quartiles, n", "wanted")


def line(row: dict[str, Any]) -> str:
    """One row in the terminal."""
    ratio = row["ratio"]
    spread = f"[{ratio['q1']:.2f} {ratio['q3']:.2f}] {ratio['n']}"
    return LINE.format(
        row["case"],
        f"{row['ours']:.4g}",
        f"{row['rival']:.4g}",
        row["unit"],
        f"{ratio['median']:.3f}",
        spread,
        row["wanted"],
    )


def table(rows: list[dict[str, Any]]) -> str:
    """All rows as Markdown."""
    lines = ["| what | ours | against | unit | ratio (quartiles, n) | wanted |", "|---|---|---|---|---|---|"]
    for row in rows:
        ratio = row["ratio"]
        lines.append(
            f"| {row['case']} | {row['ours']:.4g} | {row['rival']:.4g} ({row['against']}) | {row['unit']} "
            f"| **{ratio['median']:.3g}** ({ratio['q1']:.3g} to {ratio['q3']:.3g}, {ratio['n']}) "
            f"| {row['wanted']} |"
        )
    return "\n".join(lines) + "\n"


def section(results: dict[str, Any]) -> str:
    """One results file as a section of docs/performance.md."""
    return f"## {TITLES[results['suite']]}\n\n{setting(results)}\n{table(results['rows'])}"


def setting(results: dict[str, Any]) -> str:
    """What was run, where and when."""
    machine = results["machine"]
    threads = f"{machine['threads']} thread{'s' if machine['threads'] > 1 else ''}"
    return (
        f"`{results['command']}`, {machine['date']}, commit {machine['commit']}; {machine['processor']}, "
        f"{machine['cores']} cores, {threads}, torch {machine['torch']}, load average {machine['load']} at "
        f"the end.\n"
    )
