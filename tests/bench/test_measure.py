"""How times, ratios and kept bytes are taken."""

import pytest
import torch
import torch.nn.functional as F

from cnnpool.bench import measure
from cnnpool.bench.measure import copying, in_turn, kept_bytes, nbytes, ratio


def test_ratio_is_the_median_of_ratios_within_turns():
    # Ratios 2, 3, 4, 10, 1; not the ratio of medians, 6 / 2.
    seconds = [2.0, 6.0, 8.0, 20.0, 1.0], [1.0, 2.0, 2.0, 2.0, 1.0]
    assert ratio(*seconds) == {"median": 3.0, "q1": 2.0, "q3": 4.0, "n": 5}


def test_calls_are_made_forth_and_back_again_equally_often():
    order = []

    def call(name):
        return lambda: (order.append(name), sum(range(20000)))

    seconds = in_turn({"a": call("a"), "b": call("b")}, 4)
    assert [len(times) for times in seconds.values()] == [4, 4]
    assert all(time > 0 for times in seconds.values() for time in times)
    turns = "".join(order).lstrip("a").lstrip("b")  # what comes before finds out how long a call takes
    changes = [name for i, name in enumerate(turns) if i == 0 or turns[i - 1] != name]
    assert changes == ["a", "b", "a", "b", "a"], "the second turn begins with what ended the first"


def test_a_gpu_is_waited_for_before_and_after_every_block(monkeypatch):
    log = []
    monkeypatch.setattr(measure.torch.cuda, "synchronize", lambda device: log.append(str(device)))
    monkeypatch.setattr(measure.time, "perf_counter", lambda: 0.2 * len(log))
    seconds = in_turn({"a": lambda: log.append("a")}, 2, torch.device("cuda:1"), 3)
    blocks = "".join(log).split("cuda:1")
    # Four calls of three steps are ten steps at least; the clock says 0.2 s for each and for the last wait.
    assert blocks[1:-1:2] == ["aaaa"] * (3 + 2 * 3) and not any(blocks[::2])
    assert seconds["a"] == pytest.approx([(4 + 1) * 0.2 / 4 / 3] * 2)


def test_single_calls_are_told_with_their_spread_and_page_faults(monkeypatch):
    times = iter([0.0, 1.0, 1.0, 1.5] * 4 + [0.0, 9.0, 0.0, 0.25])
    monkeypatch.setattr(measure.time, "perf_counter", lambda: next(times))
    found = measure.singles({"a": list, "b": list}, 5)
    # a takes 1 s four times and once 9 s; b half a second four times and once a quarter.
    assert (found["a"]["median_ms"], found["b"]["median_ms"]) == (1e3, 500)
    assert found["a"]["p90_ms"] == pytest.approx(1e3 * (1 + 0.6 * 8)) and found["b"]["p90_ms"] == 500


def test_kept_bytes_are_those_beyond_the_input():
    x = torch.randn(4, 8, 16, 16, requires_grad=True)
    assert kept_bytes(lambda x: x * x, x) == 0, "the input alone"
    assert kept_bytes(lambda x: x.exp(), x) == 4 * x.numel(), "the output"
    # One 8-byte index per output.
    assert kept_bytes(lambda x: F.max_pool2d(x, 2), x) == 8 * x.numel() // 4


def test_bytes_moved_are_counted():
    assert nbytes([torch.zeros(3, 5), torch.zeros(7, dtype=torch.bfloat16)]) == 3 * 5 * 4 + 7 * 2
    assert copying(1000)().numel() == 500, "half is read and half is written"
