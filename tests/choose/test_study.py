import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from cnnpool.choose.study import (
    NOTHING,
    View,
    _cost,
    _finished,
    _margin,
    _too_expensive,
    plan,
    resolution,
    signed,
    view,
)
from cnnpool.choose.verdict import Ending, next_command, verdict

LEVEL = {"max": 0.9, "avg": 0.8, "strided": 0.85, "subsample": 0.7}


def noisy(pool, seed, settings=None):
    """Far apart, and every seed a little different."""
    return LEVEL[pool] + 0.001 * math.sin(7 * seed + len(pool))


def test_the_worse_candidate_is_dropped_and_the_better_recommended(make_study, bench, drive):
    study, runs = make_study(), bench(noisy)
    found, reason, _ = drive(study, runs)
    assert (reason, found.recommended, found.active) == ("one left", 0, (0,))
    (drop,) = found.state.drops
    assert (drop.candidate, drop.than, drop.round) == (1, 0, found.done)
    assert runs.ran == [(pool, seed) for seed in range(found.done) for pool in ("max", "avg")]


def test_a_dropped_candidate_is_trained_no_more(make_study, bench, drive):
    levels = {"max": 0.9, "avg": 0.9, "subsample": 0.5}
    runs = bench(lambda pool, seed, _: levels[pool] + 0.01 * math.sin(5 * seed + 3 * len(pool)))
    study = make_study(pools=("max", "avg", "subsample"), margin="0")
    found, reason, _ = drive(study, runs)
    ended = {drop.candidate: drop.round for drop in found.state.drops}[2]
    assert ended < found.done and reason == "all rounds"
    assert [seed for pool, seed in runs.ran if pool == "subsample"] == list(range(ended))


def test_a_study_that_was_stopped_goes_on_as_if_it_had_not(make_study, bench, drive):
    whole, _, _ = drive(make_study("whole"), bench(noisy))

    class Stop(BaseException):
        pass

    def stopping(pool, seed, settings):
        if (pool, seed) == ("avg", 2):
            raise Stop
        return noisy(pool, seed)

    first, second = bench(stopping), bench(noisy)
    with pytest.raises(Stop):
        drive(make_study("stopped"), first)
    again, _, _ = drive(make_study("stopped"), second)
    assert second.ran[0] == ("avg", 2) and not set(first.ran[:-1]) & set(second.ran)
    assert np.array_equal(again.values, whole.values)
    assert (again.state.drops, again.state.left) == (whole.state.drops, whole.state.left)


def test_nothing_is_said_of_networks_that_learned_nothing(make_study, bench, drive):
    # The bench leaves 1 - value as the accuracy of the test.
    runs = bench(noisy)
    runs.images = {"test": [90, 10]}
    study = make_study()
    found, reason, _ = drive(study, runs)
    ending = Ending(found, reason, [])
    assert (found.done, reason, found.recommended, ending.empty) == (3, NOTHING, None, True)
    said = "The study ended after 3 complete rounds: no run is better than always predicting one class."
    assert verdict(study, ending).startswith(
        f"No verdict. {said} First find a recipe that learns, by cnnpool train: a lower fit.lr"
    )
    assert next_command(study, ending) == []


def test_a_bound_beyond_what_is_possible_is_not_known(make_study, bench, drive):
    runs = bench(lambda pool, seed, _: float((seed + len(pool) + (pool == "avg")) % 2))
    found, reason, _ = drive(make_study(rounds=3), runs)
    assert reason == "all rounds" and found.state.loss == (math.inf, math.inf)


def test_a_failing_candidate_is_reported_and_not_fatal(make_study, bench, drive):
    def accuracy(pool, seed, _):
        return RuntimeError("too large") if pool == "avg" and seed == 1 else noisy(pool, seed)

    study = make_study(pools=("max", "avg", "strided"))
    found, reason, _ = drive(study, bench(accuracy))
    assert found.out == {1: "too large"} and found.recommended == 0
    assert np.isnan(found.values[1]).all() and reason == "one left"
    # Called again, it gets a second chance and catches up with the rounds that it missed.
    second = bench(noisy)
    found, _, _ = drive(make_study(pools=("max", "avg", "strided")), second)
    assert found.out == {} and {pool for pool, _ in second.ran} == {"avg"}
    assert sorted(seed for _, seed in second.ran) == list(range(1, found.done))


def test_a_value_that_is_no_number_puts_a_candidate_out(make_study, bench, drive, monkeypatch):
    def signed(study, one):
        lost = one.pool["name"] == "avg" and one.seed == 1
        return math.nan if lost else one.measured["val"]["accuracy"]

    monkeypatch.setattr("cnnpool.choose.study.signed", signed)
    found, _, _ = drive(make_study(), bench(noisy))
    assert found.out == {1: "val accuracy of seed 1 is not a number"} and found.recommended == 0


