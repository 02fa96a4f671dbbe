import itertools
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from io import BytesIO

import numpy as np
import pytest
from PIL import Image
from shelf import Shelf

from cnnpool.report import main, render
from cnnpool.report.columns import main_columns, measure_tables, ranking
from cnnpool.report.comparison import compare
from cnnpool.report.foreign import read
from cnnpool.report.plots import PAINTERS, choices, draw, stages
from cnnpool.report.plots.choices import dominated, pareto
from cnnpool.report.plots.learning_curve import learning
from cnnpool.report.plots.panels import COLOURS, MOST, PAD, bounds, of_all, shown, style_of, styled, styles_of
from cnnpool.report.plots.stages import routing
from cnnpool.run_folder.layout import ROUTING
from cnnpool.run_folder.routing import Routing, write

SEEDS = [0.90, 0.91, 0.92, 0.93, 0.94, 0.95, 0.96]


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    shelf = Shelf(tmp_path_factory.mktemp("runs"))
    shelf.sweep(max=SEEDS, max_blur=[value + 0.01 + 0.001 * k for k, value in enumerate(SEEDS)])
    (shelf.root / "<script>&").mkdir()
    (shelf.root / "<script>&" / ".cnnpool").touch()
    (shelf.root / "<script>&" / "status.json").write_text('{"state": "failed", "error": "a|b <b>_c_"}')
    return compare(read([shelf.root]))


@pytest.fixture(scope="module")
def plots(comparison):
    return list(draw(comparison))


def test_narrow_terminal_gets_more_tables_and_every_number(comparison):
    widest = len("max_blur") + 2 + len("relative change at 1 px, mean of stages")
    cells = ("+1.30 [+1.10, +1.50]", "< 0.001", "better", "61.7 k", "1.25 M", "12.3 k", "75.00", "0.1500")
    for width in (40, 80, 120):
        shown = render.text(comparison, width=width, colour=False, whole=True).partition("\nnotes\n")[0]
        assert max(map(len, shown.splitlines())) <= max(width, widest)
        assert all(cell in shown for cell in cells) and "\x1b" not in shown
    shown = render.text(comparison, width=400, colour=True, whole=True)
    assert shown.count("choice ") == 1 + len(measure_tables(comparison))
    assert "\x1b[32mbetter\x1b[0m" in shown
    assert re.sub(r"\x1b\[\d+m", "", shown) == render.text(comparison, width=400, colour=False, whole=True)


class Links(HTMLParser):
    """Every address a page would fetch or point at, and the tags that stay open."""

    def __init__(self):
        super().__init__()
        self.links, self.open = [], []

    def handle_starttag(self, tag, attrs):
        self.links += [value for key, value in attrs if key in ("src", "href", "srcset", "data", "action")]
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_html_is_one_file_that_fetches_nothing(comparison, plots):
    page = render.pages(comparison, plots, ["outputs", "--by", "pool"])["report.html"]
    links = Links()
    links.feed(page)
    assert len(links.links) == len(plots) == 6
    assert all(link.startswith("data:image/svg+xml;base64,") for link in links.links)
    assert links.open == []
    assert not re.search(r"https?://|@import|url\(", page)
    # On paper tables are whole, and nothing can be clicked.
    assert re.search(r"@media print .*button:not\(\.term\).* none; } \.wide { overflow: visible; }", page)
    assert '<meta name="viewport"' in page


def test_report_says_what_ran_and_how(comparison, plots):
    facts = ["0123456789ab", "0, 1, 2, 3, 4, 5, 6", "abc1234", "dirty", "cpu", "threads", "2.15", "Holm"]
    facts += ["readout.name=flatten, model.name=convnet, model.width=24"]
    facts += ["pool.name=max, pool.kernel_size=2", "fit.lr=0.01", "probe.invariance.worst_px=1"]
    facts += ["failed", "cnnpool compare", "--by pool", "my runs", "14 compared, 15 found"]
    for page in render.pages(comparison, plots, ["my runs", "--by", "pool"]).values():
        assert all(fact in page.replace("\\", "") for fact in facts) and "seed=0" not in page


