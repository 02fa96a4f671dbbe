import csv
import io
import os
import re
import shutil
import subprocess
import sys
from argparse import Namespace
from importlib.metadata import entry_points
from urllib.parse import unquote

import pytest
from tensorboard.backend.event_processing.data_ingester import _parse_event_files_spec
from tensorboard.plugins.base_plugin import TBContext

from cnnpool.report import main
from cnnpool.report.plots import PAINTERS
from cnnpool.tensorboard.loader import Loader, _named

ACCURACY = "test accuracy (%), mean ± sd"


def test_tensorboard_finds_the_plugin_by_its_entry_point_which_imports_neither_torch_nor_what_draws():
    [found] = entry_points(group="tensorboard_plugins", name="downsampling")
    assert found.load() is Loader
    # Without a folder of this machine there is no plugin.
    assert not any(Loader().load(TBContext(logdir=logdir)) for logdir in (None, "", "gs://bucket/runs"))
    code = f"import sys, {found.module}; print({{'torch', 'matplotlib', 'scipy'}} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


def test_tensorboard_lists_the_tab_as_active_once_there_is_a_run(shelf, tab):
    listing = tab.server().get("/data/plugins_listing").json["downsampling"]
    assert listing["enabled"] is False and listing["tab_name"] == "Downsampling"
    assert listing["loading_mechanism"]["module_path"] == "/data/plugin/downsampling/tab.js"
    shelf.put()
    assert tab.server().get("/data/plugins_listing").json["downsampling"]["enabled"]


def test_several_log_folders_are_compared_together(shelf, new_tab, restless):
    for study in ("one", "two"):
        shelf.put(f"{study}/max/seed0", pool={"max": "max", "one": "max", "two": "avg"}[study])
    spec = f"first:{shelf.root / 'one'},{shelf.root / 'two'},far:gs://bucket/runs"
    tab = new_tab("", flags=Namespace(logdir_spec=spec))
    page = tab.page()
    assert tab.plugin.is_active() and page.choices == ["max", "avg"]
    # By the names that TensorBoard gives to the runs of each folder.
    links = [one["href"] for one in page.soup.select("a") if "runFilter" in one["href"]]
    names = [unquote(link).partition("runFilter=^(")[2].partition(")$")[0] for link in links]
    assert [name.replace("\\", "") for name in names] == ["first/max/seed0", "max/seed0"]


@pytest.mark.parametrize("part", ["{}", "a:{}", "/x:y/{}", "a:b:{}", ":{}", "gs://x", "a:gs://x"])
def test_a_part_of_the_log_folders_is_read_as_tensorboard_does(part, tmp_path):
    part = part.format(tmp_path)
    [(folder, name)] = _parse_event_files_spec(part).items()
    found = _named(part)
    assert found[0] == (name or "")
    assert "://" in part or os.path.realpath(found[1]) == folder


def test_every_route_answers_through_tensorboard_without_a_warning(shelf, tab, caplog):
    shelf.sweep(max=[0.9, 0.8], avg=[0.7, 0.6])
    server = tab.server()
    for route in tab.apps:
        answer = server.get(
            f"/data/plugin/downsampling{route}?name=accuracy"
            if "fig" in route
            else f"/data/plugin/downsampling{route}"
        )
        assert (answer.status_code, answer.headers["X-Content-Type-Options"]) == (200, "nosniff"), route
    same = {"If-None-Match": server.get("/data/plugin/downsampling/page").headers["ETag"]}
    assert server.get("/data/plugin/downsampling/page", headers=same).status_code == 204
    shelf.put(seed=2)
    assert server.get("/data/plugin/downsampling/page", headers=same).status_code == 200
    # TensorBoard's own check of headers warns where a later version will refuse.
    assert caplog.records == []


def test_the_files_are_those_that_compare_writes(shelf, tab, tmp_path):
    shelf.sweep(max=[0.9, 0.8, 0.85], avg=[0.7, 0.65, 0.6], blur=[0.9, 0.91, 0.92])
    out = tmp_path / "report"
    assert main([str(shelf.root), "--out", str(out), "--baseline", "avg", "--no-board"]) == 0
    for name in ("table.csv", "runs.csv", "table.tex"):
        answer = tab.get(f"/{name}", baseline="avg")
        assert answer.data == (out / name).read_bytes()
        assert answer.headers["Content-Disposition"] == f'attachment; filename="{name}"'


