import base64
import time
import warnings

import pytest
from bs4 import BeautifulSoup
from shelf import shelf
from tensorboard.plugins.base_plugin import TBContext
from werkzeug.test import Client

from cnnpool.choose.ledger import LIVE, Live, content_of
from cnnpool.report import plots
from cnnpool.run_folder import layout
from cnnpool.system.lock_file import lock
from cnnpool.tables import Column
from cnnpool.tensorboard import index
from cnnpool.tensorboard.loader import Loader

__all__ = ["shelf"]


with warnings.catch_warnings():
    # TensorBoard's own copy of html5lib warns of itself.
    warnings.simplefilter("ignore", DeprecationWarning)
    from tensorboard.backend.application import TensorBoardWSGI


class Page:
    """An answer in HTML, to be read as a reader does."""

    def __init__(self, text):
        self.soup = BeautifulSoup(text, "html.parser")

    def text(self, chosen):
        """The text at a CSS selector on one line; empty if there is none."""
        found = self.soup.select_one(chosen)
        return " ".join(found.get_text(" ", strip=True).split()) if found else ""

    def rows(self, chosen="#comparison table"):
        """The cells of the first table at a selector that are text, as {header: [cell of each row]}."""
        found = self.soup.select_one(chosen)
        cells = [
            [
                (cell.summary or cell).get_text(" ", strip=True)
                for cell in row.find_all(["th", "td"], recursive=False)
            ]
            for row in found.select("tr")
        ]
        return {head: [row[place] for row in cells[1:]] for place, head in enumerate(cells[0])}

    @property
    def choices(self):
        return self.rows()["choice"]

    def options(self, name):
        """Value -> text of what a select offers, or value -> whether it is ticked of the boxes of a name."""
        if boxes := self.soup.select(f'input[type="checkbox"][name="{name}"]'):
            return {box["value"]: box.has_attr("checked") for box in boxes}
        return {
            one["value"]: one.get_text(strip=True)
            for one in self.soup.select(f'select[name="{name}"] option')
        }

    def links(self, chosen):
        return {one.get_text(strip=True): one["href"] for one in self.soup.select(f"{chosen} a")}

    @property
    def counts(self):
        pills = [one.get_text(strip=True) for one in self.soup.select("header .pill")]
        return {
            state: int(count) for count, _, state in (pill.partition(" ") for pill in pills) if count != "no"
        }

    @property
    def jobs(self):
        """(folder, state, what is said) of each listed job."""
        return list(zip(*self.rows("#jobs table").values(), strict=True)) if self.soup.select("#jobs") else []


class Tab:
    """The plugin of a log folder, asked as TensorBoard asks it."""

    def __init__(self, folder, **flags):
        self.plugin = Loader().load(TBContext(logdir=str(folder) if folder else "", **flags))
        self.apps = self.plugin.get_plugin_apps()

    def get(self, route, **arguments):
        return Client(self.apps[route]).get(route, query_string=arguments)

    def board(self, **options):
        """TensorBoard with this plugin alone."""
        return TensorBoardWSGI([self.plugin], **options)

    def server(self):
        """The same, to be asked."""
        return Client(self.board())

    def page(self, **arguments):
        answer = self.get("/page", **arguments)
        assert answer.status_code == 200 and answer.content_type == "text/html; charset=utf-8", answer.headers
        return Page(answer.text)

    def figure(self, name, **arguments):
        """The caption of a figure and its drawing; None if there is nothing to draw."""
        page = Page(self.get("/figure", name=name, **arguments).text)
        picture = page.soup.find("img")
        return picture and (page.text("figcaption"), base64.b64decode(picture["src"].partition("base64,")[2]))


@pytest.fixture(autouse=True)
def _no_figures(monkeypatch):
    """Drawing takes nine tenths of the time of ``cnnpool compare``."""
    monkeypatch.setattr(plots, "draw", lambda comparison: iter(()))


@pytest.fixture
def restless(monkeypatch):
    """Every look at the folders is a new one."""
    monkeypatch.setattr(index, "PAUSE_S", 0.0)
    monkeypatch.setattr(index, "SHARE", 1e9)


@pytest.fixture(scope="session")
def new_tab():
    """Tab itself: test modules cannot import from here."""
    return Tab


@pytest.fixture
def tab(shelf, restless):
    """The tab of the shelf's runs."""
    return Tab(shelf.root)


@pytest.fixture
def begin(shelf):
    """Makes the folder of a run that trains, as ``cnnpool train`` leaves it meanwhile."""

    def made(name, *, pool="max", seed=0, state="running", error=None, epochs=()):
        folder = shelf.root / name
        (folder / ".hydra").mkdir(parents=True)
        (folder / ".cnnpool").touch()
        (folder / ".hydra" / "config.yaml").write_text(
            f"pool: {{name: {pool}, kernel_size: 2, stride: 2}}\nreadout: {{name: flatten}}\n"
            "model: {name: convnet, width: 24}\ndata: {name: digits}\n"
            f"stage: {{s1: {{name: inherit}}, s2: {{name: inherit}}}}\nfit: {{epochs: 5}}\nseed: {seed}\n"
        )
        (folder / ".hydra" / "overrides.yaml").write_text(f"[pool={pool}, seed={seed}]\n")
        reason = "null" if error is None else f'"{error}"'
        (folder / "status.json").write_text(f'{{"state": "{state}", "error": {reason}}}')
        lines = [f'{{"step": {10 * e}, "epoch": {e}, "val/accuracy": {a}}}\n' for e, a in epochs]
        (folder / "metrics.jsonl").write_text("".join(lines))
        return folder

    return made


@pytest.fixture
def study(shelf):
    """A function that writes a study of two candidates; its lock, in which it goes on."""

    def made(name="choose/digits", **changes):
        folder = shelf.root / name
        folder.mkdir(parents=True, exist_ok=True)
        facts = {
            **{"said": "round 4 of at most 9", "rounds": 3, "planned": 9, "ended": 1, "requested": 2},
            **{"spent_s": 60.0, "budget_s": 600.0, "time": time.time()},
            "candidates": [Column("candidate", ["max", "avg"], True), Column("seeds", ["3", "3"])],
            **{"left": [True, False], "gone": [("avg", "after round 3: worse than max")]},
        }
        (folder / LIVE).write_bytes(content_of(Live(**(facts | changes))))
        return lock(folder / layout.LOCK)

    return made
