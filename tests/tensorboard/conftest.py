import warnings

import pytest
from shelf import new_shelf, shelf
from tensorboard.plugins.base_plugin import TBContext
from werkzeug.test import Client

from cnnpool.report import plots
from cnnpool.tensorboard import index
from cnnpool.tensorboard.loader import Loader

__all__ = ["new_shelf", "shelf"]


with warnings.catch_warnings():
    # TensorBoard's own copy of html5lib warns of itself.
    warnings.simplefilter("ignore", DeprecationWarning)
    from tensorboard.backend.application import TensorBoardWSGI


class Tab:
    """The plugin of a log folder, asked as TensorBoard asks it."""

    def __init__(self, folder):
        self.plugin = Loader().load(TBContext(logdir=str(folder)))
        self.apps = self.plugin.get_plugin_apps()

    def get(self, route, **arguments):
        return Client(self.apps[route]).get(route, query_string=arguments)

    def board(self):
        """TensorBoard with this plugin alone."""
        return TensorBoardWSGI([self.plugin])

    def server(self):
        """The same, to be asked."""
        return Client(self.board())

    def json(self, route, **arguments):
        answer = self.get(route, **arguments)
        assert answer.status_code == 200 and answer.content_type == "application/json"
        return answer.json


@pytest.fixture(autouse=True)
def _no_figures(monkeypatch):
    """Drawing takes nine tenths of the time of ``cnnpool compare``."""
    monkeypatch.setattr(plots, "draw", lambda comparison, histories: iter(()))


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
