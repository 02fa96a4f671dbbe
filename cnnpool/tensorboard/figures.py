"""The report's figures of a view, one at a time, drawn when they are looked at."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from matplotlib.figure import Figure

from cnnpool.report.course import Course, course
from cnnpool.report.plots import PAINTERS
from cnnpool.report.plots.learning import of_courses
from cnnpool.report.plots.looks import MOST, Look, look, shown
from cnnpool.report.plots.plot import vector
from cnnpool.report.runs import Run
from cnnpool.tensorboard.kept import Kept
from cnnpool.tensorboard.view import View

LEARNING = "learning"
NAMES = dict.fromkeys([*PAINTERS, LEARNING])
Drawn = tuple[str, bytes] | None
"""Caption and SVG; None if the runs hold no numbers for it."""


@dataclass(frozen=True)
class Asked:
    """One figure.

    Args:
        name: one of ``NAMES``.
        theme: light or dark.
        stage: the only one to show; empty for all.
        seeds: of learning curves, a line per seed.
    """

    name: str
    theme: str = "light"
    stage: str = ""
    seeds: bool = False


class Figures:
    """Draws figures and keeps the last of them."""

    def __init__(self) -> None:
        self._drawn: Kept[Drawn] = Kept(96)
        self._courses: Kept[Course] = Kept(256)

    def draw(self, view: View, asked: Asked, version: Hashable) -> Drawn:
        """The figure, of a view that is another one if ``version`` is."""
        return self._drawn.get((version, asked), lambda: vector(self._painter(view, asked), asked.theme))

    def _painter(self, view: View, asked: Asked) -> Callable[[], tuple[Figure, str] | None]:
        if asked.name == LEARNING:
            return partial(self._learning, view, asked)
        comparison = view.compared.comparison
        if comparison is None:
            return lambda: None
        return partial(PAINTERS[asked.name], replace(comparison, stage=asked.stage))

    def _learning(self, view: View, asked: Asked) -> tuple[Figure, str] | None:
        comparison = view.compared.comparison
        rows = shown(comparison) if comparison else []
        finished = {row.choice.label: self._course(list(row.choice.runs.values())) for row in rows}
        # Of runs that go on, nothing is kept: their next epoch is another course.
        others = [label for label in view.going if label not in finished][: MOST - len(finished)]
        some = {label: course(runs) for label, runs in view.going.items() if label in (*finished, *others)}
        looks: dict[str, Look] = {label: look(place) for place, label in enumerate(view.palette)}
        base = comparison.baseline.choice.label if comparison else ""
        return of_courses(finished, looks, base, going=some, seeds=asked.seeds)

    def _course(self, runs: Sequence[Run]) -> Course:
        key = tuple((run.folder, run.results.metrics_sha256, run.results.finished) for run in runs)
        return self._courses.get(key, lambda: course(runs))
