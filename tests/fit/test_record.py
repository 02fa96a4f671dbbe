import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from cnnpool.fit.record import Record
from cnnpool.fit.run_state import Run
from cnnpool.recipe import Recipe


def events(folder):
    return [
        (one.wall_time, one.step, one.value)
        for one in EventAccumulator(str(folder)).Reload().Scalars("train/loss")
    ]


def test_a_record_that_goes_on_holds_what_its_checkpoint_counted_once_with_its_times(tmp_path):
    first = Record(tmp_path)
    first.log_metrics({"train/loss": 0.0, "epoch": 1}, 1)
    kept, written = first.sync(), events(tmp_path)
    first.log_metrics({"train/loss": 2.0}, 2)
    first.close()
    again = Record(tmp_path, kept)
    assert [(line["step"], line["train/loss"]) for line in again.records] == [(1, 0.0)]
    again.log_metrics({"train/loss": 3.0}, 2)
    again.close()
    assert events(tmp_path)[:1] == written and [value for *_, value in events(tmp_path)] == [0.0, 3.0]


@pytest.mark.parametrize(
    ("total", "interval"), [(1, 1), (19, 1), (45, 2), (400, 20), (1000, 50), (10**6, 50)]
)
def test_a_short_run_writes_its_loss_at_least_twenty_times_or_at_every_step(total, interval):
    assert Recipe().log_interval(total) == interval
    assert total // interval >= min(total, 20)
    assert Recipe(log_every_steps=7).log_interval(total) == 7


def choice(run, pool="max", seed=0):
    known = dict.fromkeys(("images", "classifier", "readout", "model", "data", "stages"))
    asked = {"pool": {"name": pool}, "fit": {"epochs": 1}, "seed": seed}
    return Run(run=run, pool={"name": pool}, seed=seed, asked=asked, **known).choice


def test_runs_in_folders_of_the_users_own_are_of_one_choice_only_if_their_settings_are():
    assert choice("digits/convnet/max/seed0") == choice("digits/convnet/max/seed1", seed=1)
    assert choice("digits/convnet/max/seed0") == "digits/convnet/max"
    first, second = choice("../sw/0"), choice("../sw/3", seed=1)
    assert first == second and first.startswith("../sw/max-") and choice("../sw/2", "avg") != first
