"""The tab in a browser, framed as TensorBoard frames it: a script in the page around it clicks and reads."""

import csv
import html
import json
import re
import shutil
import subprocess
import time
from contextlib import contextmanager
from threading import Thread

import pytest
from werkzeug import Request, Response
from werkzeug.serving import make_server

from cnnpool.report import main
from cnnpool.run_folder.plan import planned

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM, reason="no Chromium on the PATH to look at the tab with"),
]
PAGE = """<!doctype html><body>
<iframe src="%s/data/plugin_entry.html?name=downsampling" width="%d" height="6000"></iframe>
<pre id="out"></pre>
<script type="module">
const frame = document.querySelector("iframe"), inside = () => frame.contentDocument;
const all = (chosen) => [...inside().querySelectorAll(chosen)], one = (chosen) => all(chosen)[0];
// A browser's time runs ahead of its painting, which figures wait for; it stands while an answer is awaited.
const rest = () => new Promise((go) => setTimeout(go, 100)).then(() => fetch("/rest"));
async function until(ready) {
  for (let tries = 0; tries < 900; tries++) {
    try { const found = await ready(); if (found) return found; } catch {}
    await rest();
  }
  throw new Error(`never true: ${ready}`);
}
const named = (chosen, text) => until(() => all(chosen).find((found) => found.textContent === text));
const told = (cell) => (cell.querySelector("summary") ?? cell).textContent.trim();
const cellsOf = (row) => [...row.children].map(told);
const cells = () => all("#comparison table.drawn tbody tr").map(cellsOf);
const text = (chosen) => one(chosen).textContent;
function change(found, value) {
  if (found.type === "checkbox") found.checked = value; else found.value = value;
  found.dispatchEvent(new Event("change", { bubbles: true }));
}
const pick = (name, value) => change(one(`select[name="${name}"]`), value);
const tick = (name, value, on = true) => change(one(`input[name="${name}"][value="${value}"]`), on);
async function script() { %s }
let out;
try { out = await script(); } catch (error) { out = `${error}; ${inside()?.body?.textContent}`; }
document.getElementById("out").textContent = JSON.stringify(out);
</script></body>"""


@contextmanager
def served(app):
    """The address of a server of ``app`` in threads of this process."""
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def browse(new_tab, restless, tmp_path):
    """A function: what ``script`` returns in the page around the tab of a folder; ``acts`` it may fetch."""

    def run(folder, script, *, address="", width=1400, acts=(), prefix=""):
        board = new_tab(folder).board(path_prefix=prefix)
        page, named = PAGE % (prefix, width, script), {f"/{act.__name__}": act for act in acts}

        @Request.application
        def app(request):
            if request.path == "/page":
                return Response(page, content_type="text/html")
            if request.path == "/rest":
                time.sleep(0.05)
                return Response("")
            if request.path in named:
                named[request.path]()
                return Response("")
            return Response.from_app(board, request.environ)

        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1600,6200"]
        options += [f"--user-data-dir={tmp_path / 'browser'}", "--enable-logging=stderr", "--dump-dom"]
        with served(app) as root:
            address = f"{root}/page#downsampling{address}"
            command = [CHROMIUM, *options, "--virtual-time-budget=120000", address]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        complaints = [one for one in done.stderr.splitlines() if "CONSOLE" in one and "favicon" not in one]
        found = json.loads(html.unescape(re.search('<pre id="out">(.*)</pre>', done.stdout, re.S)[1]))
        assert complaints == [] and not isinstance(found, str), (found, complaints)
        return found

    return run


@pytest.fixture
def runs(shelf):
    """Three seeds of three choices."""
    return shelf.sweep(max=[0.9, 0.8, 0.85], avg=[0.7, 0.65, 0.6], blur=[0.9, 0.92, 0.94])


def test_the_tab_shows_the_numbers_of_compare_and_opens_what_is_clicked(browse, runs, tmp_path):
    assert main([str(runs.root), "--out", str(tmp_path / "report"), "--no-board"]) == 0
    wanted = list(csv.DictReader((tmp_path / "report" / "table.csv").read_text().splitlines()))
    script = """
    const scheme = () => inside().defaultView.getComputedStyle(inside().body).colorScheme;
    await until(() => cells().length > 1 && scheme() === "light");
    document.body.classList.add("dark-mode");
    await until(() => scheme() === "dark");
    await until(() => one("#figure-learning img").naturalWidth > 100);
    const { scrollWidth, clientWidth } = inside().documentElement;
    const said = all("#comparison li").filter((line) => line.offsetHeight).length;
    const caption = text("#figure-learning figcaption"), table = cells();
    // A choice opens on its runs, a measure on its definition, and a figure is enlarged.
    const max = await until(() => all("#comparison summary").find((found) => told(found) === "max"));
    max.focus();
    max.click();
    const opened = text("#comparison details[open]"), link = one("#comparison details[open] a").href;
    (await named(".term", "p (Holm)")).click();
    const bubble = await until(() => all(":popover-open").map((found) => found.textContent).join());
    one(":popover-open").hidePopover();
    await until(() => one("#figure-accuracy img"));
    one("#figure-accuracy button").click();
    await until(() => one("#figure-accuracy :popover-open img"));
    return { cells: table, said, caption, fits: scrollWidth <= clientWidth, opened, link, bubble };
    """
    found = browse(runs.root, script, width=800)
    for cells, row in zip(found["cells"], wanted, strict=True):
        assert cells[0] == row["choice"] and cells[1] == row["n"]
        assert cells[2] == f"{100 * float(row['mean']):.2f} ± {100 * float(row['sd']):.2f}"
        if row["difference"]:
            assert cells[5].startswith(f"{100 * float(row['difference']):+.2f} [")
        assert cells[-1].removeprefix("▲ ").removeprefix("▼ ") == row["verdict"]
    # The sentences above the table are seen on narrow pages too.
    assert found["said"] >= 1
    # The page itself is not wider than its frame; a table may scroll by itself.
    assert found["fits"] and "95 % t interval" in found["caption"]
    for said in (r"seed 0\W+90.00\W+max/seed0", r"seed 2\W+85.00\W+max/seed2"):
        assert re.search(said, found["opened"])
    assert re.search(r"//127[^/]+/\?runFilter=", found["link"]) and found["link"].endswith("#timeseries")
    assert "adjusted by Holm" in found["bubble"]


