"""Steps recorded in CUDA graphs, on a GPU where there is one."""

import pytest
import torch

from cnnpool.bench import measure, pool

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


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
