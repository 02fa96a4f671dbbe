"""Steps recorded in CUDA graphs, on a GPU where there is one."""

import pytest
import torch

from cnnpool.bench import measure, pool

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def test_a_row_says_why_nothing_was_replayed(monkeypatch):
    def replays(steps):
        raise RuntimeError("rival: it waits")

    monkeypatch.setattr(pool, "replays", replays)
    row = pool._replayed({}, 3, torch.device("cuda"))
    assert row == {"replayed": None, "not_replayed": "rival: it waits"}


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
