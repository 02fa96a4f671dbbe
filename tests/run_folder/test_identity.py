import pytest

from cnnpool.run_folder.identity import asked, effect

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
    assert asked({**RUN, section: other}) != asked(RUN)


def test_the_folder_of_the_data_and_the_display_are_not(tmp_path):
    moved = {**RUN["data"], "root": str(tmp_path)}
    assert asked({**RUN, "data": moved, "fit": {"devices": 1, "progress": True}}) == asked(RUN)
    assert effect("fit.devices") == "result" and effect("fit.strategy") == "bits"
