"""Steps recorded in CUDA graphs: on a GPU where there is one, else by a GPU that only keeps a record."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch

from cnnpool.bench import measure, pool

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


class Gpu:
    """The part of torch.cuda that ``replay`` uses: work is done at once, or kept in the recording graph."""

    def __init__(self):
        self.log, self.now, self.recording, self.random = [], "default", None, "as it was"
        self.streams = 0
        state = SimpleNamespace(
            clone_state=lambda: self.random,
            graphsafe_set_state=lambda state: setattr(self, "random", state),
        )
        self.default_generators = [None, state]

    def work(self):
        if self.recording:
            self.recording.kept.append("work")
        else:
            self.log.append(f"work on {self.now}")

    def current_device(self):
        return 1

    def Stream(self):
        self.streams += 1
        name = "side" if self.streams == 1 else f"side {self.streams}"
        return SimpleNamespace(name=name, wait_stream=lambda other: self.log.append(f"{name} waits"))

    def current_stream(self):
        return SimpleNamespace(wait_stream=lambda other: self.log.append(f"{self.now} waits"))

    def CUDAGraph(self):
        kept = []
        return SimpleNamespace(kept=kept, replay=lambda: self.log.extend(kept))

    @contextmanager
    def stream(self, stream):
        before, self.now = self.now, stream.name
        try:
            yield
        finally:
            self.now = before

    @contextmanager
    def graph(self, graph, stream):
        assert self.now == stream.name, "the allocator and the libraries know this stream by now"
        self.recording, self.random, self.now = graph, "recording", "another"
        try:
            yield
        except RuntimeError:
            self.recording = None
            raise RuntimeError("the recording has failed") from None
        self.recording, self.random, self.now = None, "as it was", stream.name


@pytest.fixture
def gpu(monkeypatch):
    gpu = Gpu()
    monkeypatch.setattr(measure, "torch", SimpleNamespace(cuda=gpu))
    monkeypatch.setattr(measure, "_broken", [])
    return gpu


def test_a_step_is_made_on_a_stream_of_its_own_before_it_is_recorded(gpu):
    calls = measure.replays({"ours": gpu.work})
    assert gpu.log == ["side waits", *["work on side"] * 3, "default waits"]
    gpu.log.clear()
    calls["ours"]()
    assert gpu.log == ["work"] * measure.STEPS and gpu.random == "as it was"


def test_a_step_that_cannot_be_recorded_leaves_everything_as_it_was(gpu):
    def wait():
        if gpu.recording:
            raise RuntimeError("not permitted when stream is capturing\nand much more")

    with pytest.raises(RuntimeError) as error:
        measure.replays({"ours": gpu.work, "rival": wait})
    assert str(error.value) == "rival: not permitted when stream is capturing"
    assert (gpu.now, gpu.random, len(measure._broken)) == ("default", "as it was", 1)
    measure.replays({"ours": gpu.work})


@pytest.mark.parametrize("broken", [False, True])
def test_a_row_has_the_replayed_times_or_why_there_are_none(monkeypatch, broken):
    def replays(steps):
        if broken:
            raise RuntimeError("rival: it waits")
        return {
            name: lambda call=call: [call() for _ in range(measure.STEPS)] for name, call in steps.items()
        }

    monkeypatch.setattr(pool, "replays", replays)
    steps = {
        "ours": lambda: sum(range(4000)),
        "rival": lambda: sum(range(8000)),
        "copy": lambda: sum(range(400)),
    }
    row = pool._replayed(steps, 3, torch.device("cpu"))
    if broken:
        assert row == {"replayed": None, "not_replayed": "rival: it waits"}
        return
    direct = pool._figures(pool.in_turn(steps, 3))
    assert row["replayed"].keys() == direct.keys() == {"ms", "speedup", "over_bound"}
    assert 1 / 3 < row["replayed"]["ms"]["rival"] / direct["ms"]["rival"] < 3, "both are of one step"


@needs_gpu
@pytest.mark.parametrize("operator", ["max 2/2", "gem learnt", "stochastic"])
def test_operators_of_a_gpu_are_replayed(operator):
    row = pool.measure(pool.Case(operator, (2, 8, 16, 16), "float32", "contiguous"), 3, torch.device("cuda"))
    assert row["replayed"]["ms"].keys() == {"ours", "rival", "copy"}
    assert 0 < row["replayed"]["ms"]["ours"] < row["ms"]["ours"]


@needs_gpu
def test_after_a_failed_recording_a_gpu_still_draws_and_records():
    x = torch.ones(8, device="cuda", requires_grad=True)
    with pytest.raises(RuntimeError, match="waits: "):
        measure.replays({"waits": lambda: x.sum().item()})
    assert torch.rand(8, device="cuda").sum() > 0
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    total = torch.zeros(1, device="cuda")
    measure.replays({"adds": lambda: total.add_(torch.autograd.grad((2 * x).sum(), x)[0].sum())})["adds"]()
    assert total.item() == 16 * (measure.WARM_UP + measure.STEPS)