def test_runs_on_other_images_or_of_other_settings_are_refused(make_study, bench, drive):
    study, changed, other = make_study(), bench(noisy), bench(noisy)
    (first,), (second,) = (arm.jobs([0]) for arm in study.arms)
    changed.sha256 = "b"
    list(changed([first])), list(other([second]))
    with pytest.raises(ValueError, match="trained on different images or in different precision"):
        drive(study, bench(noisy))
    study = make_study("other")
    (job,) = study.arms[0].jobs([0])
    list(other([replace(job, settings=job.settings | {"stage": {"s2": {"name": "blur"}}})]))
    with pytest.raises(ValueError, match=r"runs/.*/seed0 holds a run with other settings \(stage\."):
        drive(study, bench(noisy))


def test_one_reason_for_all_is_a_mistake_and_different_ones_leave_none(make_study, bench, drive):
    found, reason, _ = drive(make_study("other"), bench(lambda pool, *_: ValueError(f"no {pool}")))
    assert (reason, found.recommended) == ("none left", None)
    with pytest.raises(ValueError, match="no candidate runs: no such folder"):
        drive(make_study(), bench(lambda *_: ValueError("no such folder")))


def test_rounds_are_planned_once_from_the_time_that_runs_take(make_study, bench, drive):
    study = make_study(rounds=20)
    study.ledger.batch_s, study.ledger.batch_runs = 600.0, 2
    runs = bench(noisy, seconds=400.0)
    runs.images = {"val": [60, 40]}
    for _ in runs([job for arm in study.arms for job in arm.jobs([0])]):
        pass
    plan(study, view(study))
    # An hour holds 6 rounds of two runs of 300 s, one is done: 1.5 * 7.
    assert study.ledger.rounds == 11 and study.ledger.resolution == 0.01
    study.ledger.batch_s = 6.0
    plan(study, view(study))
    assert study.ledger.rounds == 11


def test_nothing_is_looked_at_before_there_is_a_plan(make_study, bench):
    study = make_study()
    for _ in bench(noisy)([job for arm in study.arms for job in arm.jobs(range(5))]):
        pass
    assert view(study).done == 2 and not view(study).state.drops


@pytest.mark.parametrize(
    ("values", "step"),
    [([0.5, 0.217, 0.93], 1 / 1000), ([1 / 216, 47 / 216], 1 / 216), ([0.5], 0.5), ([1, 1], 0)],
)
def test_the_resolution_is_one_over_the_images(values, step):
    assert resolution(np.array(values)) == pytest.approx(step)
    # A continuous metric has none.
    assert resolution(np.random.default_rng(0).normal(size=20)) == 0


def test_a_metric_that_no_run_measures_is_refused(make_study, bench, drive):
    study = make_study()
    study.metric = replace(study.metric, key="val.accuracies")
    with pytest.raises(ValueError, match=r"choose\.metric=val\.accuracies: the runs .* mean 'val\.accuracy'"):
        drive(study, bench(noisy))


def test_where_less_is_better_a_smaller_value_counts_more(make_study):
    study = make_study()
    run = SimpleNamespace(measured={"cost": {"flops": 100}, "val": {"accuracy": 0.5}})
    assert signed(study, run) == 0.5 and signed(replace(study, metric=study.cost), run) == -100


def test_a_limit_beside_a_candidate_without_cost_puts_the_others_out(make_study):
    out = _too_expensive(make_study(limit=1.5), (0.0, 2.0))
    assert set(out) == {1} and out[1].startswith("over the limit: inf times")


def view_of(values):
    return View(np.array(values), None, {}, (), (), "")


def test_the_margin_is_a_share_of_the_errors_of_the_network_as_it_is(make_study):
    seen = view_of([[0.3, 0.7], [0.8, 1.0]])
    assert _margin(make_study(pools=("max", "keep")), seen) == pytest.approx(0.1 * 0.1)
    assert _margin(make_study(pools=("max", "avg")), seen) == pytest.approx(0.1 * 0.5)
    # It failed: the first that ran.
    seen = view_of([[0.5, 0.5], [np.nan, np.nan]])
    assert _margin(make_study(pools=("max", "keep")), seen) == pytest.approx(0.1 * 0.5)


def test_the_margin_is_that_of_the_runs_before_the_first_look(make_study, bench, drive):
    values = [0.99, 0.5, 0.7, 0.9, 0.8, 0.6, 0.7, 0.8]
    for launch in ("local", "processes"):
        study = make_study(launch, overrides=("data=digits", f"launch={launch}"))
        for _ in range(2):
            drive(study, bench(lambda pool, seed, _: values[seed]))
            assert study.ledger.margin == pytest.approx(0.1 * (1 - (0.99 + 0.5 + 0.7) / 3))


def test_a_study_ends_once_the_cheapest_is_shown_to_be_no_worse(make_study):
    state = SimpleNamespace(finished="", not_worse=[0])
    ends = [_finished(state, [0, 1], costs, 3, make_study()) for costs in ([100.0, 200.0], [200.0, 100.0])]
    assert ends == ["decided", ""]


def test_the_cost_of_a_candidate_is_the_mean_over_its_runs(make_study):
    runs = {
        seed: SimpleNamespace(measured={"cost": {"flops": flops}}) for seed, flops in enumerate((100, 300))
    }
    assert _cost(make_study(), SimpleNamespace(runs=lambda seeds: runs)) == 200