def test_the_tab_shows_the_blocks_of_the_report_and_corrects_for_the_same_comparisons(shelf, tab, tmp_path):
    shelf.sweep(max=[0.9, 0.8, 0.85], avg=[0.7, 0.65, 0.6], blur=[0.9, 0.81, 0.92])
    page = type(tab.page())
    for baseline in ("", "max"):
        named = ["--baseline", baseline] if baseline else []
        assert main([str(shelf.root), "--out", str(tmp_path / "report"), "--no-board", *named]) == 0
        report = page((tmp_path / "report" / "report.html").read_text())
        own = tab.page(baseline=baseline) if baseline else tab.page()
        assert own.rows() == report.rows()
        said = f"corrected for {2 if baseline else 3} comparisons"
        assert said in own.text("#comparison") and said in report.text("#comparison")
        for block in ("#measures", "#words"):
            assert own.text(block) == report.text(block).partition(" Made by")[0] != ""
        drawn = [[str(one) for one in both.soup.select("#comparison svg")] for both in (own, report)]
        assert drawn[0] == drawn[1] and len(drawn[0]) == 5


def test_logs_of_other_programs_make_no_tab(tab, shelf):
    folder = shelf.root / "lightning_logs" / "version_0"
    folder.mkdir(parents=True)
    (folder / "metrics.csv").write_text("epoch,step,val_acc\n0,0,0.5\n1,1,0.6\n")
    assert not tab.plugin.is_active()
    shelf.put()
    assert tab.plugin.is_active() and tab.page().choices == ["max"]


def test_the_table_has_the_numbers_of_table_csv_drawn_and_defined(shelf, tab):
    shelf.sweep(max=[0.9, 0.8, 0.85], avg=[0.7, 0.65, 0.6])
    page = tab.page(seeds="1")
    assert page.choices == ["max", "avg"] and page.rows()[ACCURACY] == ["85.00 ± 5.00", "65.00 ± 5.00"]
    assert "Test accuracy (3 seeds; max 85.00 %): " in page.text("#comparison")
    rows = list(csv.DictReader(io.StringIO(tab.get("/table.csv").text)))
    [low, high] = [float(one.get_text()) for one in page.soup.select("th.plot")[0].select(".ends span")]
    ends = [min(1, float(row[key])) for row in rows for key in ("ci_low", "ci_high")]
    assert (low, high) == pytest.approx((100 * min(ends), 100 * max(ends)), abs=0.05)
    for row, line in zip(rows, page.soup.select("#comparison tbody tr"), strict=True):
        at = float(line.select_one(".mean")["cx"]) / 150
        assert low + (high - low) * (at - 0.06) / 0.88 == pytest.approx(100 * float(row["mean"]), abs=0.1)
        assert len(line.select(".seed")) == 3
    assert len(tab.page().soup.select(".seed")) == 0
    first = page.soup.select_one("#comparison tbody th ul")
    assert re.findall(r"seed \d [\d.]+ max/seed\d", first.get_text(" ", strip=True)) == [
        "seed 0 90.00 max/seed0", "seed 1 80.00 max/seed1", "seed 2 85.00 max/seed2"
    ]  # fmt: skip
    # Every column of numbers says what it is, at a press of a key.
    for head in page.soup.select("thead th")[1:]:
        if "plot" not in head.get("class", []) and head.get_text() != "choice":
            [words] = page.soup.select(f"#{head.button['popovertarget']}")[:1]
            assert words.get_text() == head.button["title"] and words.has_attr("popover")


def colours(page):
    return {
        row.th.get_text(" ", strip=True).partition(" ")[0]: row["style"]
        for row in page.soup.select("#comparison tbody tr")
    }


def test_a_choice_keeps_its_colour_whatever_is_shown(shelf, tab):
    shelf.sweep(max=[0.9, 0.8], avg=[0.7, 0.6], blur=[0.5, 0.5])
    first = colours(tab.page())
    assert len(set(first.values())) == 3 and all("light-dark(#" in one for one in first.values())
    shelf.put(pool="asap", seed=0, accuracy=0.99)
    for asked in ({"metric": "val.loss"}, {"baseline": "blur"}, {"where": ["pool=blur", "pool=asap"]}):
        later = colours(tab.page(**asked))
        assert {label: colour for label, colour in later.items() if label in first}.items() <= first.items()
    assert later.keys() == {"blur", "asap"} and len(set(later.values())) == 2


