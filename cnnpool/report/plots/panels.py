"""Common parts of the figures: the choices in them and their colours, panels, legends and files."""

import io
import math
import re
import textwrap
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.rcsetup import cycler
from matplotlib.transforms import Bbox

from cnnpool.report.choice import natural
from cnnpool.report.comparison import Comparison
from cnnpool.report.pairwise import Row

# The first seven by Okabe and Ito 2008 without yellow, which is invisible on white. Each of the others is
# the farthest from all before it in OKLab, as seen with and without protanopia and deuteranopia.
COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#780F4B",
    "#0000FF", "#3C2D96", "#784B00", "#9669FF", "#875A78", "#D200B4", "#C31E4B", "#FF4B69",
    "#2D694B", "#FF78D2", "#781E00", "#5A00D2", "#4B4B78", "#4B5AE1", "#87B496", "#7896FF",
)  # fmt: skip
# The same for dark pages: each is the colour nearest to the one above that is visible on #303030 and distinct
# from the others, with and without these deficits.
ON_DARK = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#FFFFFF", "#B64879",
    "#0061FF", "#7955DA", "#91613C", "#9D79FF", "#6D6D91", "#D200B4", "#DA2448", "#FF4B69",
    "#6DB691", "#FF78D2", "#FF916D", "#6D85DA", "#AAC2F2", "#DADAFF", "#9DCEAA", "#FFB6CE",
)  # fmt: skip
MARKS = "osD^vPX*<>"
DASHES = ("-", "--", "-.", ":")
MOST = 12  # Most choices in a figure: the baseline and the best of the others
RC = {
    "font.family": "DejaVu Sans",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e0e0e0",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "lines.color": "#555555",  # Of lines that belong to no choice
    "axes.prop_cycle": cycler(color=COLOURS),
    "svg.hashsalt": "cnnpool",
    "figure.dpi": 100,
    # A choice's name may contain a dollar sign.
    "text.parse_math": False,
}
DARK = {"#ffffff": "#303030", "#000000": "#ffffff", "#555555": "#b0b0b0", "#e0e0e0": "#4c4c4c"}
DARK |= {light.lower(): dark for light, dark in zip(COLOURS, ON_DARK, strict=True)}
"""Colour of a figure -> the same on a dark page."""
ADAPTS = b"<style>:root { color-scheme: light dark; fill: light-dark(#000, #fff); }</style>"
TITLES = {
    "differences": "Differences to the baseline",
    "accuracy": "Values",
    "learning": "Learning curves",
    "routing": "Where the gradient goes",
    "gradient": "Inputs without gradient",
    "shift": "Change under a shift",
    "pareto": "Against other goals",
    "headlines": "Other headlines",
}
Painter = Callable[[], tuple[Figure, str] | None]
"""Draws a figure and returns it with a caption; None where the runs have no numbers for it."""
Band = np.ndarray  # (3, x): mean, low and high
DRAWING = threading.RLock()  # matplotlib's settings are global to the process
PAD = 0.15  # Margin around the figure's contents, in inches
DPI = 150
ACROSS = 4  # Most panels in a row
LABEL = 34  # Most characters of a choice's label on one line
TITLE = 22  # Most characters of a line of a title above a panel of ``grid``


@dataclass(frozen=True)
class Style:
    """How a choice is drawn; its colour is an index such as "C3", which the theme defines."""

    colour: str
    mark: str
    dash: str


