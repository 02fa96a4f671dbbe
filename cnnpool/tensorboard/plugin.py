"""The routes of the tab: the page of the runs below the log folder, its figures, and its tables as files."""

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

from matplotlib.figure import Figure
from tensorboard.plugins.base_plugin import FrontendMetadata, TBPlugin
from werkzeug import Request, Response

from cnnpool import tables
from cnnpool.report import document, page, render
from cnnpool.report.columns import records
from cnnpool.report.columns import runs as run_records
from cnnpool.report.comparison import Comparison
from cnnpool.report.plots import GROUPS, LEARNING, PAINTERS, Plot, plot
from cnnpool.report.plots.learning_curve import learning
from cnnpool.report.plots.stages import stages_of
from cnnpool.report.runs import Run
from cnnpool.tensorboard.index import Index, Snapshot
from cnnpool.tensorboard.jobs import Jobs, below, jobs, studies
from cnnpool.tensorboard.view import Compared, Offer, Palette, Query, View, inside, offer, query, view

NAME = "downsampling"
ENTRY = "tab.js"
HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache"}
# A figure may be opened directly; no script in it may run.
STRICT = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
PAGE = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' data:; style-src 'unsafe-inline'; object-src 'none'; "
        "base-uri 'none'; form-action 'self'"
    )
}
Answer = Callable[[Request], Response]


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
    """Shows a comparison of the runs below the log folders ``roots``, as :class:`Index` follows them."""

    plugin_name = NAME

    def __init__(self, roots: Sequence[Path]):
        self.index = Index(roots)
        self._compared, self._offers, self._jobs, self._bodies = cached(32), cached(8), cached(2), cached(8)
        self._figures = cached(96)
        self._palettes: dict[tuple[str, ...], Palette] = {}
        source = (files(__package__) / "tab.html").read_text(encoding="utf-8")
        self._template = page.environment("html").from_string(source)

    def is_active(self) -> bool:
        """Whether a run, a planned job or a study is below the log folder."""
        return self.index.any()

    def frontend_metadata(self) -> FrontendMetadata:
        """The tab's name and its module; it updates itself, so TensorBoard need not reload it."""
        return FrontendMetadata(es_module_path=f"/{ENTRY}", tab_name="Downsampling", disable_reload=True)

    def get_plugin_apps(self) -> Mapping[str, Callable[..., Any]]:
        """Route -> its handler."""
        script = (files(__package__) / ENTRY).read_bytes()
        answers: dict[str, Answer] = {
            f"/{ENTRY}": lambda _: Response(script, 200, HEADERS, content_type="text/javascript"),
            "/page": self.page,
            "/figure": self.figure,
            "/figure.svg": self.svg,
            "/table.csv": self.download,
            "/runs.csv": self.download,
            "/table.tex": self.download,
        }
        return {route: Request.application(answer) for route, answer in answers.items()}

    def page(self, request: Request) -> Response:
        """The page; of a form as the browser sends it, the address without what is empty or automatic."""
        wanted = query(request.args)
        if sorted(request.args.items(multi=True)) != sorted(wanted.items):
            return _html("", 302, {"Location": wanted.url("page")})
        answer = _html(self._template.render(self._shown(self.index.snapshot(), wanted)))
        answer.add_etag()
        # Not 304, which has no content type, and TensorBoard warns of that.
        same = request.if_none_match.contains_weak(answer.get_etag()[0] or "")
        return _html("", 204) if same else answer

    def _shown(self, now: Snapshot, wanted: Query) -> dict[str, Any]:
        root, found = self.index.root, self._view(now, wanted)
        comparison, refusal = found.compared.comparison, found.compared.refusal
        every: Jobs = self._jobs(Task(now.version, lambda: jobs(now, root)))
        done = [run for run in self._inside(now, wanted) if run.found]
        offered: Offer = self._offers(Task((now.results, wanted.folder), lambda: offer(done)))
        groups = self._groups(now, wanted) if comparison else []
        if not comparison and not refusal and any(job.epoch for job in every.listed):
            groups = [("values", "Learning", [self._plot(now, wanted, LEARNING)])]
        body = Task((now.version, wanted), lambda: self._body(found, wanted, groups))
        return {
            "title": document.title(comparison) if comparison else "Downsampling",
            "query": wanted,
            "changed": wanted != Query(),
            "root": root.name,
            "jobs": every,
            "studies": studies(now.studies, root),
            "offer": offered,
            "offered": {f"{key}={value}" for key, values in offered.settings.items() for value in values},
            "comparison": comparison,
            "refusal": refusal,
            "ways": found.compared.ways,
            "by": comparison.by if comparison else wanted.by,
            "metric": comparison.metric.key if comparison else wanted.metric,
            "choices": sorted(row.choice.label for row in comparison.rows) if comparison else [],
            "stages": stages_of(comparison) if comparison else [],
            "groups": groups,
            "body": self._bodies(body),
        }

    def _body(self, found: View, wanted: Query, groups: list[tuple[str, str, list[Plot]]]) -> str:
        """The comparison in the report's own form, or the learning curves of runs before any has finished."""
        template, show = page.environment("html").get_template("compare.jinja"), page.blocks_of("html")
        comparison = found.compared.comparison
        if comparison is None:
            return "".join(map(str, (show.gallery(*group) for group in groups)))
        values = page.blocks(comparison, self.index.root, seeds=bool(wanted.seeds)) | {"groups": groups}
        values["mains"] = [replace(one, charts=self._charts(comparison)) for one in values["mains"]]
        return template.render(show=show, command="", **values)

    def _charts(self, comparison: Comparison) -> list[str]:
        """The address of TensorBoard's own charts of each choice's runs, from that of the page."""
        found = []
        for row in comparison.rows:
            names = "|".join(
                re.escape(below(run.folder, self.index.root)) for run in row.choice.runs.values()
            )
            found.append(f"../../../?runFilter={quote(f'^({names})$')}#timeseries")
        return found

    def _groups(self, now: Snapshot, wanted: Query) -> list[tuple[str, str, list[Plot]]]:
        return [(name, title, [self._plot(now, wanted, one) for one in own]) for name, title, own in GROUPS]

    def _plot(self, now: Snapshot, wanted: Query, name: str) -> Plot:
        """A figure's address: another one if the runs behind it are others."""
        version = str(self._version(now, name))
        return Plot(name, src=wanted.url("figure", ("name", name), ("v", version)))

    def _version(self, now: Snapshot, name: str) -> int:
        """Unfinished runs appear only in the learning curves."""
        return now.version if name == LEARNING else now.results

    def figure(self, request: Request) -> Response:
        """One figure with its caption; empty if the runs have no numbers for it."""
        drawn = self._drawn(request)
        if drawn is None:
            return _html("")
        href = query(request.args).url("figure.svg", ("name", drawn.name))
        return _html(str(page.blocks_of("html").figure(drawn, href)))

    def svg(self, request: Request) -> Response:
        """One figure as a file."""
        drawn = self._drawn(request)
        return _attached(drawn.svg if drawn else None, "figure.svg", "image/svg+xml")

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
        now, wanted = self.index.snapshot(), query(request.args)
        name = request.args.get("name") or ""
        if name not in PAINTERS:
            return None
        paint = partial(self._painted, self._view(now, wanted), wanted, name)
        key = (self._version(now, name), wanted, name)
        drawn: Plot | None = self._figures(Task(key, partial(plot, name, paint, ["svg"])))
        return drawn

    def _painted(self, found: View, wanted: Query, name: str) -> tuple[Figure, str] | None:
        comparison = found.compared.comparison
        if name == LEARNING:
            return learning(comparison, found.going, found.palette, seeds=bool(wanted.seeds))
        if comparison is None:
            return None
        stage = wanted.stage if wanted.stage in stages_of(comparison) else ""
        return PAINTERS[name](replace(comparison, stage=stage))

    def _inside(self, now: Snapshot, wanted: Query) -> list[Run]:
        return inside(now.runs, self.index.root, wanted.folder)

    def _view(self, now: Snapshot, wanted: Query) -> View:
        def once(by: Sequence[str], make: Callable[[], Compared]) -> Compared:
            made: Compared = self._compared(Task((now.results, wanted.runs, *by), make))
            return made

        def palette(by: Sequence[str]) -> Palette:
            return self._palettes.setdefault(tuple(by), {})

        return view(self._inside(now, wanted), wanted, palette, once)


def _html(text: str, status: int = 200, more: Mapping[str, str] | None = None) -> Response:
    content = text.encode("utf-8", "backslashreplace")
    return Response(
        content, status, HEADERS | PAGE | dict(more or {}), content_type="text/html; charset=utf-8"
    )


def _attached(content: bytes | None, name: str, kind: str) -> Response:
    headers = HEADERS | STRICT
    if content is None:
        return Response("The runs have no numbers for this.\n", 404, headers, content_type="text/plain")
    headers |= {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, 200, headers, content_type=kind)
