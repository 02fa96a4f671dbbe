"""The routes of the tab: the page of the runs below the log folder, its figures, and its tables as files."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tensorboard.plugins.base_plugin import FrontendMetadata, TBPlugin
from werkzeug import Request, Response

from cnnpool import tables
from cnnpool.report import document, page, render
from cnnpool.report.columns import records
from cnnpool.report.columns import runs as run_records
from cnnpool.report.plots import GROUPS, LEARNING, PAINTERS, Plot, plot
from cnnpool.report.plots.learning_curve import learning
from cnnpool.report.plots.stages import stages_of
from cnnpool.report.runs import Run
from cnnpool.tensorboard.index import Index, Snapshot
from cnnpool.tensorboard.jobs import below, jobs, studies
from cnnpool.tensorboard.view import Compared, Palettes, Query, View, offer, query, view

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


class Plugin(TBPlugin):  # type: ignore[misc]
    """Shows a comparison of the runs below the log folders ``roots``, as :class:`Index` follows them.

    The value of a folder is the name under which TensorBoard's own tabs have its runs, empty without any.
    """

    plugin_name = NAME

    def __init__(self, roots: Mapping[Path, str]):
        self.index = Index([*roots])
        self._names = dict(zip(self.index.roots, roots.values(), strict=True))
        palettes: Palettes = defaultdict(dict)
        self._view = lru_cache(8)(lambda now, wanted: view(now, wanted, palettes))
        self._body = lru_cache(8)(self._comparison)
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
        found, offered = self._view(now, wanted), offer(now.finished, wanted.folder)
        comparison = found.comparison
        return {
            "title": document.title(comparison) if comparison else "Downsampling",
            "query": wanted,
            "root": now.root.name,
            "jobs": jobs(now),
            "studies": studies(now),
            "offer": offered,
            "offered": {f"{key}={value}" for key, values in offered.settings.items() for value in values},
            "comparison": comparison,
            "refusal": found.compared.refusal,
            "ways": found.compared.ways,
            "choices": sorted(row.choice.label for row in comparison.rows) if comparison else [],
            "stages": stages_of(comparison) if comparison else [],
            "groups": _groups(found, now, wanted),
            "body": self._body(now, wanted),
        }

    def _comparison(self, now: Snapshot, wanted: Query) -> str:
        """The comparison in the report's own form, or the learning curves of runs before any has finished."""
        found = self._view(now, wanted)
        groups, comparison = _groups(found, now, wanted), found.comparison
        if comparison is None:
            return "".join(str(page.blocks_of("html").gallery(*group)) for group in groups)
        charts = [_charts(row.choice.runs.values(), self._names) for row in comparison.rows]
        shown: dict[str, Any] = {"root": now.root, "seeds": bool(wanted.seeds), "charts": charts}
        return page.filled("compare.jinja", **page.contents(comparison, groups, **shown))

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
        comparison = self._view(self.index.snapshot(), query(request.args)).comparison
        name = request.path.rpartition("/")[2]
        if comparison is None:
            return _attached(None, name, "text/plain")
        if name == "table.tex":
            return _attached(render.latex(comparison).encode(), name, "application/x-tex")
        rows = records(comparison) if name == "table.csv" else run_records(comparison)
        return _attached(tables.csv(rows).encode(), name, "text/csv")

    def _drawn(self, request: Request) -> Plot | None:
        wanted, name = query(request.args), request.args.get("name")
        found = self._view(self.index.snapshot(), wanted)
        if name == LEARNING:
            return _curves(found, bool(wanted.seeds))
        return _figure(found.compared, found.palette, wanted.stage, name) if name in PAINTERS else None


@lru_cache(maxsize=8)
def _curves(found: View, seeds: bool) -> Plot | None:
    """The learning curves, in which alone runs appear that are not finished."""
    paint = partial(learning, found.comparison, found.going, found.palette, seeds=seeds)
    return plot(LEARNING, paint, ["svg"])


@lru_cache(maxsize=96)
def _figure(compared: Compared, palette: tuple[str, ...], stage: str, name: str) -> Plot | None:
    if compared.comparison is None:
        return None
    comparison = replace(compared.comparison, palette=palette)
    comparison = replace(comparison, stage=stage if stage in stages_of(comparison) else "")
    return plot(name, partial(PAINTERS[name], comparison), ["svg"])


def _groups(found: View, now: Snapshot, wanted: Query) -> list[tuple[str, str, list[Plot]]]:
    """The figures of the page, each by its address: another one if the runs behind it are others."""

    def plots(names: Sequence[str]) -> list[Plot]:
        versions = [(now if name == LEARNING else now.finished).version for name in names]
        return [
            Plot(name, src=wanted.url("figure", ("name", name), ("v", str(version))))
            for name, version in zip(names, versions, strict=True)
        ]

    if found.comparison:
        return [(name, title, plots(names)) for name, title, names in GROUPS]
    begun = not found.compared.refusal and any(job.epoch for job in jobs(now).listed)
    return [("values", "Learning", plots([LEARNING]))] if begun else []


def _charts(runs: Iterable[Run], names: Mapping[Path, str]) -> str:
    """The address of TensorBoard's own charts of ``runs``, from that of the page."""
    every = [
        f"{name}/{below(run.folder, root)}" if name else below(run.folder, root)
        for run in runs
        for root, name in names.items()
        if run.folder.is_relative_to(root)
    ]
    chosen = "|".join(map(re.escape, every))
    return f"../../../?runFilter={quote(f'^({chosen})$')}#timeseries"


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