def style_of(index: int) -> Style:
    """The style at ``index``: the first 24 differ in colour, the first 240 all differ."""
    lap = index // len(COLOURS)
    # A lap has 24 colours; three further marks make 27, so each lap gives a colour a new mark.
    mark = MARKS[(index + 3 * lap) % len(MARKS)]
    return Style(f"C{index % len(COLOURS)}", mark, DASHES[(index // 7 + lap) % len(DASHES)])


def shown(comparison: Comparison) -> list[Row]:
    """At most ``MOST`` rows: the baseline and the best others, or the first without a better direction."""
    first, *others = comparison.rows
    if (sense := comparison.metric.sense) and len(comparison.rows) > MOST:
        others = sorted((row for row in others if row.summary.n), key=lambda row: -sense * row.summary.mean)
    best = {row.choice.label for row in [first, *others[: MOST - 1]]}
    return [row for row in comparison.rows if row.choice.label in best]


def styles_of(comparison: Comparison) -> Mapping[str, Style]:
    """Label -> style: in the order of the palette, those shown in figures, then by label as in the tab."""
    every = [row.choice.label for row in comparison.rows]
    first = [row.choice.label for row in shown(comparison)] if len(every) > len(COLOURS) else []
    return styles(every, [*comparison.palette, *first])


def styles(labels: Iterable[str], first: Iterable[str] = ()) -> Mapping[str, Style]:
    """Label -> style, those of ``first`` in their order, then by label."""
    every = dict.fromkeys([*first, *sorted(labels, key=natural)])
    return {label: style_of(index) for index, label in enumerate(every)}


def of_all(comparison: Comparison) -> str:
    """A caption's note on which choices a figure of ``shown`` contains; empty if it contains all."""
    rows = shown(comparison)
    if len(rows) == len(comparison.rows):
        return ""
    base, kind = comparison.baseline.choice.label, "best" if comparison.metric.sense else "first"
    others = len(comparison.rows) - 1
    return f" Shown: {base} and the {len(rows) - 1} {kind} of the {others} others; tables hold all."


@dataclass(frozen=True)
class Plot:
    """One figure: the stem of its file, a sentence on its contents, and its two files, or their address."""

    name: str
    caption: str = ""
    png: bytes = b""
    svg: bytes = b""
    src: str = ""

    @property
    def title(self) -> str:
        return TITLES.get(self.name, self.name.capitalize())


def plot(name: str, paint: Painter, kinds: Sequence[str] = ("png", "svg")) -> Plot | None:
    """The figure of ``paint``, cropped to its contents; None if it draws nothing."""
    with styled():
        if (painted := paint()) is None:
            return None
        figure, caption = painted
        box = bounds(figure)
        own = {kind: _file(figure, kind, box) for kind in kinds}
        return Plot(name, caption, own.get("png", b""), own.get("svg", b""))


def for_page(svg: bytes) -> bytes:
    """The drawing in the colours of the page around it, light or dark, whose ``color-scheme`` it takes over.

    Files are left plain, since programs other than browsers do not know ``light-dark``.
    """
    head, tag, rest = svg.partition(b"<defs>")
    coloured = re.sub(rb"(?<=: )#[0-9a-f]{6}\b", lambda found: _both(found[0].decode()).encode(), rest)
    return head + ADAPTS + tag + coloured


def _both(colour: str) -> str:
    return f"light-dark({colour}, {DARK[colour]})" if colour in DARK else colour


def css(style: Style) -> str:
    """The colour of a choice on light and dark pages."""
    return _both(COLOURS[int(style.colour.removeprefix("C"))].lower())


def colours(labels: Iterable[str], shown: Sequence[str]) -> list[str]:
    """The colours on a page of the choices ``shown`` among all ``labels``."""
    own = styles(labels)
    return [css(own[label]) for label in shown]


@contextmanager
def styled() -> Iterator[None]:
    """Use the report's style whatever the user's matplotlibrc; other threads wait."""
    with DRAWING, matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(RC)  # type: ignore[arg-type]
        yield


def bounds(figure: Figure) -> Bbox:
    """The box in inches around everything drawn; fixes the layout."""
    renderer = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
    if engine := figure.get_layout_engine():
        engine.execute(figure)
    # Lay out once: otherwise each file would repeat it over the whole figure.
    figure.set_layout_engine(None)
    return figure.get_tightbbox(renderer).padded(PAD)


def _file(figure: Figure, kind: str, box: Bbox) -> bytes:
    stream = io.BytesIO()
    # Without a date, so that the same runs give the same file.
    metadata: dict[str, Any] = {"Date": None} if kind == "svg" else {}
    figure.savefig(stream, format=kind, dpi=DPI, bbox_inches=box, metadata=metadata)
    return stream.getvalue()


def grid(panels: int, width: float, height: float, *, share: bool = True) -> tuple[Figure, list[Axes]]:
    """A figure with ``panels`` panels of this size in inches, at most ``ACROSS`` in a row."""
    columns = min(panels, ACROSS)
    rows = math.ceil(panels / columns)
    figure = Figure(figsize=(max(width * columns, 5.5), height * rows + 0.5), layout="constrained")
    every = list(figure.subplots(rows, columns, squeeze=False, sharex=share, sharey=share).flat)
    for unused in every[panels:]:
        unused.set_axis_off()
    # With shared axes only the lowest row has tick labels; panels above a gap need them too.
    for axes in every[max(0, panels - columns) : panels]:
        axes.tick_params(labelbottom=True)
    return figure, every[:panels]


def wrapped(text: str, width: int = LABEL) -> str:
    """``text`` in lines of at most ``width`` characters, broken at spaces if it has any."""
    return textwrap.fill(text, width, break_on_hyphens=False)


def title(axes: Axes, text: str) -> None:
    """Write ``text`` above one of several panels, no wider than the panel."""
    axes.set_title(wrapped(text, TITLE), fontsize="small")


def with_band(axes: Axes, x: Sequence[float], band: Band, style: Style, name: str = "") -> None:
    """Draw a line of means and its interval as a band."""
    mean, low, high = band
    mark = {"marker": style.mark, "markersize": 4} if len(x) <= 20 else {}
    axes.plot(x, mean, style.dash, color=style.colour, label=name, linewidth=1.6, **mark)  # type: ignore[arg-type]
    axes.fill_between(x, low, high, color=style.colour, alpha=0.15, linewidth=0)


def plain_ticks(axes: Axes, most: int = 6) -> None:
    """No offset such as "+9.8e1" at the end of the axis, which is misread; at most ``most`` steps."""
    axes.ticklabel_format(axis="x", useOffset=False)
    axes.locator_params(axis="x", nbins=most)


def within(move: Callable[..., object], have: tuple[float, float], limits: Sequence[float]) -> None:
    """End an axis by ``move`` just beyond the possible values if it extends further: no accuracy is -20 %."""
    margin = 0.03 * (have[1] - have[0])
    move(max(have[0], limits[0] - margin), min(have[1], limits[1] + margin))


def legend(figure: Figure) -> None:
    """One legend of all panels below them, in as many columns as its longest name allows."""
    every = [zip(*axes.get_legend_handles_labels(), strict=True) for axes in figure.axes]
    entries = {label: handle for axes in every for handle, label in axes}
    longest = max(map(len, entries))
    where: Any = "outside lower center"
    figure.legend(
        handles=list(entries.values()),
        labels=list(entries),
        loc=where,
        frameon=False,
        ncols=max(1, min(4, int(figure.get_figwidth() * 11 / (longest + 6)))),
    )
