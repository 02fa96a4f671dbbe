import pytest

import cnnpool
from cnnpool.report.choice import baseline, group, refuse, select, varying
from cnnpool.report.comparison import compare
from cnnpool.report.foreign import read


def labels(shelf, *by):
    runs = read([shelf.root])
    return [choice.label for choice in group(runs, by or varying(runs))]


def test_label_shows_the_options_that_differ(shelf):
    for kernel in (2, 10, 3):
        shelf.put(f"k{kernel}", pool={"name": "max", "kernel_size": kernel, "stride": 2})
    shelf.put("avg", pool={"name": "avg", "kernel_size": 2, "stride": 2})
    assert labels(shelf) == ["avg", *(f"max(kernel_size={kernel})" for kernel in (2, 3, 10))]


def test_label_shows_an_option_that_was_asked_for(shelf):
    shelf.put("a", pool="max")
    shelf.put("b", pool={"name": "avg", "kernel_size": 3}, overrides=["pool=avg", "pool.kernel_size=3"])
    assert labels(shelf) == ["avg(kernel_size=3)", "max"]


def test_label_shows_stages_that_are_otherwise(shelf):
    blur, avg = {"name": "blur", "kernel_size": 4}, {"name": "avg", "kernel_size": 3}
    shelf.put("a", pool=blur)
    shelf.put("b", pool=blur, stages={"s1": blur, "s2": avg}, overrides=["stage.s2.kernel_size=3"])
    shelf.put("c", pool=blur, stages={"s1": blur, "s2": blur | {"kernel_size": 5}})
    assert labels(shelf) == ["blur", "blur + s2:avg(kernel_size=3)", "blur + s2:blur(kernel_size=5)"]


def test_stages_of_a_published_network_are_as_the_pool_where_they_say_no_more(shelf):
    blur, keep = {"name": "blur", "filter_size": 3, "stride": 2}, {"name": "keep"}
    shelf.put("a", pool=keep, stages={"conv1": keep, "maxpool": keep})
    shelf.put("b", pool=blur, stages={"conv1": {"name": "blur"}, "maxpool": blur})
    shelf.put("c", pool=blur, stages={"conv1": keep, "maxpool": blur})
    assert labels(shelf) == ["blur", "blur + conv1:keep", "keep"]


def test_choice_of_several_rooms_has_a_part_for_each(shelf):
    shelf.put("a", pool="max", readout={"name": "gap"})
    shelf.put("b", pool="avg", readout={"name": "flatten"})
    assert labels(shelf) == ["avg / flatten", "max / gap"]
    assert labels(shelf, "pool", "fit.lr") == ["avg / fit.lr=0.01", "max / fit.lr=0.01"]
    assert labels(shelf, "pool.name") == ["avg", "max"]


def test_two_runs_of_one_choice_and_seed_say_in_which_keys_they_differ(shelf):
    shelf.put("a", seed=3)
    shelf.put("b", seed=3, fit={"epochs": 5, "optimizer": "adamw", "lr": 0.1})
    said = r"two runs of 'max' with seed 3: .*/a and .*/b; they differ in .*fit.lr.* \(fit.lr: 0.01 or 0.1\)"
    advice = ".*--where fit.lr=0.1, or tell them apart by --by pool,fit.lr"
    with pytest.raises(ValueError, match=said + advice):
        labels(shelf, "pool")
    assert len(select(read([shelf.root]), ["fit.lr=0.1"])) == 1


def test_two_runs_of_different_operators_are_told_apart_by_the_operator_not_by_its_options(shelf):
    shelf.put("a", pool={"name": "avg", "count_include_pad": True})
    shelf.put("b", pool={"name": "max", "ties": "first"})
    said = r"they differ in pool.name \(pool.name: avg or max\): keep one by --where pool=max, "
    with pytest.raises(ValueError, match=said + "or tell them apart by --by fit.lr,pool$"):
        labels(shelf, "fit.lr")
    # By its name, an operator is a choice with all its options.
    found = compare(read([shelf.root]), by=["pool.name"])
    assert [row.choice.label for row in found.rows] == ["max", "avg"] and found.by == ["pool"]
    shelf.put("c", pool={"name": "max", "ties": "first"}, stages={"s1": {"name": "avg"}})
    said = r"stages.s1.name: unset or avg\): keep one by --where stages.s1.name=avg, .* --by fit.lr,pool$"
    with pytest.raises(ValueError, match=said):
        compare(read([shelf.root]), by=["fit.lr"], where=["pool=max"])


def test_a_sweep_over_a_setting_of_the_training_is_grouped_by_it(shelf):
    for rate in (0.01, 0.1):
        for seed in (0, 1):
            shelf.put(f"{rate}/{seed}", seed=seed, fit={"epochs": 5, "optimizer": "adamw", "lr": rate})
    assert labels(shelf) == ["fit.lr=0.01", "fit.lr=0.1"]
    shelf.put("avg", seed=0, pool={"name": "avg"}, fit={"epochs": 5, "optimizer": "adamw", "lr": 0.1})
    assert labels(shelf) == ["avg / fit.lr=0.1", "max / fit.lr=0.01", "max / fit.lr=0.1"]


def test_baseline_is_max_else_the_first_else_what_was_asked(shelf):
    shelf.sweep(max=[0.9], avg=[0.9], blur=[0.9])
    choices = group(read([shelf.root]), ["pool"])
    assert baseline(choices, None).label == "max"
    assert baseline(choices[:2], None).label == "avg"
    # As in the report's runs.csv.
    table = {"choice": ["avg", "max"], "acc": [0.9, 0.9]}
    assert cnnpool.compare(table, "acc", by="choice", seed="none")[0]["choice"] == "choice=max"
    assert baseline(choices, "blur").label == "blur"
    with pytest.raises(ValueError, match="is not among the choices: 'avg', 'blur', 'max'"):
        baseline(choices, "maxx")


