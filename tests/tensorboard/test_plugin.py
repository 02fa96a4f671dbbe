import base64
import csv
import io
import json
import shutil
import subprocess
import sys
from importlib.metadata import entry_points

import pytest
from tensorboard.plugins.base_plugin import TBContext

from cnnpool.report import main
from cnnpool.tensorboard.loader import Loader
from cnnpool.tensorboard.plugin import FIGURES


def main_table(content):
    return {one["header"]: one["cells"] for one in content["tables"][0]["columns"]}


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


def test_every_route_answers_through_tensorboard_without_a_warning(shelf, tab, caplog):
    shelf.sweep(max=[0.9, 0.8], avg=[0.7, 0.6])
    server = tab.server()
    for route in tab.apps:
        answer = server.get(f"/data/plugin/downsampling{route}")
        assert (answer.status_code, answer.headers["X-Content-Type-Options"]) == (200, "nosniff"), route
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


def test_logs_of_other_programs_are_compared_as_compare_does_and_read_again_when_they_grow(tab, shelf):
    def log(group, seed, *values):
        folder = shelf.root / group / f"version_{seed}"
        folder.mkdir(parents=True, exist_ok=True)
        lines = [f"{step},{value},{1 - value}\n" for step, value in enumerate(values)]
        (folder / "metrics.csv").write_text("step,val_acc,val_loss\n" + "".join(lines))

    for seed in range(3):
        log("a", seed, 0.5, 0.6)
        log("b", seed, 0.5, 0.7 + seed / 100)
    content = tab.json("/comparison")
    said = "2 groups, 3 runs each, paired by the number in the folder's name."
    assert content["headline"][0].startswith(said)
    assert main_table(content)["val_acc, mean ± sd"] == ["0.6000 ± 0.0000", "0.7100 ± 0.0100"]
    assert [one["key"] for one in content["metrics"]] == ["val_acc", "val_loss"]
    loss = tab.json("/comparison", metric="val_loss", baseline="b")
    assert loss["metric"]["sense"] == -1 and loss["choices"][0]["label"] == "b"
    drawn = tab.json("/figure", name="learning")
    assert drawn["caption"].startswith("val_acc per step")
    log("b", 0, 0.5, 0.7, 0.8)
    assert main_table(tab.json("/comparison"))["val_acc, mean ± sd"][1] == "0.7433 ± 0.0493"
    # A first run of cnnpool is compared by itself.
    shelf.put()
    assert main_table(tab.json("/comparison"))["choice"] == ["max"]


def test_the_table_and_the_numbers_are_those_of_table_csv(shelf, tab):
    shelf.sweep(max=[0.9, 0.8, 0.85], avg=[0.7, 0.65, 0.6])
    content = tab.json("/comparison")
    assert main_table(content)["choice"] == ["max", "avg"]
    assert main_table(content)["test accuracy (%), mean ± sd"] == ["85.00 ± 5.00", "65.00 ± 5.00"]
    assert content["headline"][0].startswith("Test accuracy (3 seeds; max 85.00 %): ")
    rows = list(csv.DictReader(io.StringIO(tab.get("/table.csv").text)))
    for row, choice in zip(rows, content["choices"], strict=True):
        assert choice["label"] == row["choice"]
        wanted = [100 * float(row[key]) for key in ("mean", "ci_low", "ci_high")]
        assert choice["mean"] == pytest.approx([min(100, x) for x in wanted])
    first, second = content["choices"]
    assert second["difference"][0] == pytest.approx(-20) and first["runs"][0]["folder"] == "max/seed0"
    assert [run["value"] for run in first["runs"]] == ["90.00", "80.00", "85.00"]
    # Every column of numbers says what it is.
    described = {c["header"]: c["help"] for table in content["tables"] for c in table["columns"][1:]}
    assert all(described.values()) and described["parameters"].startswith("Numbers that training changes.")


def test_a_choice_keeps_its_colour_whatever_is_shown(shelf, tab):
    shelf.sweep(max=[0.9, 0.8], avg=[0.7, 0.6], blur=[0.5, 0.5])
    first = tab.json("/comparison")["colours"]
    assert len({one["light"] for one in first.values()}) == len({one["dark"] for one in first.values()}) == 3
    shelf.put(pool="asap", seed=0, accuracy=0.99)
    for asked in ({"metric": "val.loss"}, {"baseline": "blur"}, {"where": "pool=blur,asap"}):
        later = tab.json("/comparison", **asked)["colours"]
        assert {label: later[label] for label in first} == first
        assert len({one["light"] for one in later.values()}) == 4