def test_foreign_text_is_only_text(comparison, plots):
    markdown, page = render.pages(comparison, plots, []).values()
    assert "<script>" not in page and "&lt;script&gt;&amp;" in page
    assert r"a\|b \<b\>\_c\_" in markdown and r"max\_blur" in markdown


def test_a_fence_of_markdown_holds_any_command(comparison):
    lines = render.pages(comparison, [], ["--where", "x=```\n# no heading"])["report.md"].split("\n")
    first, last = (place for place, line in enumerate(lines) if line == "````")
    assert first < lines.index("# no heading'") < last


def test_latex_is_escaped_and_even(comparison):
    source = render.latex(comparison)
    assert r"max\_blur" in source and r"93.00 $\pm$ 2.16" in source and r"(\%)" in source
    assert " & better \\\\" in source and " & verdict \\\\" in source
    assert source.count("\\resizebox*") == source.count("\\begin{tabular}")
    assert "fontenc" not in source


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="needs pdflatex: Debian's texlive-latex-recommended")
def test_latex_compiles_and_fits_a_page(shelf, tmp_path):
    nasty = ["[a] 5% #1", "* β_m × {x} \\y ~^", "Größe_ąđ e\u0301 …", 'a|b<c> "q" & $', "long_name," * 12]
    for place, name in enumerate(["max", *nasty, *(f"op{k}" for k in range(48))]):
        for seed in range(2 if name in nasty else 1):
            shelf.put(f"{place}/{seed}", pool=name, seed=seed, accuracy=0.9 + 0.01 * seed)
    source = render.latex(compare(read([shelf.root])))
    assert source.count("fontenc") == 1
    (tmp_path / "page.tex").write_text(
        "\\documentclass{article}\n\\usepackage[T1]{fontenc}\n\\usepackage{booktabs,graphicx}\n"
        f"\\begin{{document}}\n{source}\\end{{document}}\n"
    )
    command = ["pdflatex", "-draftmode", "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0 and "Overfull" not in done.stdout, done.stdout
    # Each of the three tables has a page.
    assert "[3" in done.stdout and "[4" not in done.stdout


def test_every_picture_is_drawn_and_holds_its_words(plots):
    names = ["differences", "accuracy", "learning", "gradient", "shift", "pareto"]
    assert [plot.name for plot in plots] == names
    for plot in plots:
        picture = Image.open(BytesIO(plot.png)).convert("RGB")
        rows, columns = np.nonzero((np.asarray(picture) < 230).any(2))
        assert len(rows) > 2000 and len(picture.getcolors(1 << 24)) > 20
        width, height = picture.size
        # Ink at the very edge would be a label cut off.
        assert rows.min() > 3 and columns.min() > 3 and rows.max() < height - 4 and columns.max() < width - 4
        assert ElementTree.fromstring(plot.svg).tag.endswith("svg")


def test_axes_name_what_they_show_their_unit_and_n(comparison, plots):
    words = {plot.name: re.findall("<!-- (.*?) -->", plot.svg.decode()) for plot in plots}
    assert {"test accuracy (%)", "max (n=7)", "max_blur (n=7)"} <= set(words["accuracy"])
    assert "test accuracy, difference to max (percentage points)" in words["differences"]
    assert {"epoch", "validation accuracy (%)", "max (n=7)"} <= set(words["learning"])
    assert {"zero gradient (%)", "stage s1", "stage s2", "max (n=7)"} <= set(words["gradient"])
    assert {"shift of the input (px)", "relative change", "stage s1", "stage s2"} <= set(words["shift"])
    assert {"FLOPs", "(less is better)", "images/s", "consistency (distinct) (%)"} <= set(words["pareto"])


def rows_of(figure):
    """The rows of a forest plot from the top: label, and whether its mark is filled."""
    [axes] = figure.axes
    marks = [line for line in axes.lines if line.get_markersize() == 7]
    labels = [label.get_text().partition(" ")[0] for label in axes.get_yticklabels()]
    filled = [line.get_markerfacecolor() == line.get_color() for line in marks]
    return list(zip(labels, filled, strict=True)), [text.get_text() for text in axes.texts]


def test_forest_plots_begin_with_the_best_are_hollow_where_nothing_is_shown_and_name_their_sides(shelf):
    # blur swings against the others.
    pools = {"max": (0.8, 1, 1), "avg": (0.5, 1, 2), "blur": (0.81, -4, 1), "strided": (0.9, 1, 3)}
    for pool, (level, swing, period) in pools.items():
        for seed, own in enumerate([0.0, 0.01, -0.01, 0.02]):
            shelf.put(pool=pool, seed=seed, accuracy=level + swing * own + 0.001 * (seed % period))
    accuracy = compare(read([shelf.root]))
    with styled():
        shown, sides = rows_of(choices.differences(accuracy)[0])
        assert shown == [("strided", True), ("blur", False), ("avg", True)]
        assert sides == ["← worse", "better →"]
        # Less is better of a loss: the smallest is above, to the left.
        loss = compare(read([shelf.root]), metric="test.loss")
        shown, sides = rows_of(choices.differences(loss)[0])
        assert [label for label, _ in shown] == ["strided", "blur", "avg"]
        assert sides == ["← better", "worse →"]
        values, _ = rows_of(choices.accuracy(accuracy)[0])
        assert [label for label, _ in values] == ["strided", "max", "blur", "avg"]


@pytest.mark.parametrize("spread", [0.005, 0.0005, 0.0])
def test_zero_is_in_the_figure_of_differences_however_far_the_dots_are(shelf, spread):
    for seed in range(4):
        shelf.put(pool="max", seed=seed, accuracy=0.8)
        shelf.put(pool="blur", seed=seed, accuracy=0.85 + spread * (seed % 2))
    with styled():
        (axes,) = choices.differences(compare(read([shelf.root])))[0].axes
    low, high = axes.get_xlim()
    assert low <= 0 and 5 <= high < 6


def test_a_notebook_shows_the_page_without_its_figures(shelf, tmp_path):
    shelf.sweep(max=[0.9, 0.8, 0.85], avg=[0.7, 0.65, 0.6])
    shown = render.compare(shelf.root)._repr_html_()
    assert main([str(shelf.root), "--out", str(tmp_path / "r"), "--no-board"]) == 0
    page = (tmp_path / "r" / "report.html").read_text()
    table = page[page.index("<table") : page.index("</table>")]
    assert table in shown and "Glossary" in shown
    assert not re.search("<(script|html|body|img|main)", shown)
    assert shown.startswith('<div class="cnnpool part">')


def test_no_stage_s_gradient_lies_outside_its_panel(comparison):
    figure, caption = stages.gradient(comparison)
    # 70 % at the first stage, 80 % at the second.
    assert all(axes.get_xlim()[0] <= 0 and axes.get_xlim()[1] > 80 for axes in figure.axes)
    assert caption.startswith("Zero gradient: Entries of the loss gradient")


def test_distances_and_costs_of_a_foreign_probe_have_figures_and_notes(shelf):
    same = {"seeds": "same", "shown": "compare", "headline": True}
    known = {
        "test.accuracy": {"title": "test accuracy", "definition": "A.", "better": "higher"},
        "echo.<stage>.gap.<px>": {"title": "gap at <px> px", "definition": "D.", "shown": "compare"},
        "power.joules": {"title": "energy", "definition": "J.", "better": "lower", "unit": "J", **same},
    }
    for pool, joules, accuracy in (("max", 10.0, 0.8), ("avg", 20.0, 0.9)):
        for seed in range(4):
            noise = 0.001 * (seed * (2 if pool == "max" else 3) % 5)
            own = {"accuracy": accuracy + noise, "power": {"joules": joules}}
            echo = {"a": {"gap": {"1": 0.5, "3": 0.25}}, "b": {"gap": {"1": 0.1}}}
            shelf.put(f"{pool}{seed}", pool={"name": pool}, seed=seed, echo=echo, quantities=known, **own)
    comparison = compare(read([shelf.root]))
    figure, caption = stages.shift(comparison)
    assert [axes.get_title() for axes in figure.axes] == ["stage a", "stage b"]
    assert figure.axes[0].get_ylabel() == "gap" and caption.startswith("Gap: D. ")
    assert "test accuracy, energy" in pareto(comparison)[1]
    said = "avg is better with 100 % more energy than max; no choice here costs as much"
    assert said in comparison.notes
    assert [column.header for column in measure_tables(comparison)[-1]] == ["choice", "energy (J)"]


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    """Twelve choices with names of every length, three seeds, and one without learning curves."""
    shelf = Shelf(tmp_path_factory.mktemp("crowd"))
    change = {f"s{k}": {"relative_change": {"1": 0.2, "2": 0.3}} for k in range(2)}
    invariance = {"stages": change, "consistency": {"distinct": 0.95}}
    gradient = {f"layer{k}_0_downsample": {"zero_fraction": 0.75} for k in range(2)}
    options = {"kernel_size": 3, "padding": 1, "some_option_with_a_long_name": "reflect"}
    names = ["max", "max", *(f"pool_{n}" for n in range(10))]
    for place, name in enumerate(names):
        pool = {"name": name, "stride": 2, **(options if place == 1 else {})}
        for seed, more in enumerate((0.0, 0.01, 0.03)):
            own = {"pool": pool, "seed": seed, "accuracy": 0.6 + 0.02 * place + more, "overrides": []}
            own |= {"gradient": gradient, "invariance": invariance, "logged": 1 if name == "pool_3" else 3}
            shelf.put(f"{place}/seed{seed}", **own)
    return compare(read([shelf.root]))


@pytest.fixture(scope="module")
def crowded(crowd):
    """Name -> figure of the twelve."""
    with styled():
        every = {name: paint(crowd) for name, paint in PAINTERS.items()}
    return {name: found[0] for name, found in every.items() if found}


def test_no_label_of_a_crowded_figure_is_cut_or_covers_another(crowded):
    for name, figure in crowded.items():
        with styled():
            box = bounds(figure)
            # A legend puts its entries into their places when it is drawn.
            figure.draw_without_rendering()
        scale = figure.dpi
        titles = [axes.title for axes in figure.axes if axes.get_title()]
        rows = [one for axes in figure.axes for one in axes.get_yticklabels() if "(n=" in one.get_text()]
        axis = [label for axes in figure.axes for label in (axes.xaxis.label, axes.yaxis.label)]
        entries = [label for legend in figure.legends for label in legend.get_texts()]
        inside = box.padded(-PAD + 0.02)
        for label in [*titles, *rows, *axis, *entries, *figure.texts]:
            one = label.get_window_extent()
            if label.get_text():
                assert inside.x0 <= one.x0 / scale and one.x1 / scale <= inside.x1, (name, label)
                assert inside.y0 <= one.y0 / scale and one.y1 / scale <= inside.y1, (name, label)
        named = [*titles, *entries, *(label for label in figure.texts if label.get_text())]
        for one, other in itertools.combinations([label.get_window_extent() for label in named], 2):
            assert not one.overlaps(other), name


def test_learning_curves_of_many_choices_are_means_alone(crowd, comparison):
    figure, caption = learning(crowd)
    # One of the twelve has a single point, which is no curve.
    assert len(figure.axes[0].lines) == 11 and "interval" not in caption
    together, caption = learning(comparison)
    assert len(together.axes[0].lines) == 2 and "95 % t interval" in caption


def test_times_of_a_loaded_machine_are_no_goal(shelf):
    for pool in ("max", "avg"):
        for seed in range(2):
            cost = {"flops": 1000 + len(pool), "train_images_per_s": 100.0 + seed, "load": 0.5}
            shelf.put(pool=pool, seed=seed, cost=cost)
    figure, caption = pareto(compare(read([shelf.root])))
    assert "images/s" not in caption
    labels = [axes.get_xlabel().split("\n")[0] for axes in figure.axes]
    assert labels == ["consistency (distinct) (%)", "FLOPs"]


def test_dominated_is_no_better_in_anything_and_worse_in_something():
    goals = np.array([[1.0, 1.0], [2.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
    assert dominated(goals).tolist() == [False, False, True, False, False]


def test_one_seed_and_one_choice_draw_without_complaint_and_one_epoch_is_no_curve(shelf):
    shelf.put(pool="max", logged=1)
    alone = compare(read([shelf.root]))
    assert [plot.name for plot in draw(alone)] == ["accuracy", "gradient", "shift"]
    assert ranking(alone) == "Only one choice: nothing to rank."


def test_an_interval_of_accuracies_ends_at_100_and_the_baseline_has_no_p(shelf):
    shelf.sweep(max=[0.99, 1.0, 1.0], avg=[0.98, 1.0, 0.99])
    columns = {column.header: column.cells for column in main_columns(compare(read([str(shelf.root)])))}
    # Mean .99667, sd .0057735, t(.975, 2) = 4.3027: .98233 to 1.01101.
    assert columns["95 % CI"][0] == "[98.23, 100.00]"
    # Differences -.01, 0, -.01: t = -2 of 2 degrees of freedom.
    assert columns["p (Holm)"] == ["–", "0.184"]


def test_looks_of_a_legend_differ_in_colour_and_all_looks_differ():
    assert len({style_of(index).colour for index in range(len(COLOURS))}) == len(COLOURS) >= 2 * MOST
    assert len({style_of(index) for index in range(10 * len(COLOURS))}) == 10 * len(COLOURS)
    assert len({(style_of(index).colour, style_of(index).mark) for index in range(240)}) == 240


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Thirty choices, the later the better, max in their middle."""
    shelf = Shelf(tmp_path_factory.mktemp("many"))
    names = [f"p{n:02d}" if n != 15 else "max" for n in range(30)]
    shelf.sweep(**{name: [0.5 + n / 100, 0.5 + n / 100] for n, name in enumerate(names)})
    return compare(read([shelf.root]))


def test_of_many_choices_the_baseline_and_the_best_are_shown_in_colours_of_their_own(many):
    labels = [row.choice.label for row in shown(many)]
    assert labels == ["max", *(f"p{n}" for n in range(19, 30))]
    of_each = styles_of(many)
    assert len({of_each[label].colour for label in labels}) == MOST
    assert of_each.keys() == {row.choice.label for row in many.rows}
    assert of_all(many) == " Shown: max and the 11 best of the 29 others; tables hold all."


def panels(figure):
    return [axes for axes in figure.axes if axes.images and axes.get_label() != "<colorbar>"]


@pytest.fixture
def routed(shelf):
    """max and avg with two seeds of other gradient, aps without a picture, blur with a damaged one."""
    images = np.arange(2 * 4 * 4, dtype=np.uint8).reshape(2, 4, 4, 1)
    for pool, share in (("max", 0.25), ("avg", 1.0), ("aps", None), ("blur", 0.5)):
        for seed in (0, 1):
            folder = shelf.put(pool=pool, seed=seed)
            if share is not None:
                write(folder, Routing(images, {"s1": np.full((2, 2, 2), share / (1 + seed))}))
            if pool == "blur":
                (folder / ROUTING).write_bytes(b"PK")
    return compare(read([str(shelf.root)]))


def test_routing_shows_images_and_where_gradient_goes_choice_under_choice(routed):
    figure, caption = routing(routed)
    images, *choices = panels(figure)
    assert [axes.get_ylabel() for axes in (images, *choices)] == ["image", "max", "avg"]
    assert images.get_title() == "stage s1"
    # Two images of four pixels with a transparent one between them.
    red, green, blue, opacity = np.moveaxis(images.images[0].get_array()[0], -1, 0)
    assert red.tolist() == green.tolist() == blue.tolist() == [0, 1, 2, 3, 0, 16, 17, 18, 19]
    assert opacity.tolist() == [255] * 4 + [0] + [255] * 4
    # Of the first seed, in steps of 1/255.
    of_max, of_avg = (axes.images[0].get_array().filled(np.nan) for axes in choices)
    row = [0.251, 0.251, np.nan, 0.251, 0.251]
    assert of_max == pytest.approx(np.array([row, row]), abs=1e-3, nan_ok=True)
    assert np.nanmin(of_avg) == 1.0
    assert {axes.images[0].get_clim() for axes in choices} == {(0, 1)}
    assert "2 test images" in caption and "first seed" in caption


def test_choices_of_other_images_are_not_shown_beside_them(routed, shelf):
    other = np.zeros((2, 4, 4, 1), np.uint8)
    write(shelf.root / "avg" / "seed0", Routing(other, {"s1": np.ones((2, 2, 2))}))
    assert [axes.get_ylabel() for axes in panels(routing(routed)[0])] == ["image", "max"]