def test_runs_that_cannot_be_compared_are_refused_with_what_to_choose_instead(shelf, tab):
    shelf.put()
    shelf.put("other", seed=1, data={"name": "mnist", "batch_size": 128}, data_sha256="f" * 64)
    page = tab.page()
    assert "these runs cannot be compared, they differ in data.name" in page.text("#refusal")
    assert "--" not in page.text("#refusal")
    ways = page.links("#refusal")
    assert ways.keys() == {"only digits", "only mnist", "tell them apart", "mix them"}
    assert ways["only mnist"] == "page?where=data%3Dmnist"
    assert (ways["tell them apart"], ways["mix them"]) == ("page?by=pool&by=data", "page?allow=data")
    assert tab.page(where="data=mnist").choices == ["max"]
    assert tab.page(by=["pool", "data"]).choices == ["max / digits", "max / mnist"]
    assert tab.page(allow="data").choices == ["max"]
    assert tab.get("/table.csv").status_code == 404 and tab.figure("accuracy") is None


def test_results_of_a_probe_change_neither_the_comparison_nor_what_the_form_offers(shelf, tab, new_tab):
    shelf.sweep(max=[0.9, 0.8], avg=[0.7, 0.6])
    before = tab.page()
    shelf.put("probe", precision="fp32", examined={"model": "max/seed0"}, readout={"name": "gap"})
    page = tab.page()
    assert page.rows() == before.rows() and page.options("where") == before.options("where")
    # Nor do colours depend on a filter now.
    assert colours(new_tab(shelf.root).page(where="pool=max"))["max"] == colours(before)["max"]


def test_two_runs_of_one_choice_are_told_apart_by_anything_in_which_they_differ(shelf, tab):
    for place, patience in enumerate((2, 5)):
        asked = {"callback": {"early_stopping": {"patience": patience}}, "probe": {}}
        shelf.put(f"{place}/seed0", asked=asked)
    page = tab.page()
    assert "two runs of 'max' with seed 0" in page.text("#refusal") and "--" not in page.text("#refusal")
    key = "callback.early_stopping.patience"
    assert {key, "only 2", "only 5", "tell them apart"} <= set(
        page.soup.select_one("#refusal").get_text("|", strip=True).split("|")
    )
    assert page.links("#refusal")["tell them apart"] == f"page?by=pool&by={key}"
    assert tab.page(by=["pool", key]).choices == [f"max / {key}=2", f"max / {key}=5"]
    assert tab.page(where=f"{key}=5").choices == ["max"]


def test_a_sweep_over_a_setting_of_the_training_is_grouped_by_it_as_compare_groups_it(shelf, tab):
    for rate in (0.01, 0.1):
        for seed in (0, 1):
            shelf.put(f"{rate}/{seed}", seed=seed, fit={"epochs": 5, "optimizer": "adamw", "lr": rate})
    assert tab.page().choices == ["fit.lr=0.01", "fit.lr=0.1"]


def test_what_cannot_be_is_said_in_the_words_of_the_page_and_breaks_nothing(shelf, tab):
    shelf.sweep(max=[0.9], avg=[0.8])
    wrong = {"metric": "no.such", "baseline": "nobody", "by": "no_key", "where": "pool=no", "folder": "etc"}
    for name, value in wrong.items():
        page = tab.page(**{name: value})
        assert "--" not in page.text("#refusal")
        assert value.rpartition("=")[2] in page.text("#refusal") or name == "folder"
        assert page.links("header")["Reset"] == "page"
    for name in wrong:
        assert "a--z" in tab.page(**{name: "pool=a--z"}).text("#refusal") or name in ("by", "folder")


def test_the_address_holds_what_is_chosen_and_nothing_else(shelf, tab):
    shelf.sweep(max=[0.9, 0.8], avg=[0.8, 0.7])
    form = {
        "folder": "",
        "metric": "test.accuracy",
        "by": "pool",
        "baseline": "avg",
        "where": ["seed=0", "seed=1"],
        "x": "1",
    }
    form["automatic"] = ["by=pool", "metric=test.accuracy"]
    answer = tab.get("/page", **form)
    assert answer.status_code == 302
    assert answer.headers["Location"] == "page?where=seed%3D0&where=seed%3D1&baseline=avg"
    page = tab.page(where=["seed=0", "seed=1"], baseline="avg")
    assert page.choices == ["avg", "max"] and page.rows()["n"] == ["2", "2"]
    assert page.options("where") == {
        "pool=max": False,
        "pool=avg": False,
        "seed=0": True,
        "seed=1": True,
    } | page.options("where")
    assert tab.page(where="seed=1").rows()["n"] == ["1", "1"]
    assert [one["value"] for one in page.soup.select("[name=automatic]")] == [
        "by=pool",
        "metric=test.accuracy",
    ]


