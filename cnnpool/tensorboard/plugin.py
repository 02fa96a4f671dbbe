"""The routes of the tab: its page, and the runs below the log folder as JSON, tables and figures."""

import base64
import json
import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from tensorboard.plugins.base_plugin import FrontendMetadata, TBContext, TBPlugin
from werkzeug import Request, Response

from cnnpool import tables
from cnnpool.json_text import finite
from cnnpool.report import render
from cnnpool.report.columns import records
from cnnpool.report.columns import runs as run_records
from cnnpool.report.foreign import logged
from cnnpool.report.plots import PAINTERS, Plot, plot
from cnnpool.report.plots.learning_curve import History, history, of_histories
from cnnpool.report.plots.panels import MOST, THEMES, shown, style_of
from cnnpool.report.plots.stages import stages_of
from cnnpool.report.runs import Run
from cnnpool.tensorboard.index import Index, Snapshot
from cnnpool.tensorboard.pieces import jobs, pieces
from cnnpool.tensorboard.view import Compared, Palette, Query, View, chosen, inside, query, view

NAME = "downsampling"
ENTRY = "tab.js"
TYPES = {".js": "text/javascript", ".css": "text/css"}
# A figure may be opened directly; no script in it may run.
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
}
Answer = Callable[[Request], Response]
LEARNING = "learning"
FIGURES = dict.fromkeys([*PAINTERS, LEARNING])


@dataclass(frozen=True)
class Asked:
    """A figure of ``FIGURES``, optionally of one stage, or of learning curves with one line per seed."""

    name: str
    theme: str = "light"
    stage: str = ""
    seeds: bool = False


@dataclass(frozen=True)
class Task:
    """A result to compute, equal to every task with the same key, so that ``lru_cache`` keeps its result."""

    key: Hashable
    make: Callable[[], Any] = field(compare=False)

    def __call__(self) -> Any:
        return self.make()


def cached(most: int) -> Callable[[Task], Any]:
    """Compute the result of a task, or return it if it is among the last ``most``."""
    return lru_cache(most)(Task.__call__)


