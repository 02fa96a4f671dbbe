from pathlib import Path

import pytest

from cnnpool.choose.candidates import Network, overrides_of
from cnnpool.choose.command import prepare
from cnnpool.choose.options import duration, parse, tries


def test_an_option_without_a_room_is_the_operators_and_one_without_a_value_is_refused():
    expected = ("pool=max", "pool.kernel_size=3", "readout=gap", "fit.lr=0.02")
    assert overrides_of("max+kernel_size=3+readout=gap+fit.lr=0.02") == expected
    for label in ("max+kernel_size", "max+=3", "max+", "max+kernel_size="):
        with pytest.raises(ValueError, match="is not OPTION=VALUE"):
            overrides_of(label)


def test_jobs_of_a_candidate_differ_by_their_seed_alone(tmp_path):
    network = Network(("data=digits", "fit.epochs=2", "seed=5"))
    jobs = network.jobs("max+kernel_size=3", [5, 6], tmp_path / "a folder's")
    assert network.first_seed == 5
    assert [job.settings["seed"] for job in jobs] == [5, 6]
    # The name leaves out the settings that candidates share.
    home = tmp_path / "a folder's" / "max+kernel_size=3"
    assert [job.folder for job in jobs] == [home / "seed5", home / "seed6"]
    first, second = ({**job.settings, "seed": None} for job in jobs)
    assert first == second
    assert first["pool"]["kernel_size"] == 3 and first["fit"]["pictures"] is False


def test_only_probes_that_decide_are_run_unless_some_are_named():
    network = Network(("data=digits",))
    assert network.needing({"cost"}).checked("avg")["probe"].keys() == {"cost"}
    named = Network(("data=digits", "probe.gradient.samples=8"))
    assert named.needing({"cost"}) is named


def test_a_study_is_named_after_what_is_trained():
    assert Network(("data=mnist", "data.limit=1000", "out=here")).home() == Path(
        "here/choose/mnist/convnet/data.limit=1000"
    )
    assert Network(("data=digits",)).home() == Path("outputs/choose/digits/convnet/default")


def test_settings_that_a_study_makes_itself_are_refused():
    for override, said in {
        "pool=max": "the candidates are named by choose.pools",
        "fit.lr=0.1,0.2": "choose compares operators alone; give one value, or let every candidate try them",
        **dict.fromkeys(("seed=0,1", "data.limit=10,20"), "choose compares operators alone; give one value$"),
        "hydra.run.dir=x": "the runs of a study lie in its own folder",
        **dict.fromkeys(("seed=first", "seed=-1"), "seed is that of the first round"),
    }.items():
        with pytest.raises(ValueError, match=said):
            Network((override,))


def test_a_candidate_that_cannot_be_is_refused_before_anything_runs():
    for label, said in {
        "maxx": "choose.pools=maxx: no pool/maxx; did you mean 'max'?",
        "max+kernel=3": "choose.pools=max+kernel=3: unknown key 'pool.kernel'",
        "max+kernel_size=0": "choose.pools=max+kernel_size=0: pool.kernel_size must be a whole number from 1",
    }.items():
        with pytest.raises(ValueError) as refused:
            Network(("data=digits",)).checked(label)
        assert said in str(refused.value) and "\n" not in str(refused.value)


def test_an_experiment_that_sweeps_something_else_is_refused():
    with pytest.raises(ValueError, match="sweeps more than pool and seed"):
        Network(("experiment=mnist_few",)).home()
    assert Network(("experiment=mnist_operators",)).checked("avg")["pool"]["name"] == "avg"


def test_a_budget_is_a_number_with_a_unit():
    known = {"90s": 90, "30min": 1800, "30m": 1800, "1.5h": 5400, "2 h": 7200, "1d": 86400}
    assert {text: duration(text) for text in known} == known
    for text in ("2", "two hours", "h", "0s", "-1h", "1y", "", "1e9d", "nan h"):
        with pytest.raises(ValueError, match=r"choose\.budget=.* give one such as 90s, 30min, 2h or 1d"):
            parse([f"choose.budget={text}"])


def test_options_are_read_from_the_command_line():
    asked = ["choose.pools=max,avg+kernel_size=3", "choose.margin=1e-3", "choose.rounds=5"]
    asked += ["choose.limit=1.5"]
    options = parse([*asked, "choose.tune=fit.lr:[0.01,0.1],fit.weight_decay:[0,0.1]"])
    assert options.pools == ("max", "avg+kernel_size=3")
    assert (options.margin, options.rounds, options.limit) == ("0.001", 5, 1.5)
    assert tries(options.tune) == {"fit.lr": ["0.01", "0.1"], "fit.weight_decay": ["0", "0.1"]}
    for key in ("trainer.gradient_clip_val", "pool.kernel_size", "readout", "data.mixup", "data.batch_size"):
        assert tries([f"{key}:[1,2]"]) == {key: ["1", "2"]}


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("choose.pools=", "choose.pools must be a list, each a text, at least 1 of them, got"),
        ("choose.pools=max,avg,max", "choose.pools names max more than once"),
        (
            "choose.margin=-5",
            "choose.margin=-5: not a positive number, nor a share of errors such as 10%",
        ),
        ("choose.tune=fit.lr", "choose.tune=fit.lr: give a key and two values or more"),
        ("choose.tune=fit.lr:[0.1]", "give a key and two values or more"),
        *(
            (f"choose.tune={key}:[1,2]", f"choose.tune={key}:[1,2]: {key} is no setting of the recipe")
            for key in ("seed", "data.limit", "data", "out", "experiment", "pool", "fits")
        ),
        ("choose.margins=0.1", "choose.margins: no such option; did you mean 'margin'?"),
        ("choose.margin", "choose.margin: expected choose.KEY=VALUE"),
    ],
)
def test_an_option_out_of_range_is_refused_in_one_line(setting, said):
    with pytest.raises(ValueError) as refused:
        parse([setting])
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_one_candidate_is_enough_where_the_network_as_it_is_joins_it(tmp_path):
    options = parse(["choose.pools=max_blur", f"choose.out={tmp_path / 'study'}"])
    own = ("data=digits", "probe=none")
    study = prepare(options, Network(("model=torchvision:resnet18", *own)))
    assert [arm.label for arm in study.arms] == ["keep", "max_blur"]
    with pytest.raises(ValueError, match=r"choose\.pools=max_blur: give two candidates or more"):
        prepare(options, Network(own))