def test_one_folder_can_be_looked_at_alone(shelf, tab):
    for study in ("one", "two"):
        for pool in ("max", "avg"):
            shelf.put(f"{study}/{pool}/seed0", pool=pool)
    page = tab.page()
    assert "two runs of 'avg' with seed 0" in page.text("#refusal")
    assert page.options("folder") == {"": "all", "one": "one (2)", "two": "two (2)"}
    assert "two/max/seed0" in tab.page(folder="two").text("#comparison tbody")


def test_jobs_say_how_far_they_are_and_why_they_failed(shelf, tab, begin):
    shelf.put()
    begin("max/seed1", seed=1, epochs=[(1, 0.5), (2, 0.75)])
    begin("avg/seed0", pool="avg", state="failed", error="out of memory")
    page = tab.page()
    assert page.counts == {"done": 1, "running": 1, "failed": 1}
    assert page.jobs == [
        ("max/seed1", "running", "epoch 2 of 5, validation accuracy 75.00 %"),
        ("avg/seed0", "failed", "out of memory"),
    ]
    begin("max/seed2", seed=2, state="failed", error="the loss became nan before step 2: lower fit.lr")
    page = tab.page()
    assert page.counts == {"done": 1, "running": 1, "failed": 2} and page.rows()["n"] == ["1 (1 diverged)"]


def test_a_run_that_finishes_meanwhile_is_followed(shelf, tab, begin):
    folder = begin("avg/seed0", pool="avg", epochs=[(1, 0.5), (2, 0.75)])
    # Learning curves are drawn before any run has finished.
    page = tab.page()
    assert "appears as soon as a run has finished" in page.text("#refusal")
    assert [one["id"] for one in page.soup.select("figure")] == ["figure-learning"]
    assert tab.figure("learning", seeds="1")[1].startswith(b"<?xml")
    shelf.put()
    before = tab.page()
    assert before.choices == ["max"]
    assert "Dotted: runs that are not finished." in tab.figure("learning")[0]
    shutil.rmtree(folder)
    shelf.put(pool="avg")
    after = tab.page()
    assert after.counts == {"done": 2} and after.choices == ["max", "avg"]
    # The figures have new addresses, so that they are fetched again.
    sources = [{one["id"]: one["data-src"] for one in page.soup.select("figure")} for page in (before, after)]
    assert all(sources[0][name] != sources[1][name] for name in sources[0])


def test_figures_are_drawn_for_any_theme_and_one_stage(shelf, tab):
    shelf.sweep(max=[0.9, 0.8], avg=[0.7, 0.6])
    drawn = {name for name in PAINTERS if tab.figure(name)}
    assert drawn == {"accuracy", "differences", "gradient", "shift", "pareto", "learning"}
    whole = tab.figure("gradient")[1]
    assert b"light-dark(#ffffff, #303030)" in whole
    # A file is plain: other programs do not know such colours.
    plain = tab.get("/figure.svg", name="gradient").data
    assert b"light-dark" not in plain and plain.count(b"#ffffff") == whole.count(b"light-dark(#ffffff")
    assert len(tab.figure("gradient", stage="s1")[1]) < len(whole)
    assert tab.get("/figure", name="../secret").data == b"" and tab.get("/figure.svg").status_code == 404


def test_names_from_folders_and_settings_are_text_and_nothing_else(shelf, tab):
    evil = "<img src=x onerror=alert(1)>$x^2$"
    shelf.put("<b>&amp;/seed0", pool={"name": evil}, stages={})
    shelf.put("max/seed0")
    page = tab.page()
    assert page.choices == ["max", evil] and not page.soup.select("img, b[onerror], [onerror]")
    assert [one.get("src") for one in page.soup.select("script")] == ["tab.js"]
    policy = tab.get("/page").headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'self';") and "script-src" not in policy
    drawn = tab.figure("accuracy")[1]
    assert b"<img" not in drawn and b"onerror" not in drawn.replace(b"&lt;img src=x onerror", b"")


def test_a_number_that_is_none_is_not_drawn(shelf, tab):
    shelf.put(invariance={"worst_shift_accuracy": None})
    page = tab.page(metric="invariance.worst_shift_accuracy")
    assert (
        page.rows()["n"] == ["0 (1 NaN)"]
        and not page.soup.select(".mean")
        and "nan" not in str(page.soup.select("svg"))
    )