class Plugin(TBPlugin):  # type: ignore[misc]
    """Shows a comparison of the runs below the log folder; see :class:`cnnpool.tensorboard.index.Index`."""

    plugin_name = NAME

    def __init__(self, context: TBContext):
        self.index = Index(Path(os.path.expanduser(context.logdir)))
        self._compared, self._answers = cached(32), cached(16)
        self._figures, self._histories = cached(96), cached(256)
        self._palettes: dict[tuple[str, ...], Palette] = {}

    def is_active(self) -> bool:
        """Whether a run of cnnpool or scalars of another program are below the log folder."""
        return self.index.any()

    def frontend_metadata(self) -> FrontendMetadata:
        """The tab's name and its module; it updates itself, so TensorBoard need not reload it."""
        return FrontendMetadata(es_module_path=f"/{ENTRY}", tab_name="Downsampling", disable_reload=True)

    def get_plugin_apps(self) -> Mapping[str, Callable[..., Any]]:
        """Route -> its handler."""
        page = [one for one in (files(__package__) / "page").iterdir() if Path(one.name).suffix in TYPES]
        answers: dict[str, Answer] = {f"/{one.name}": _file(one.name, one.read_bytes()) for one in page}
        answers |= {
            "/jobs": self.jobs,
            "/comparison": self.comparison,
            "/figure": self.figure,
            "/figure.svg": self.svg,
            "/table.csv": self.download,
            "/runs.csv": self.download,
            "/table.tex": self.download,
        }
        return {route: Request.application(answer) for route, answer in answers.items()}

    def jobs(self, request: Request) -> Response:
        """The states of all runs, unless nothing has changed since the page's version."""
        now = self.index.snapshot()
        head: dict[str, Any] = {"version": now.version, "results": now.results}
        if request.args.get("version") != str(now.version):
            head |= {"root": self.index.root.name, **jobs(now, self.index.root)}
        return _of_json(_text(head))

    def comparison(self, request: Request) -> Response:
        """The comparison selected by the controls, without its figures."""
        now = self.index.snapshot()
        wanted = query(request.args)

        def make() -> bytes:
            return _text({"results": now.results, **pieces(self._view(now, wanted), self.index.root)})

        return _of_json(self._answers(Task((now.version, wanted), make)))

    def figure(self, request: Request) -> Response:
        """One figure with its caption; null if the runs have no numbers for it."""
        found: dict[str, Any] = {"svg": None}
        if drawn := self._drawn(request):
            found = {"caption": drawn.caption, "svg": base64.b64encode(drawn.svg).decode("ascii")}
        return _of_json(_text(found))

    def svg(self, request: Request) -> Response:
        """One figure as a file."""
        name, drawn = chosen(request.args, "name", FIGURES), self._drawn(request)
        return _attached(drawn.svg if drawn else None, f"{name}.svg", "image/svg+xml")

    def download(self, request: Request) -> Response:
        """A table of the comparison as a file, as ``cnnpool compare`` writes it."""
        comparison = self._view(self.index.snapshot(), query(request.args)).compared.comparison
        name = request.path.rpartition("/")[2]
        if comparison is None:
            return _attached(None, name, "text/plain")
        if name == "table.tex":
            return _attached(render.latex(comparison).encode(), name, "application/x-tex")
        rows = records(comparison) if name == "table.csv" else run_records(comparison)
        return _attached(tables.csv(rows).encode(), name, "text/csv")

    def _drawn(self, request: Request) -> Plot | None:
        arguments, now = request.args, self.index.snapshot()
        wanted = query(arguments)
        found = self._view(now, wanted)
        comparison, stage = found.compared.comparison, arguments.get("stage") or ""
        stage = stage if comparison and stage in stages_of(comparison) else ""
        name, theme = chosen(arguments, "name", FIGURES), chosen(arguments, "theme", THEMES)
        asked = Asked(name, theme, stage, arguments.get("seeds") == "1")
        # Unfinished runs appear only in the learning curves.
        version = now.version if asked.name == LEARNING else now.results
        paint = partial(self._painted, found, asked)
        make = partial(plot, asked.name, paint, asked.theme, ["svg"])
        drawn: Plot | None = self._figures(Task((version, wanted, asked), make))
        return drawn

    def _painted(self, found: View, asked: Asked) -> tuple[Figure, str] | None:
        if asked.name == LEARNING:
            return self._learning(found, asked)
        if (comparison := found.compared.comparison) is None:
            return None
        return PAINTERS[asked.name](replace(comparison, stage=asked.stage))

    def _learning(self, found: View, asked: Asked) -> tuple[Figure, str] | None:
        comparison = found.compared.comparison
        rows = shown(comparison) if comparison else []
        tag = comparison.metric.key if comparison else ""
        finished = {row.choice.label: self._history(list(row.choice.runs.values()), tag) for row in rows}
        others = [label for label in found.going if label not in finished][: MOST - len(finished)]
        going = {label: history(runs) for label, runs in found.going.items() if label in (*finished, *others)}
        styles = {label: style_of(place) for place, label in enumerate(found.palette)}
        return of_histories(finished, styles, going, seeds=asked.seeds)

    def _history(self, runs: Sequence[Run], tag: str) -> History:
        if logged(runs):
            return history(runs, tag)
        key = tuple((run.folder, run.results.finished) for run in runs)
        made: History = self._histories(Task(key, lambda: history(runs)))
        return made

    def _view(self, now: Snapshot, wanted: Query) -> View:
        def once(by: Sequence[str], make: Callable[[], Compared]) -> Compared:
            made: Compared = self._compared(Task((now.results, wanted, *by), make))
            return made

        def palette(by: Sequence[str]) -> Palette:
            return self._palettes.setdefault(tuple(by), Palette())

        return view(inside(now.runs, self.index.root, wanted.folder), wanted, palette, once)


def _file(name: str, content: bytes) -> Answer:
    kind = TYPES[Path(name).suffix]
    return lambda request: Response(content, content_type=f"{kind}; charset=utf-8", headers=HEADERS)


def _of_json(text: bytes) -> Response:
    return Response(text, content_type="application/json", headers=HEADERS)


def _text(content: Mapping[str, Any]) -> bytes:
    text = json.dumps(finite(content), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "backslashreplace")


def _attached(content: bytes | None, name: str, kind: str) -> Response:
    if content is None:
        return Response("The runs have no numbers for this.\n", 404, HEADERS, content_type="text/plain")
    headers = HEADERS | {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, content_type=kind, headers=headers)
