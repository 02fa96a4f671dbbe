import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cnnpool.choose import candidates, page
from cnnpool.choose.study import view
from cnnpool.choose.verdict import Ending, next_command, verdict

ROOT = Path(__file__).parents[2]
LEVEL = {"max": 0.9, "avg": 0.9, "strided": 0.7, "subsample": 0.9}


def accuracy(pool, seed, settings):
    if pool == "subsample":
        return RuntimeError("out of memory")
    return LEVEL[pool] + 0.01 * math.sin(5 * seed * ord(pool[0]))


def test_times_stand_beside_the_cost_as_multiples_of_the_baselines(make_study, bench, drive):
    speeds = {"avg": (100, 50), "max": (200, 100), "strided": (400, 50)}
    costs = {name: {"forward_images_per_s": f, "train_images_per_s": t} for name, (f, t) in speeds.items()}
    study = make_study(pools=("max", "avg", "strided"), rounds=3)
    found, _, _ = drive(study, bench(accuracy, costs=costs))
    labels, *_, inference, training, _ = page.columns(study, found)
    cells = {label: both for label, *both in zip(labels.cells, inference.cells, training.cells, strict=True)}
    assert (inference.header, training.header) == ("inference (ms/image)", "training (ms/image)")
    assert cells == {
        "max": ["5 (1.00)", "10 (1.00)"],
        "avg": ["10 (2.00)", "20 (2.00)"],
        "strided": ["2.5 (0.50)", "20 (2.00)"],
    }


@pytest.fixture
def written(make_study, bench, drive):
    study = make_study(pools=("max", "avg", "strided", "subsample"), rounds=7, margin="0.001")
    found, reason, _ = drive(study, bench(accuracy))
    ending = Ending(found, reason, ["cnnpool", "choose", "choose.pools=max,avg"])
    page.write(study, ending)
    return study, ending, study.ledger.folder


def test_the_report_says_what_was_found_what_was_not_and_how_to_repeat_it(written):
    study, ending, folder = written
    text = (folder / "choose.md").read_text()
    assert ending.view.recommended is None
    assert text.startswith("# Downsampling for convnet on digits, by val accuracy")
    advice = r"at most \d\.\d\d points behind the best\. Not told apart: (max, avg|avg, max)\. The study"
    assert re.search(advice, text)
    assert "would take about" in text and "Choose another choose.out with more time or choose.rounds" in text
    drop = ending.view.state.drops[0]
    said = f"after round {drop.round}: no better than the best, shown by {study.arms[drop.than].label}, "
    assert f"- **strided**: {said}" in text and "worse than" not in text
    assert "if differences between runs are normal" in text
    assert "- **subsample**: out of memory" in text
    assert "These images decided nothing." in text
    # Probes measure on test images.
    consistency = replace(study.metric, key="invariance.consistency")
    assert (
        "These images decided, by val accuracy: that"
        in page.report(replace(study, metric=consistency), ending)["choose.md"]
    )
    assert "cnnpool choose choose.pools=max,avg" in text
    assert " | state |\n" in text
    html = (folder / "choose.html").read_text()
    assert html.startswith("<!doctype html>") and "If you must choose: " in html
    # Every value is drawn in its candidate's row.
    assert html.count('<circle class="seed"') == np.isfinite(ending.view.values).sum()
    lines = (folder / "runs.csv").read_text().splitlines()
    assert lines[0].startswith("candidate,seed,round,counted,val.accuracy,test.accuracy")
    assert len(lines) - 1 == int(np.isfinite(ending.view.values).sum())
    assert any(line.startswith("max,0,1,True,0.9") for line in lines)


def test_the_report_has_the_figures_of_the_simulated_studies(written):
    rows = (ROOT / "docs" / "choose.md").read_text().splitlines()
    of = {row.split(" | ")[0]: float(row.split(" | ")[1]) for row in rows if row.startswith("| all equal, ")}
    skew, best, lost, shared = (
        next(share for name, share in of.items() if word in name)
        for word in ("rivals skewed", "best skewed", "collapse", "training images")
    )
    text = " ".join((written[2] / "choose.md").read_text().split())
    assert f"in {skew:.0f} to {best:.0f} % where rivals" in text and skew <= best
    assert f"in {lost:.0f} % where a tenth" in text and f"in {shared:.0f} % where training images" in text


def test_runs_that_learned_nothing_are_told_as_a_risk_of_their_candidate(written, monkeypatch):
    study, ending, _ = written
    for arm in study.arms:
        runs = arm.runs(study.seeds)
        for seed, one in runs.items():
            test = {"accuracy": 0.11 if (arm.label, seed) == ("max", 1) else 0.9}
            runs[seed] = replace(one, measured=one.measured | {"test": test}, images={"test": [36] * 10})
        monkeypatch.setattr(arm, "runs", lambda seeds, runs=runs: runs)
    text = page.report(study, ending)["choose.md"]
    assert "have run. No better than always predicting one class: 1 of 7 runs of max. " in text
    assert "predicting one class, a risk of the candidate\n\n- **max**: 1 of 7 runs\n\n" in text


def test_a_study_that_ended_early_claims_nothing(make_study, bench):
    study = make_study()
    for said, counted in (
        ("No verdict: nothing ran to its end.", "0 finished, 0 of them in 0 complete rounds"),
        (
            "Tests begin with round 3. Raise choose.budget to continue",
            "2 finished, 2 of them in 1 complete round\n",
        ),
    ):
        ending = Ending(view(study), "budget", ["cnnpool", "choose"])
        assert said in verdict(study, ending)
        assert next_command(study, ending) == ["cnnpool", "choose", "choose.budget=61min"]
        assert page.write(study, ending).exists()
        report = (study.ledger.folder / "choose.md").read_text()
        assert counted in report and " 1 rounds" not in report and "divided by the 1 rival." in report
        list(bench(accuracy)(arm.jobs([0])[0] for arm in study.arms if not arm.read(0)))
    mine, best = candidates.Network(("data=digits",), Path("mine"), "own"), replace(ending.view, active=(0,))
    study.arms[0] = candidates.Arm("max", mine, Path("runs"))
    assert next_command(study, replace(ending, view=best))[:6] == [
        *("cnnpool", "train"), *("--config-dir", "mine"), *("--config-name", "own")
    ]  # fmt: skip


def test_a_recipe_that_weights_brought_is_named(make_study):
    study = make_study(overrides=("model=timm:resnet18", "model.weights=w.pth"))
    ending = Ending(view(study), "budget", ["cnnpool", "choose"])
    text = page.report(study, ending)["choose.md"]
    assert "model.weights=w.pth; recipe fit=finetune, since model.weights is given" in text
