"""One figure of the report and its files."""

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.rcsetup import cycler
from matplotlib.transforms import Bbox

from cnnpool.report.plots.looks import COLOURS, ON_DARK

THEMES = {
    "light": {"axes.prop_cycle": cycler(color=COLOURS), "lines.color": "#555555"},
    # Transparent, for the dark pages of TensorBoard.
    "dark": {
        "axes.prop_cycle": cycler(color=ON_DARK),
        "lines.color": "#b0b0b0",
        "figure.facecolor": "none",
        "axes.facecolor": "#303030",
        "grid.color": "#4c4c4c",
        **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), "#e6e6e6"),
        "axes.edgecolor": "#b0b0b0",
    },
}
"""Name -> settings on top of ``STYLE``; ``lines.color`` is that of lines which are no choice."""
STYLE = {
    "font.family": "DejaVu Sans",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e0e0e0",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "svg.hashsalt": "cnnpool",
    "figure.dpi": 100,
    # A choice's name may hold a dollar sign.
    "text.parse_math": False,
}
PAD = 0.15
"""Inches around what is drawn."""
DPI = 150
PIXELS = 4_000_000
"""Of the largest PNG; a comparison of a hundred choices is drawn more coarsely."""


@dataclass(frozen=True)
class Plot:
    """One figure: its file's stem, what it shows in a sentence, and its two files."""

    name: str
    caption: str
    png: bytes
    svg: bytes


def plot(name: str, paint: Callable[[], tuple[Figure, str] | None]) -> Plot | None:
    """The figure of ``paint`` in the report's style, with its caption; None if it draws nothing.

    Both files are cut to what is drawn, no label of it cut.
    """
    with themed():
        painted = paint()
        if painted is None:
            return None
        figure, caption = painted
        box = bounds(figure)
        dpi = min(DPI, (PIXELS / (box.width * box.height)) ** 0.5)
        # No date inside, so that the same runs give the same file.
        svg = _file(figure, "svg", box, dpi, {"Date": None})
        return Plot(name, caption, png=_file(figure, "png", box, dpi, {}), svg=svg)


def vector(paint: Callable[[], tuple[Figure, str] | None], theme: str) -> tuple[str, bytes] | None:
    """Caption and SVG alone of the figure of ``paint``, in one of ``THEMES``; None if it draws nothing."""
    with themed(theme):
        painted = paint()
        if painted is None:
            return None
        figure, caption = painted
        return caption, _file(figure, "svg", bounds(figure), DPI, {"Date": None})


@contextmanager
def themed(theme: str = "light") -> Iterator[None]:
    """The report's style, whatever a user's own matplotlibrc says. matplotlib's settings are those of the
    process: only one thread may draw at a time."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE | THEMES[theme])  # type: ignore[arg-type]
        yield


def bounds(figure: Figure) -> Bbox:
    """The box in inches around everything that is drawn; the layout is settled afterwards."""
    renderer = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
    if engine := figure.get_layout_engine():
        engine.execute(figure)
    # Laid out once: each file would do it again, and go through the whole figure for it.
    figure.set_layout_engine(None)
    return figure.get_tightbbox(renderer).padded(PAD)


def _file(figure: Figure, kind: str, box: Bbox, dpi: float, metadata: Mapping[str, Any]) -> bytes:
    stream = io.BytesIO()
    figure.savefig(stream, format=kind, dpi=dpi, bbox_inches=box, metadata=dict(metadata))
    return stream.getvalue()
