import pytest

from cnnpool.run_folder.identity import effect, identity_settings, same_choice

RUN = {
    "data": {"val_size": 0.1, "root": "here"}, "model": {"name": "convnet"}, "pool": {"name": "max"},
    "stage": {}, "readout": {"name": "gap"}, "probe": {}, "fit": {"devices": 1, "progress": False},
    "seed": 0, "trainer": {}, "callback": {}
}  # fmt: skip


@pytest.mark.parametrize(
    ("section", "other"),
    [
        ("data", {"val_size": 0.2}),
        ("model", {"name": "allconv"}),
        ("pool", {"name": "avg"}),
        ("stage", {"s1": {"name": "avg"}}),
        ("readout", {"name": "gmp"}),
        ("probe", {"gradient": {}}),
        ("fit", {"devices": 2}),
        ("seed", 1),
        ("trainer", {"min_epochs": 2}),
        ("callback", {"early_stopping": {"patience": 2}}),
    ],
)
def test_each_setting_that_decides_the_result_is_part_of_a_runs_identity(section, other):
    assert identity_settings({**RUN, section: other}) != identity_settings(RUN)


def test_the_folder_of_the_data_and_the_display_are_not(tmp_path):
    moved = {**RUN["data"], "root": str(tmp_path)}
    assert identity_settings(
        {**RUN, "data": moved, "fit": {"devices": 1, "progress": True}}
    ) == identity_settings(RUN)
    assert effect("fit.devices") == "result" and effect("fit.strategy") == "bits"


def test_runs_that_differ_in_their_seeds_alone_are_of_one_choice():
    seeded = {**RUN, "seed": 1, "pool": {"name": "max", "seed": 1}}
    unseeded = {**RUN, "pool": {"name": "max", "seed": 0}}
    assert same_choice(seeded) == same_choice(unseeded) != same_choice(RUN | {"pool": {"name": "avg"}})
    # A probe's seed draws what is measured.
    drawn = [{**RUN, "probe": {"invariance": {"seed": seed}}} for seed in (0, 1)]
    assert same_choice(drawn[0]) != same_choice(drawn[1])
