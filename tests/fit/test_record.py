from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from cnnpool.fit.record import Record


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
