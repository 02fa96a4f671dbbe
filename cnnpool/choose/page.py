"""The report of a study: the recommendation, what it rests on, what it cost, what stays open."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from cnnpool.choose import evidence
from cnnpool.choose.boundary import FIRST_ROUND
from cnnpool.choose.rounds import LEVEL
from cnnpool.choose.standing import amount, best, columns, rounds
from cnnpool.choose.study import Study, View
from cnnpool.report.document import Block, Code, Heading, Items, Paragraph, Table, agreed
from cnnpool.report.plots import Plot
from cnnpool.run_folder.results import Results

ENDS = {
    "one left": "all other candidates are dropped or out",
    "equivalent": "those left differ by less than the margin",
    "decided": "the cheapest candidate left is shown to lose less than the margin against every other",
    "all rounds": "all rounds that were planned are run",
    "budget": "no further round fits into the budget",
    "none left": "no candidate is left",
}
COSTS = {"flops": "arithmetic", "parameters": "parameters", "memory": "memory", "time": "time"}


@dataclass(frozen=True)
class Ending:
    """How a study ended.

    Args:
        view: where it stood then.
        reason: a key of ``ENDS``.
        command: the words that started it.
    """

    view: View
    reason: str
    command: Sequence[str]


def compose(study: Study, ending: Ending, plots: Sequence[Plot] = ()) -> tuple[str, list[Block]]:
    """The report's title and blocks."""
    view = ending.view
    blocks: list[Block] = [Paragraph(verdict(study, ending))]
    if view.recommended is not None:
        blocks += [Code(train_command(study, view.recommended))]
    blocks += [Heading("Candidates"), Table(columns(study, view)), Paragraph(LEGEND)]
    if gone := evidence.gone(study, view):
        blocks += [Heading("Dropped, and out"), Items(gone)]
    if undecided := evidence.undecided(study, view):
        blocks += [Heading("What the budget could not decide"), Items(undecided)]
    if test := evidence.on_test(study, view):
        blocks += [Heading("On the test images"), Paragraph(_of_test(study)), Table(test)]
    if study.options.tune:
        tuned = [(arm.label, " ".join(arm.tuned) or "nothing") for arm in study.arms]
        blocks += [Heading("Best on validation images, of the values tried first"), Items(tuned)]
    blocks += [Heading("Figures"), *plots] if plots else []
    blocks += [Heading("Cost of the study"), Items(evidence.cost(study, view))]
    blocks += [Heading("How it was decided"), Items(_method(study))]
    runs = _runs(study)
    blocks += [Heading("What ran"), Items(_provenance(study, runs))]
    blocks += [Heading("Made by"), Code(shlex.join(ending.command))]
    where = f" for {runs[0].model['name']} on {runs[0].images_of}" if runs else ""
    return f"Downsampling{where}, by {study.metric.title if study.metric else study.key}", blocks


LEGEND = (
    "Behind the best: mean difference to the best candidate left, over the rounds that both have. At most: "
    "upper bound of the loss against the best of the others left. All these bounds hold together with 95 %."
)


def verdict(study: Study, ending: Ending) -> str:
    """The recommendation in two or three sentences."""
    view, place = ending.view, ending.view.recommended
    done = rounds(view.done, "complete")
    ended = f"The study ended after {done}: {ENDS[ending.reason]}."
    if place is None:
        return f"No recommendation. {ended}"
    return f"Recommended: {study.arms[place].label}. {_reason(study, view, place)} {ended}"


def _reason(study: Study, view: View, place: int) -> str:
    name, left = study.arms[place].label, len(view.active)
    if left == 1:
        others = "was found worse, or is out" if view.out else "was found worse"
        return f"Every other candidate {others}."
    if place in view.state.not_worse:
        margin = amount(study, study.options.margin)
        said = f"Of {left} candidates left, {name} is shown to lose less than {margin} against every other"
        leader = best(view)
        if leader is not None and leader != place:
            said += f"; {study.arms[leader].label} has the highest mean"
        return f"{said}. Of those that this is shown of, it takes the least {COSTS[study.options.cost]}."
    if view.done < FIRST_ROUND:
        return f"It has the best mean, which shows nothing yet: tests begin with round {FIRST_ROUND}."
    return f"It has the best mean of {left} candidates that were not told apart."


def train_command(study: Study, place: int) -> str:
    """The command that trains the candidate alone."""
    arm = study.arms[place]
    own = [line for line in arm.network.overrides if not line.startswith(("seed=", "out=", "launch"))]
    words = [*own, *arm.candidate.overrides, *arm.tuned, f"seed={study.first_seed}"]
    return shlex.join(["cnnpool", "train", *words])


def _of_test(study: Study) -> str:
    if study.key.startswith("test."):
        return "These images decided: the figure of the recommended candidate is a little too high."
    return "These images decided nothing. Candidates that were dropped have fewer seeds."


def _method(study: Study) -> list[tuple[str, str]]:
    sense = "higher" if not study.metric or study.metric.sense > 0 else "lower"
    rivals = len(study.arms) - 1
    plural, planned = "s" * (rivals != 1), study.ledger.rounds or "as yet unplanned"
    return [
        ("Measure", f"{study.key} of results.json; {sense} is better."),
        (
            "Rounds",
            f"Each trains every candidate left on one further seed, from {study.first_seed} on, so that "
            f"results are paired. Tests begin with round {FIRST_ROUND}. The number of rounds was planned "
            "from the time that runs took, before the first test.",
        ),
        (
            "Drops",
            "A candidate is dropped when a paired t test says that it is worse than another one. The levels "
            f"are those of a group-sequential test of {planned} rounds, divided by the {rivals} "
            f"rival{plural}: the best candidate is dropped in at most {100 * LEVEL:g} % of studies, as "
            "simulations show (docs/choose.md).",
        ),
        (
            "Resolution",
            f"Steps of the metric: {study.ledger.resolution:.2g}; their rounding is counted as variance.",
        ),
        ("Margin", f"{amount(study, study.options.margin)}: a smaller difference does not matter."),
    ]


def _runs(study: Study) -> list[Results]:
    seeds = [study.seed(number) for number in range(study.options.rounds)]
    return [one for arm in study.arms for one in arm.runs(seeds).values()]


def _provenance(study: Study, runs: Sequence[Results]) -> list[tuple[str, str]]:
    environment = agreed([one.environment for one in runs])
    hashes = sorted({str(one.data_sha256)[:12] for one in runs})
    finished = sorted(str(one.finished) for one in runs if one.finished)
    machine = ", ".join(f"{key} {value}" for key, value in environment.items())
    return [
        ("Network and recipe", " ".join(study.arms[0].network.overrides) or "the defaults"),
        ("Data", f"sha256 {', '.join(hashes)}" if hashes else "unknown"),
        ("Machine and versions", machine or "unknown"),
        ("Finished", f"{finished[0]} to {finished[-1]}" if finished else "nothing"),
    ]
