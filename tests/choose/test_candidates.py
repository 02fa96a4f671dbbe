from pathlib import Path

import pytest

from cnnpool.choose.candidates import Network, overrides_of


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
    home = tmp_path / "a folder's" / "digits" / "convnet" / "max+fit.epochs=2+kernel_size=3"
    assert [job.folder for job in jobs] == [home / "seed5", home / "seed6"]
    first, second = ({**job.settings, "seed": None} for job in jobs)
    assert first == second
    assert first["pool"]["kernel_size"] == 3 and first["fit"]["pictures"] is False


def test_a_study_is_named_after_what_is_trained():
    assert Network(("data=mnist", "data.limit=1000", "out=here")).home() == Path(
        "here/choose/mnist/convnet/data.limit=1000"
    )
    assert Network(("data=digits",)).home() == Path("outputs/choose/digits/convnet/default")


def test_candidates_of_a_network_with_weights_are_fine_tuned():
    words = ("model=timm:resnet18", "model.weights=w.pth")
    tuned, default = (
        Network((*words, *more)).jobs("max_blur", [0, 1], Path("runs")) for more in ((), ("fit=default",))
    )
    assert ["fit=finetune" in job.overrides for job in tuned + default] == [True, True, False, False]
    assert all(
        one.settings["fit"]["lr"] < other.settings["fit"]["lr"]
        for one, other in zip(tuned, default, strict=True)
    )
    (other,) = Network(words).jobs("max+fit.lr=0.5", [0], Path("runs"))
    assert "fit=finetune" in other.overrides and other.settings["fit"]["lr"] == 0.5


def test_settings_that_a_study_makes_itself_are_refused():
    for override, said in {
        "pool=max": "the candidates are named by choose.pools",
        "fit.lr=0.1,0.2": "choose compares operators alone; give one value, or let every candidate try them",
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
        Network(("experiment=mnist_few",)).checked("max")
    assert Network(("experiment=mnist_operators",)).checked("avg")["pool"]["name"] == "avg"