def test_the_form_stands_in_the_address_also_behind_a_path_prefix(browse, runs):
    script = """
    await until(() => text("#refusal p").includes("nobody"));
    (await named("header a", "Reset")).click();
    await until(() => cells().length > 1);
    one('[data-key="where"] summary').click();
    one('select[name="metric"]').focus();
    pick("metric", "invariance.worst_shift_accuracy");
    await until(() => text("#comparison thead").includes("worst-shift accuracy"));
    pick("baseline", "avg");
    await until(() => cells()[0][0] === "avg");
    tick("where", "seed=0");
    await until(() => cells().every((row) => row[1] === "1"));
    tick("seeds", "1");
    await until(() => all("circle.seed").length === 3);
    pick("stage", "s2");
    await until(() => location.hash.includes("stage=s2"));
    await until(() => one("#figure-gradient figcaption"));
    const kept = [location.hash, inside().activeElement.name, one('[data-key="where"]').open];
    kept.push(one("a.file").href, one("#comparison details a").href);
    inside().defaultView.history.back();
    await until(() => !location.hash.includes("stage=s2") && one('select[name="stage"]').value === "");
    return kept;
    """
    kept, focused, opened, table, charts = browse(
        runs.root, script, address="&p.downsampling.baseline=nobody", prefix="/boards/mine"
    )
    assert "/boards/mine/data/plugin/downsampling/table.csv?" in table and "baseline=avg" in table
    assert "/boards/mine/?runFilter=" in charts
    said = ["metric=invariance.worst_shift_accuracy", "baseline=avg", "where=seed%3D0", "seeds=1", "stage=s2"]
    assert all(f"&p.downsampling.{part}" in kept for part in said)
    # The place is kept: the focus, and what is unfolded.
    assert focused == "metric" and opened is True
    script = "await until(() => cells().length > 1); return [cells()[0][0], all('circle.seed').length]"
    assert browse(runs.root, script, address=kept.removeprefix("#downsampling")) == ["avg", 3]


def test_runs_jobs_and_a_study_are_followed(browse, shelf, begin, study):
    shelf.sweep(max=[0.9], avg=[0.8])
    folder = begin("blur/seed0", pool="blur", epochs=[(1, 0.5), (2, 0.75)])
    begin("<img src=x>/seed0", pool="lp", state="failed", error="<b>out of memory</b>")

    def finish():
        shutil.rmtree(folder)
        shelf.put(pool="blur", accuracy=0.95)

    def end():
        study("", verdict="Recommended: max.")

    script = """
    await until(() => cells().length === 2 && text("#jobs").includes("seed=8"));
    const before = text("#jobs"), evil = all("#jobs img, #jobs b").length;
    const pills = all("header .pill").map((pill) => pill.textContent), said = text("#choose");
    await fetch("/finish");
    await until(() => cells().length === 3);
    const after = text("#jobs"), labels = cells().map((row) => row[0]);
    await fetch("/end");
    await until(() => text("#choose").includes("Recommended: max."));
    return [before, evil, pills, said, after, labels];
    """
    waiting = {shelf.root / "max" / f"seed{seed}": [f"seed={seed}"] for seed in (7, 8)}
    with study(""), planned(waiting):
        before, evil, pills, said, after, labels = browse(shelf.root, script, acts=[finish, end])
    assert "epoch 2 of 5, validation accuracy 75.00 %" in before and "epoch 2" not in after
    assert "<img src=x>/seed0" in before and "<b>out of memory</b>" in before and evil == 0
    assert labels == ["max", "avg", "blur"]
    assert {"2 done", "1 running", "2 waiting", "1 failed"} <= set(pills)
    said = " ".join(said.split())
    assert "1 of 2 candidates are left. Round 4 of at most 9: 1 of 2 runs have ended." in said
    assert "3 of at most 9 complete" in said and "of 10 min, " in said and "worse than max" in said
