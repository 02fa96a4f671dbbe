"""The routes of the tab: its page, and the runs below the log folder as JSON, tables and figures."""

import base64
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from tensorboard.plugins.base_plugin import FrontendMetadata, TBContext, TBPlugin
from werkzeug import Request, Response

from cnnpool import tables
from cnnpool.report import latex
from cnnpool.report.columns import records
from cnnpool.report.columns import runs as run_records
from cnnpool.report.plots.plot import THEMES
from cnnpool.tensorboard.figures import NAMES, Asked, Figures
from cnnpool.tensorboard.index import Index, Snapshot
from cnnpool.tensorboard.jobs import below, jobs
from cnnpool.tensorboard.kept import Kept
from cnnpool.tensorboard.pieces import pieces
from cnnpool.tensorboard.query import Query, chosen, query
from cnnpool.tensorboard.view import Compared, Palette, View, view

NAME = "downsampling"
ENTRY = "tab.js"
TYPES = {".js": "text/javascript", ".css": "text/css"}
# A figure is opened by itself too; nothing in it may run.
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
}
Answer = Callable[[Request], Response]


class Plugin(TBPlugin):  # type: ignore[misc]
    """Shows a comparison of the runs below the log folder; see :class:`cnnpool.tensorboard.index.Index`."""

    plugin_name = NAME

    def __init__(self, context: TBContext):
        self.index = Index(Path(os.path.expanduser(context.logdir)))
        self._compared: Kept[Compared] = Kept(32)
        self._answers: Kept[bytes] = Kept(16)
        self._figures = Figures()
        self._palettes: dict[tuple[str, ...], Palette] = {}

    def is_active(self) -> bool:
        """Whether a run of cnnpool lies below the log folder."""
        return self.index.any()

    def frontend_metadata(self) -> FrontendMetadata:
        """The tab's name and its module; it follows the runs by itself, so TensorBoard need not reload it."""
        return FrontendMetadata(es_module_path=f"/{ENTRY}", tab_name="Downsampling", disable_reload=True)

    def get_plugin_apps(self) -> Mapping[str, Callable[..., Any]]:
        """Route -> its answer."""
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
        """The states of all runs, unless nothing has changed since the version that the page knows."""
        now = self.index.snapshot()
        head = {"version": now.version, "results": now.results}
        if request.args.get("version") == str(now.version):
            return _json(head)
        return _json(head | {"root": self.index.root.name} | jobs(now, self.index.root))

    def comparison(self, request: Request) -> Response:
        """The comparison that the controls ask for, without its figures."""
        now = self.index.snapshot()
        wanted = query(request.args)

        def make() -> bytes:
            return _text({"results": now.results, **pieces(self._view(now, wanted), self.index.root)})

        return _of_json(self._answers.get((now.version, wanted), make))

    def figure(self, request: Request) -> Response:
        """One figure with its caption; null if the runs hold no numbers for it."""
        drawn = self._drawn(request)
        if drawn is None:
            return _json({"svg": None})
        return _json({"caption": drawn[0], "svg": base64.b64encode(drawn[1]).decode("ascii")})

    def svg(self, request: Request) -> Response:
        """One figure as a file."""
        drawn = self._drawn(request)
        name = chosen(request.args, "name", NAMES)
        return _attached(drawn[1] if drawn else b"", f"{name}.svg", "image/svg+xml", found=bool(drawn))

    def download(self, request: Request) -> Response:
        """A table of the comparison as a file, as ``cnnpool compare`` writes it."""
        comparison = self._view(self.index.snapshot(), query(request.args)).compared.comparison
        name = request.path.rpartition("/")[2]
        if comparison is None:
            return _attached(b"", name, "text/plain", found=False)
        if name == "table.tex":
            return _attached(latex.render(comparison).encode(), name, "application/x-tex")
        rows = records(comparison) if name == "table.csv" else run_records(comparison)
        return _attached(tables.csv(rows).encode(), name, "text/csv")

    def _drawn(self, request: Request) -> tuple[str, bytes] | None:
        arguments, now = request.args, self.index.snapshot()
        asked = Asked(
            chosen(arguments, "name", NAMES),
            chosen(arguments, "theme", THEMES),
            arguments.get("stage") or "",
            arguments.get("seeds") == "1",
        )
        wanted = query(arguments)
        # Runs that go on are in the learning curves alone.
        version = now.version if asked.name == "learning" else now.results
        return self._figures.draw(self._view(now, wanted), asked, (version, wanted))

    def _view(self, now: Snapshot, wanted: Query) -> View:
        def once(by: Sequence[str], make: Callable[[], Compared]) -> Compared:
            return self._compared.get((now.results, wanted, *by), make)

        def palette(by: Sequence[str]) -> Palette:
            return self._palettes.setdefault(tuple(by), Palette())

        return view(below(now.runs, self.index.root, wanted.folder), wanted, palette, once)


def _file(name: str, content: bytes) -> Answer:
    kind = TYPES[Path(name).suffix]
    return lambda request: Response(content, content_type=f"{kind}; charset=utf-8", headers=HEADERS)


def _json(content: Mapping[str, Any]) -> Response:
    return _of_json(_text(content))


def _of_json(text: bytes) -> Response:
    return Response(text, content_type="application/json", headers=HEADERS)


def _text(content: Mapping[str, Any]) -> bytes:
    # JSON has no word for NaN and infinities.
    text = json.dumps(_finite(content), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "backslashreplace")


def _finite(node: Any) -> Any:
    if isinstance(node, float):
        return node if math.isfinite(node) else None
    if isinstance(node, Mapping):
        return {str(key): _finite(value) for key, value in node.items()}
    return [_finite(value) for value in node] if isinstance(node, list | tuple) else node


def _attached(content: bytes, name: str, kind: str, *, found: bool = True) -> Response:
    headers = HEADERS | {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(
        content if found else b"The runs hold no numbers for this.\n",
        status=200 if found else 404,
        content_type=kind if found else "text/plain",
        headers=headers,
    )
