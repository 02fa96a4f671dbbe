"""``log=csv|wandb|mlflow``: what a run says reaches Lightning's loggers too, offline."""

import csv
import json
import logging

import pytest
import yaml

from cnnpool.fit.loggers import Guarded
from cnnpool.fit.record import Record
from cnnpool.recipe import LOGGERS, Csv, MLflow, TensorBoard
from cnnpool.run_folder.errors import DamagedError

MISSING = "needs wandb and mlflow, which development installs leave out: pip install wandb mlflow-skinny"
# Lightning passes an option that wandb no longer has.
pytestmark = pytest.mark.filterwarnings("ignore:.*anonymous setting")


def scalars(rows):
    """(step, tag, value) of each number."""
    numbers = ((row["step"], *one) for row in rows for one in row.items() if one[0] not in ("step", "epoch"))
    return {(int(step), tag, float(value)) for step, tag, value in numbers if value != ""}


def table(out):
    """The scalars of the CSV log."""
    return scalars(csv.DictReader((out / "csv" / "metrics.csv").read_text().splitlines()))


def said(out):
    """The scalars of metrics.jsonl."""
    return scalars(map(json.loads, (out / "metrics.jsonl").read_text().splitlines()))


def test_csv_holds_every_scalar_and_changes_no_bit(runs, tmp_path):
    _, plain = runs.run(tmp_path / "plain", probes={})
    _, logged = runs.run(tmp_path / "logged", probes={}, log=(Csv(),))
    assert runs.same(plain, logged)
    assert table(tmp_path / "logged") == said(tmp_path / "logged")
    told = yaml.safe_load((tmp_path / "logged" / "csv" / "hparams.yaml").read_text())
    assert told["pool"]["name"] == "max" and told["seed"] == 0
    assert not (tmp_path / "plain" / "csv").exists()


def test_csv_of_a_run_that_went_on_is_whole(runs, tmp_path, monkeypatch):
    cut_at_its_end(runs, tmp_path, monkeypatch, log=(Csv(),))
    runs.run(tmp_path, probes={}, log=(Csv(),))
    assert table(tmp_path) == said(tmp_path)


def cut_at_its_end(runs, out, monkeypatch, **options):
    def cut(*_, **__):
        raise DamagedError("cut")

    with monkeypatch.context() as patch, pytest.raises(DamagedError, match="cut"):
        patch.setattr(Record, "close", cut)
        runs.run(out, **{"probes": {}} | options)


def test_a_logger_that_fails_is_left_out_with_a_warning_and_nothing_is_lost(caplog):
    class Failing:
        calls, experiment = 0, "e"

        def log_metrics(self, values, step):
            self.calls += 1
            raise ConnectionError("no route to host\nand more")

    failing = Failing()
    logger = Guarded("mlflow", failing)
    assert (logger.name, logger.version, logger.experiment) == ("mlflow", "", "e")
    for step in range(3):
        logger.log_metrics({"train/loss": 1.0}, step)
    assert failing.calls == 1
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == [
        "log=mlflow receives nothing more from this run (no route to host); the run's own files do"
    ]


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_a_missing_package_is_named_with_its_remedy(name, monkeypatch):
    monkeypatch.setattr("cnnpool.recipe.find_spec", lambda package: None)
    with pytest.raises(ValueError, match=rf"log={name} needs the package .*'cnnpool\[{name}\]'"):
        LOGGERS[name]().refuse_missing()
    TensorBoard().refuse_missing()


@pytest.mark.slow
def test_mlflow_gets_scalars_settings_and_pictures_and_goes_on_in_the_same_run(runs, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason=MISSING)
    store = (tmp_path / "store").as_uri()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    out = tmp_path / "run"
    options = {"probes": {"gradient": {"samples": 8}}, "log": MLflow(experiment="e"), "pictures": True}
    cut_at_its_end(runs, out, monkeypatch, **options)
    results, _ = runs.run(out, **options)
    client = mlflow.MlflowClient(store)
    (experiment,) = [one for one in client.search_experiments() if one.name == "e"]
    (found,) = client.search_runs([experiment.experiment_id])
    assert found.info.status == "FINISHED" and found.info.run_name == "digits/convnet/max/seed0"
    assert found.data.metrics["test/accuracy"] == results.measured["test"]["accuracy"]
    assert found.data.params["run"] == "digits/convnet/max/seed0"
    assert [one.path for one in client.list_artifacts(found.info.run_id, "view")]
    assert json.loads((out / "logged.json").read_text()) == {"mlflow": found.info.run_id}
