"""The claims with their evidence, for the terminal and as files."""

import json
import shlex
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from cnnpool.claims.case import Case, Finding
from cnnpool.report import html, markdown
from cnnpool.report.document import Block, Code, Heading, Items, Paragraph, Table, agreed
from cnnpool.report.runs import Run
from cnnpool.tables import Column, csv

TITLE = "What the textbook says, and what these runs say"
MOST_CASES = 6
READING = (
    "Each number is a mean over n seeds with its 95 % t interval; sd is the standard deviation over seeds, "
    "in the same unit. A difference is paired by seed. The verdict follows from the cases by the rule that "
    "stands with the claim: it holds if every case that can be told says yes, does not hold if every one "
    "says no, else it holds only under the circumstances in which all say yes. Where fewer than half of the "
    "cases can be told, it is left open. It speaks for these runs: this data, these networks, this recipe."
)


def text(findings: Sequence[Finding], notes: Sequence[str], width: int) -> str:
    """Every claim with its verdict and some of its cases, in lines of at most ``width`` characters."""
    lines = []
    for one in findings:
        lines += [*textwrap.wrap(one.statement, width), f"  {one.verdict}"]
        for case in _some(one.cases):
            lines += textwrap.wrap(_line(case), width, initial_indent="    ", subsequent_indent="      ")
        if len(one.cases) > MOST_CASES:
            lines.append(f"    and {len(one.cases) - MOST_CASES} more, all of them in the report")
        # A command is copied: it stays one line.
        lines += [f"  {'more seeds' if one.cases else 'run'}: {one.needs}", ""] if one.open else [""]
    if notes:
        lines += ["notes", *(f"  {note}" for note in notes), ""]
    return "\n".join(lines)


def _some(cases: Sequence[Case]) -> list[Case]:
    """The cases that are shown: yes, no and undecided ones in turn."""
    seen: Counter[str] = Counter()
    turns = []
    for place, case in enumerate(cases):
        seen[case.word] += 1
        turns.append((seen[case.word], place))
    return [cases[place] for _, place in sorted(turns)[:MOST_CASES]]


def _line(case: Case) -> str:
    number = f"{case.what} {case.number}" + ("" if case.exact else f", n={case.count}")
    return f"{case.word}: {number} (claimed or expected: {case.expected}); {case.where}; {case.when}"


def files(findings: Sequence[Finding], notes: Sequence[str], command: Sequence[str]) -> dict[str, bytes]:
    """claims.md, claims.html, claims.json and claims.csv by name."""
    blocks = compose(findings, notes, command)
    return {
        "claims.md": markdown.render(TITLE, blocks).encode(),
        "claims.html": html.render(TITLE, blocks).encode(),
        "claims.json": (json.dumps(_record(findings, command), indent=1, ensure_ascii=False) + "\n").encode(),
        "claims.csv": csv(values(findings)).encode(),
    }


def compose(findings: Sequence[Finding], notes: Sequence[str], command: Sequence[str]) -> list[Block]:
    """The page's blocks.

    Args:
        findings: every claim's.
        notes: what a reader must also know.
        command: the command that made the page, word by word.
    """
    overview = Table(
        [
            Column("claim", [one.statement for one in findings], words=True),
            Column("verdict", [one.verdict for one in findings], words=True),
        ]
    )
    blocks: list[Block] = [Paragraph(READING), overview]
    blocks += [Heading("Warnings"), Items([("", note) for note in notes])] if notes else []
    for one in findings:
        blocks += _section(one)
    runs = list({id(run): run for one in findings for case in one.cases for run in case.runs}.values())
    if runs:
        blocks += [Heading("What ran"), Items(_provenance(runs)), Code("\n".join(_commands(runs)))]
    return [*blocks, Heading("Made by"), Code(shlex.join(command))]


def values(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """A record per case: what it is of, and its number for each seed, as a share where the page says %."""
    seeds = sorted({seed for one in findings for case in one.cases for seed in case.values})
    return [
        {"claim": one.name, "says": case.word, "when": case.when, "runs": case.where, "number": case.what}
        | {f"seed {seed}": case.values.get(seed) for seed in seeds}
        for one in findings
        for case in one.cases
    ]


def _section(one: Finding) -> list[Block]:
    said = [("Verdict", one.verdict), ("Measured", one.measured), ("Rule", one.rule)]
    blocks: list[Block] = [Heading(one.statement), Items(said)]
    if one.cases:
        blocks.append(Table(_columns(one.cases)))
    if one.open:
        what = "The runs that test it, of which more seeds may decide the rest:" if one.cases else "Needs:"
        blocks += [Paragraph(what), Code(one.needs)]
    return blocks


def _columns(cases: Sequence[Case]) -> list[Column]:
    return [
        Column("says", [case.word for case in cases], words=True),
        Column("when", [case.when for case in cases], words=True),
        Column("runs", [case.where for case in cases], words=True),
        Column("number", [case.what for case in cases], words=True),
        Column("mean [95 % CI]", [case.number for case in cases]),
        Column("sd", [case.spread for case in cases]),
        Column("n", [case.count for case in cases]),
        Column("claimed or expected", [case.expected for case in cases], words=True),
    ]


def _provenance(runs: Sequence[Run]) -> list[tuple[str, str]]:
    results = [run.results for run in runs]
    data = sorted({f"{one.images_of} ({str(one.data_sha256)[:12]})" for one in results})
    environment = agreed([one.environment for one in results])
    epochs = sorted({str(one.epochs if one.epochs is not None else "unknown") for one in results})
    return [
        ("Runs", str(len(runs))),
        ("Data, sha256", ", ".join(data)),
        ("Epochs", ", ".join(epochs)),
        ("Machine and versions", ", ".join(f"{key} {value}" for key, value in environment.items())),
    ]


def _commands(runs: Iterable[Run]) -> list[str]:
    """A line per choice, all its seeds together."""
    seeds: dict[str, set[int]] = {}
    for run in runs:
        words = [word for word in run.results.overrides if not word.startswith("seed=")]
        seeds.setdefault(shlex.join(words), set()).add(run.seed)
    return [
        f"cnnpool train -m {words} seed={','.join(map(str, sorted(found)))}" for words, found in seeds.items()
    ]


def _record(findings: Sequence[Finding], command: Sequence[str]) -> dict[str, Any]:
    return {
        "schema": 1,
        "command": list(command),
        "claims": [
            {
                "name": one.name,
                "statement": one.statement,
                "verdict": one.verdict,
                "cases": [_case(case) for case in one.cases],
            }
            for one in findings
        ],
    }


def _case(case: Case) -> dict[str, Any]:
    s = case.summary
    numbers = {"mean": s.mean, "sd": s.sd, "ci_low": s.low, "ci_high": s.high}
    return {
        "when": case.when,
        "where": case.where,
        "what": case.what,
        "n": s.n,
        **{key: value if value == value else None for key, value in numbers.items()},
        "holds": case.holds,
        "runs": [str(run.folder) for run in case.runs],
    }