def test_baseline_is_max_in_all_stages_before_max_in_some(shelf):
    pool, avg = {"name": "max", "kernel_size": 3}, {"name": "avg", "kernel_size": 3}
    shelf.put("a", pool=avg)
    shelf.put("b", pool=pool | {"kernel_size": 2}, stages={"s1": avg})
    assert baseline(group(read([shelf.root]), ["pool"]), None).label == "max + s1:avg"
    shelf.put("c", pool=pool)
    assert baseline(group(read([shelf.root]), ["pool"]), None).label == "max(kernel_size=3)"


def test_baseline_by_a_part_of_the_label_must_be_unique(shelf):
    for pool, readout in (("max", "gap"), ("max", "gem"), ("avg", "gap")):
        shelf.put(f"{pool}{readout}", pool=pool, readout={"name": readout})
    assert baseline(group(read([shelf.root]), ["pool.name", "readout.name"]), "avg").label == "avg / gap"
    choices = group(read([shelf.root]), ["pool", "readout"])
    assert baseline(choices, "avg").label == "avg / gap"
    assert baseline(choices, "max/gem").label == baseline(choices, "max / gem").label == "max / gem"
    said = r"'max' stands for several choices: 'max / gap', 'max / gem'; name one of them, .* --where"
    with pytest.raises(ValueError, match=said):
        baseline(choices, "max")


PROBE = {"invariance": {"worst_px": 1, "seed": 0, "every_epochs": 0}}


@pytest.mark.parametrize(
    ("key", "changes"),
    [
        ("data_sha256", {"data_sha256": "f" * 64}),
        ("epochs", {"epochs": 7}),
        ("precision", {"precision": "bf16-mixed"}),
        ("fit.lr", {"fit": {"epochs": 5, "optimizer": "adamw", "lr": 0.5}}),
        ("invariance.consistency", {"invariance": {"consistency": {"tips": 0.9}}}),
        ("probe.invariance.seed", {"asked": {"probe": {"invariance": {"worst_px": 1, "seed": 3}}}}),
        ("trainer.gradient_clip_val", {"asked": {"probe": PROBE, "trainer": {"gradient_clip_val": 0.01}}}),
        ("callback.stop.mode", {"asked": {"probe": PROBE, "callback": {"stop": {"mode": "max"}}}}),
        ("environment.commit", {"environment": {"cnnpool": "0.1.0", "commit": "fffffff"}}),
    ],
)
def test_runs_that_differ_beside_the_choice_are_refused_unless_told_so(shelf, key, changes):
    one, other = shelf.put("a", pool="max"), shelf.put("b", pool="avg", **changes)
    runs = read([shelf.root])
    with pytest.raises(ValueError, match="cannot be compared") as caught:
        refuse(runs, ["pool"], ["model.width"])
    message = str(caught.value)
    assert key in message and str(one) in message and str(other) in message
    assert len(message.splitlines()) <= 5
    assert any(note.startswith(key) for note in refuse(runs, ["pool"], [key]))
    assert f"--by pool,{key}, " in message and f"--allow model.width,{key}" in message
    if key != "invariance.consistency":
        refuse(runs, ["pool", key], [])


def test_machine_and_root_may_differ_and_the_machine_is_noted(shelf):
    shelf.put("a", pool="max", environment={"cnnpool": "1", "commit": "c", "threads": 1})
    shelf.put("b", pool="avg", environment={"cnnpool": "1", "commit": "c", "threads": 2}, seed=4)
    said = "environment.threads differs among the runs: 1, 2: the same seed does not give the same bits"
    assert refuse(read([shelf.root]), ["pool"], []) == [said]


def test_settings_that_change_no_number_may_differ(shelf):
    data, fit = {"name": "digits", "batch_size": 128}, {"epochs": 5, "optimizer": "adamw", "lr": 0.01}
    probe = {"invariance": {"worst_px": 1, "every_epochs": 2}}
    shelf.put("a", pool="max", data=data | {"root": "a", "seed": 0}, fit=fit | {"progress": "bar"})
    shelf.put("b", pool="avg", data=data | {"root": "b", "seed": 1}, fit=fit, asked={"probe": probe})
    assert refuse(read([shelf.root]), ["pool"], []) == []


def test_a_preset_that_a_network_cannot_take_keeps_it_in_the_table(shelf):
    whole, rest = {"distinct": 0.9, "one_px": 0.8}, {"distinct": 0.9}
    shelf.put("a", pool="strided", invariance={"consistency": whole})
    shelf.put("b", pool="max", invariance={"consistency": rest, "skipped": {"one_px": "takes no crops"}})
    # One without the probe stands beside them.
    shelf.put("c", pool="max", seed=2, invariance={})
    assert refuse(read([shelf.root]), ["pool"], []) == []


def test_where_keeps_what_it_says_and_refuses_what_cannot_hold(shelf):
    shelf.sweep(max=[0.9, 0.9], avg=[0.9, 0.9], blur=[0.9, 0.9])
    runs = read([shelf.root])
    assert len(select(runs, ["pool=max"])) == 2
    assert len(select(runs, ["pool=max,avg", "seed=1"])) == 2
    assert len(select(runs, ["fit.lr=0.01"])) == 6
    for condition, message in (
        *((text, "is not KEY=VALUE") for text in ("pool", "=max", "pool=")),
        ("poll=max", "did you mean 'pool'"),
        ("pool=median", "pool is one of avg, blur, max"),
    ):
        with pytest.raises(ValueError, match=message):
            select(runs, [condition])
