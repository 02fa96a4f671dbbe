"""The tab in a browser, inside a TensorBoard that runs."""

import csv
import importlib.util
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from cnnpool.choose.live_file import FILE, Live, content
from cnnpool.report import main
from cnnpool.run_folder import layout
from cnnpool.run_folder.plan import planned
from cnnpool.system.lock_file import lock
from cnnpool.tables import Column

# Test modules are no package: the browser's driver is a file beside this one.
_found = importlib.util.spec_from_file_location("browser", Path(__file__).with_name("browser.py"))
driver = importlib.util.module_from_spec(_found)
_found.loader.exec_module(driver)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not driver.installed(), reason="no Chromium on the PATH to look at the tab with"),
]
ROWS = "tab?.querySelectorAll('table.main tbody tr').length"
LINES = "[...tab.querySelectorAll('table.main tbody tr')]"
CELLS = f"{LINES}.map(row => [...row.children].map(cell => cell.textContent))"


@pytest.fixture(scope="module")
def serve():
    """Starts TensorBoard on a folder; its address."""
    running = []

    def started(folder):
        command = [sys.executable, "-W", "ignore", "-m", "tensorboard.main", "--logdir", str(folder)]
        command += ["--port", "0", "--load_fast=false", "--reload_interval", "5"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        running.append(process)
        for line in process.stdout:
            if found := re.search(r"http://\S+", line):
                return found[0]
        raise AssertionError("TensorBoard ended")

    yield started
    for process in running:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture(scope="module")
def runs(new_shelf, tmp_path_factory):
    """Three seeds of three choices, and what compare says of them."""
    shelf = new_shelf(tmp_path_factory.mktemp("runs") / "outputs")
    shelf.sweep(max=[0.9, 0.8, 0.85], avg=[0.7, 0.65, 0.6], blur=[0.9, 0.92, 0.94])
    return shelf


@pytest.fixture(scope="module")
def address(serve, runs):
    return serve(runs.root)


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    found = driver.Browser(tmp_path_factory.mktemp("browser"))
    yield found
    found.close()


@pytest.fixture
def browser(chromium):
    chromium.size(1400)
    chromium.errors.clear()
    return chromium


def open_tab(browser, address, more="", theme="false"):
    browser.open(f"{address}?darkMode={theme}#downsampling{more}")
    browser.wait(f"{ROWS} > 1")


def change(browser, name, value):
    browser.run(
        f"(() => {{ const one = [...tab.querySelectorAll('select')].find(s => s.dataset.focus === '{name}');"
        f" one.value = '{value}'; one.dispatchEvent(new Event('change')); return 1; }})()"
    )


@pytest.mark.parametrize(("theme", "width"), [("light", 800), ("dark", 1600)])
def test_the_tab_shows_the_numbers_of_compare_and_no_error(browser, address, runs, tmp_path, theme, width):
    assert main([str(runs.root), "--out", str(tmp_path / "report"), "--no-board"]) == 0
    wanted = list(csv.DictReader((tmp_path / "report" / "table.csv").read_text().splitlines()))
    browser.size(width)
    open_tab(browser, address, theme="true" if theme == "dark" else "false")
    assert browser.run("tab.body.dataset.theme") == theme
    rows = browser.run(CELLS)
    for cells, row in zip(rows, wanted, strict=True):
        assert cells[0] == row["choice"] and cells[1] == row["n"]
        assert cells[2] == f"{100 * float(row['mean']):.2f} ± {100 * float(row['sd']):.2f}"
        if row["difference"]:
            assert cells[5].startswith(f"{100 * float(row['difference']):+.2f} [")
        assert cells[-1].removeprefix("▲ ").removeprefix("▼ ") == row["verdict"]
    # The page itself is not wider than the window; a table may scroll by itself.
    assert browser.run("tab.documentElement.scrollWidth <= tab.documentElement.clientWidth")
    browser.run("tab.getElementById('learning').scrollIntoView()")
    browser.wait("tab.querySelector('#figure-learning img').naturalWidth > 100")
    assert "95 % t interval" in browser.run("tab.querySelector('#figure-learning figcaption').textContent")
    assert browser.errors == []


def test_controls_change_what_is_shown_and_stand_in_the_address(browser, address):
    open_tab(browser, address)
    change(browser, "Measure", "invariance.worst_shift_accuracy")
    browser.wait("tab.querySelector('table.main thead').textContent.includes('worst-shift accuracy')")
    change(browser, "Baseline", "avg")
    browser.wait("tab.querySelector('table.main tbody th').textContent === 'avg'")
    browser.run("[...tab.querySelectorAll('input')].find(i => i.dataset.focus === 'where seed=0').click()")
    browser.wait(f"({CELLS}).every(row => row[1] === '1')")
    browser.run("[...tab.querySelectorAll('button')].find(b => b.textContent === 'seeds').click()")
    browser.wait("tab.querySelectorAll('circle.seed').length === 3")
    kept = browser.run("location.hash")
    for part in ("metric=invariance.worst_shift_accuracy", "baseline=avg", "where=seed%3D0", "seeds=1"):
        assert f"&p.downsampling.{part}" in kept
    browser.open(f"{address}?x=1{kept}")
    browser.wait("tab?.querySelector('table.main tbody th')?.textContent === 'avg'")
    assert browser.run("tab.querySelector('table.main thead').textContent.includes('worst-shift accuracy')")
    assert browser.run("tab.querySelectorAll('circle.seed').length") == 3
    assert browser.errors == []


def test_a_choice_opens_on_its_runs_and_a_measure_on_its_definition_by_the_keyboard(browser, address):
    open_tab(browser, address)
    browser.run("[...tab.querySelectorAll('.choice')].find(b => b.textContent === 'max').focus()")
    browser.press("Enter", text="\r")
    opened = browser.wait("tab.querySelector('tr.runs')?.textContent")
    assert "seed 0 90.00 max/seed0" in opened and "seed 2 85.00 max/seed2" in opened
    link = browser.run("tab.querySelector('tr.runs a').href")
    assert "runFilter=" in link and link.endswith("#timeseries")
    # The row is drawn anew, and the focus stays.
    assert browser.run("tab.activeElement.textContent") == "max"
    browser.run("[...tab.querySelectorAll('.term')].find(b => b.textContent === 'p (Holm)').focus()")
    assert "adjusted by Holm" in browser.wait(
        "!tab.getElementById('bubble').hidden && tab.getElementById('bubble').textContent"
    )
    browser.press("Escape")
    browser.wait("tab.getElementById('bubble').hidden")
    assert browser.errors == []


def test_a_stage_leads_to_its_pictures(browser, address):
    open_tab(browser, address)
    browser.run("tab.getElementById('gradient').scrollIntoView()")
    browser.wait("tab.querySelector('#figure-gradient img').naturalWidth > 100")
    both = browser.run("tab.querySelector('#figure-gradient img').src.length")
    browser.run(
        "[...tab.querySelectorAll('#stages-gradient button')].find(b => b.textContent === 'stage s2').click()"
    )
    browser.wait(f"tab.querySelector('#figure-gradient img').src.length < {both}")
    assert browser.run("location.hash").endswith("p.downsampling.stage=s2")
    assert browser.errors == []


def test_a_run_that_finishes_meanwhile_appears(browser, serve, shelf, begin):
    shelf.sweep(max=[0.9], avg=[0.8])
    folder = begin("blur/seed0", pool="blur", epochs=[(1, 0.5), (2, 0.75)])
    begin("<img src=x>/seed0", pool="lp", state="failed", error="<b>out of memory</b>")
    open_tab(browser, serve(shelf.root))
    jobs = browser.wait("tab.querySelector('.jobs')?.textContent")
    assert "epoch 2 of 5, validation accuracy 75.00 %" in jobs
    assert "<img src=x>/seed0" in jobs and "<b>out of memory</b>" in jobs
    assert browser.run("tab.querySelectorAll('.jobs img, .jobs b').length") == 0
    assert [row[0] for row in browser.run(CELLS)] == ["max", "avg"]
    for path in sorted(folder.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    folder.rmdir()
    shelf.put(pool="blur", accuracy=0.95)
    browser.wait(f"{ROWS} === 3")
    assert [row[0] for row in browser.run(CELLS)] == ["max", "avg", "blur"]
    assert "epoch 2" not in browser.run("tab.querySelector('.jobs').textContent")
    assert browser.errors == []


def test_two_runs_of_one_choice_are_told_apart_by_a_click(browser, serve, new_shelf, tmp_path):
    shelf = new_shelf(tmp_path / "outputs")
    for rate in (0.01, 0.02):
        shelf.put(f"lr{rate}/seed0", fit={"epochs": 5, "lr": rate})
    browser.open(f"{serve(shelf.root)}#downsampling")
    browser.wait("tab?.querySelector('#refusal pre')?.textContent.startsWith('two runs of')")
    browser.run("[...tab.querySelectorAll('#refusal button')].find(b => b.textContent === 'fit.lr').click()")
    browser.wait(f"{ROWS} === 2")
    assert [row[0] for row in browser.run(CELLS)] == ["max / fit.lr=0.01", "max / fit.lr=0.02"]
    assert browser.errors == []


def test_a_study_and_the_jobs_that_wait_are_followed(browser, serve, new_shelf, tmp_path):
    shelf = new_shelf(tmp_path / "outputs")
    shelf.sweep(max=[0.9], avg=[0.8])
    study = shelf.root / FILE
    columns = [Column("candidate", ["max", "avg"], True), Column("seeds", ["3", "3"])]
    live = Live(
        **{"said": "round 4 of at most 9", "rounds": 3, "planned": 9, "ended": 0, "asked": 2},
        **{"spent_s": 60.0, "budget_s": 600.0, "time": time.time(), "candidates": columns},
        **{"trained": [3, 3], "left": [True, False], "gone": [("avg", "worse than max")]},
    )
    study.write_bytes(content(live))
    waiting = {shelf.root / "max" / f"seed{seed}": [f"seed={seed}"] for seed in (7, 8)}
    with lock(shelf.root / layout.LOCK), planned(waiting):
        open_tab(browser, serve(shelf.root))
        browser.wait("tab.getElementById('running').textContent.includes('seed=8')")
        assert browser.run("[...tab.querySelectorAll('.pill')].map(p => p.textContent)")[:2] == [
            "2 done",
            "2 waiting",
        ]
        said = browser.run("tab.getElementById('choose').textContent")
        assert "1 of 2 candidates are left. Round 4 of at most 9: 0 of 2 runs have ended." in said
        assert "3 of at most 9 complete" in said and "of 10 min, " in said and "worse than max" in said
    browser.wait("tab.getElementById('running').hidden")
    study.write_bytes(content(replace(live, verdict="Recommended: max.")))
    browser.wait("tab.getElementById('choose').textContent.includes('Recommended: max.')")
    assert browser.errors == []