def test_runs_that_cannot_be_compared_are_refused_with_what_to_choose_among(shelf, tab):
    shelf.put()
    shelf.put("other", seed=1, data={"name": "mnist", "batch_size": 128}, data_sha256="f" * 64)
    content = tab.json("/comparison")
    assert content["refusal"].startswith("these runs cannot be compared, they differ in data.name")
    assert content["differing"]["data.name"] == ["digits", "mnist"] and "tables" not in content
    assert tab.get("/table.csv").status_code == 404
    assert tab.json("/figure", name="accuracy") == {"svg": None}
    assert main_table(tab.json("/comparison", where="data=mnist"))["choice"] == ["max"]


def test_what_cannot_be_is_said_and_breaks_nothing(shelf, tab):
    shelf.sweep(max=[0.9], avg=[0.8])
    wrong = {"metric": "no.such", "baseline": "nobody", "by": "no_key", "where": "pool=no", "folder": "/etc"}
    for name, value in wrong.items():
        content = tab.json("/comparison", **{name: value})
        assert "tables" not in content and (content["refusal"] or name == "folder")


def test_one_folder_can_be_looked_at_alone(shelf, tab):
    for study in ("one", "two"):
        for pool in ("max", "avg"):
            shelf.put(f"{study}/{pool}/seed0", pool=pool)
    assert tab.json("/comparison")["refusal"].startswith("two runs of 'avg' with seed 0")
    folders = tab.json("/jobs")["folders"]
    assert folders == [{"folder": "one", "runs": 2}, {"folder": "two", "runs": 2}]
    content = tab.json("/comparison", folder="two")
    assert content["choices"][0]["runs"][0]["folder"] == "two/max/seed0"


def test_jobs_say_how_far_they_are_and_why_they_failed(shelf, tab, begin):
    shelf.put()
    begin("max/seed1", seed=1, epochs=[(1, 0.5), (2, 0.75)])
    begin("avg/seed0", pool="avg", state="failed", error="out of memory")
    content = tab.json("/jobs")
    assert content["counts"] == {"done": 1, "running": 1, "failed": 1}
    failed, running = content["unfinished"]
    assert (failed["folder"], failed["reason"]) == ("avg/seed0", "out of memory")
    assert (running["epoch"], running["epochs"], running["accuracy"], running["seed"]) == (2, 5, 75.0, 1)
    assert tab.json("/jobs", version=content["version"]).keys() == {"version", "results"}


def test_a_run_that_finishes_meanwhile_is_followed(shelf, tab, begin):
    folder = begin("avg/seed0", pool="avg", epochs=[(1, 0.5), (2, 0.75)])
    # Learning curves are drawn before any run has finished.
    assert tab.json("/comparison")["refusal"] == ""
    drawn = tab.json("/figure", name="learning", seeds="1")
    assert base64.b64decode(drawn["svg"]).startswith(b"<?xml")
    shelf.put()
    before = tab.json("/jobs")
    assert main_table(tab.json("/comparison"))["choice"] == ["max"]
    caption = tab.json("/figure", name="learning")["caption"]
    assert "Dotted: runs that are not finished." in caption
    shutil.rmtree(folder)
    shelf.put(pool="avg")
    after = tab.json("/jobs")
    assert after["results"] > before["results"] and after["counts"] == {"done": 2}
    assert main_table(tab.json("/comparison"))["choice"] == ["max", "avg"]


def test_figures_are_drawn_for_both_themes_and_one_stage(shelf, tab):
    shelf.sweep(max=[0.9, 0.8], avg=[0.7, 0.6])
    drawn = {name for name in FIGURES if tab.json("/figure", name=name)["svg"]}
    assert drawn == {"accuracy", "differences", "gradient", "shift", "pareto", "learning"}
    for theme in ("light", "dark"):
        whole = base64.b64decode(tab.json("/figure", name="gradient", theme=theme)["svg"])
        assert (b"#303030" in whole) == (theme == "dark")
        assert tab.get("/figure.svg", name="gradient", theme=theme).data == whole
    part = tab.json("/figure", name="gradient", theme="dark", stage="s1")["svg"]
    assert len(base64.b64decode(part)) < len(whole)


def test_names_from_folders_and_settings_are_data_and_nothing_else(shelf, tab):
    evil = "<img src=x onerror=alert(1)>$x^2$"
    shelf.put("<b>&amp;/seed0", pool={"name": evil}, stages={})
    shelf.put("max/seed0")
    answer = tab.get("/comparison")
    assert answer.content_type == "application/json" and evil in answer.text
    assert "<script" not in answer.text
    drawn = base64.b64decode(tab.json("/figure", name="accuracy")["svg"])
    assert b"<img" not in drawn and b"onerror" not in drawn.replace(b"&lt;img src=x onerror", b"")


def test_a_number_that_is_none_is_null(shelf, tab):
    shelf.put(invariance={"worst_shift_accuracy": None})
    text = tab.get("/comparison", metric="invariance.worst_shift_accuracy").text
    assert "NaN" not in json.dumps(json.loads(text, parse_constant=pytest.fail)["choices"][0]["mean"])
