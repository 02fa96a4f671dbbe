"""The documentation: the site builds without a warning, no link is broken, the notebooks run."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import torch
from small_nets import network
from torch import nn
from torchvision.models import vgg16

from cnnpool import pool, probe, readout
from scripts.docs.documented import quick

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


class Links(HTMLParser):
    """The targets of the links and pictures of a page, and the names that links may point at."""

    def __init__(self, page):
        super().__init__()
        self.targets, self.names = set(), set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.targets |= {found[key] for key in ("href", "src") if found.get(key)}
        self.names |= {found["id"]} if found.get("id") else set()


def build(folder):
    """Build the site into ``folder``, its notebooks not run, and fail on any warning."""
    for needed in ("sphinx", "myst_nb", "furo"):
        pytest.importorskip(needed)
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going"]
    command += ["--define", "nb_execution_mode=off", str(ROOT / "docs"), str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr


def broken(pages):
    """Links of ``pages``, by path, to files or names that do not exist."""
    for page, links in pages.items():
        for target in links.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            path = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            lost = path in pages and parts.fragment and unquote(parts.fragment) not in pages[path].names
            if lost or not path.exists():
                yield f"{page.name}: {target}"


# One test, since several might build the site at the same time.
@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_no_link_is_broken(tmp_path):
    build(tmp_path)
    pages = {path: Links(path) for path in tmp_path.rglob("*.html")}
    for name in ("index.html", "gradient_routing.html", "generated/operators.html"):
        assert tmp_path / name in pages
    assert list(broken(pages)) == []
    loaded = re.compile(r"<(?:script|img|link)[^>]*(?:src|href)=\"(?:https?:)?//[^\"]*\"")
    assert not [path.name for path in pages if loaded.search(path.read_text(encoding="utf-8"))]
    for page, room in (("operators", pool), ("readouts", readout), ("probes", probe)):
        names = pages[tmp_path / "generated" / f"{page}.html"].names
        public = {one for one in room.__all__ if callable(getattr(room, one))}
        assert not {f"{room.__name__}.{one}" for one in public} - names


# In this process; `make docs` runs them in kernels of their own.
@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path, monkeypatch):
    nbformat = pytest.importorskip("nbformat")
    cells = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    lines = [line for cell in cells for line in cell.splitlines() if not line.startswith("%")]
    monkeypatch.chdir(tmp_path)
    exec(compile(quick("\n".join(lines)), path.name, "exec"), {"__name__": "__main__"})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_kept_with_their_outputs_and_no_trace_of_a_machine(path):
    nbformat = pytest.importorskip("nbformat")
    book = nbformat.read(path, as_version=4)
    nbformat.validate(book)
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    assert sum(bool(cell.outputs) for cell in code) > len(code) / 2
    assert not any(one.output_type == "error" for cell in code for one in cell.outputs)
    assert not re.search("/(home|tmp|root|work)/", path.read_text(encoding="utf-8"))
    assert path.stat().st_size < 200_000


def test_no_line_begins_with_a_percent_sign_which_makes_it_a_comment():
    pages = [*(ROOT / "docs").glob("**/*.md"), *ROOT.glob("*.md")]
    assert [page.name for page in pages if re.search(r"^ *%", page.read_text(encoding="utf-8"), re.M)] == []


def test_the_pictures_of_concepts_show_what_their_pages_say():
    from scripts.docs.concepts import FOLDER, examples, shifted

    shown = examples()
    assert shown["subsampled_stripes"].outputs.flatten(1).tolist() == [[9] * 4, [0] * 4]
    assert shown["blurred_stripes"].outputs.unique().tolist() == [4.5]
    assert {path.stem for path in FOLDER.glob("*.png")} == {*shown, "shifts"}
    # A shift of 1 changes no maximum here and of 4 moves what two of them leave by one; a blur moves at once.
    once, twice = zip(*shifted("max"), strict=True)
    assert once[0].tolist() == once[1].tolist() != once[2].tolist() == once[0].roll(1, 1).tolist()
    assert twice[4].tolist() == twice[0].roll(1, 1).tolist() != twice[2].tolist()
    assert shifted("blur")[1][0].tolist() == [[0, 1, 1, 0, 2, 2, 0, 0]]


def test_the_parameters_that_a_mean_saves_are_what_the_page_says():
    def count(net):
        return sum(weights.numel() for weights in net.parameters())

    page = re.sub(r"\s+", " ", (ROOT / "docs" / "shift_invariance.md").read_text("utf-8"))
    mean, flat = (count(network("convnet", 1, (28, 28), 10, head=name)) for name in ("gap", "flatten"))
    with torch.device("meta"):
        vgg, linear = vgg16(), nn.Linear(512, 1000)
    cut, whole, left = (f"{1e-6 * count(part):.1f} M" for part in (vgg.classifier, vgg, linear))
    assert f"has {mean:,} parameters in place of {flat:,}; VGG16 has {cut} of its {whole} in such" in page
    assert f"of which {left} would remain" in page
