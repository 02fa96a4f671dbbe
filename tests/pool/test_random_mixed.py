import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from cnnpool.pool import build


@pytest.mark.parametrize("per", ["layer", "channel"])
def test_training_gives_max_or_average_for_each_draw(per):
    op, x = build("random_mixed", 5, per=per).train(), torch.randn(40, 5, 4, 4, dtype=torch.float64)
    out = op(x)
    is_max = (out == F.max_pool2d(x, 2)).all((2, 3))
    is_average = torch.isclose(out, F.avg_pool2d(x, 2)).all((2, 3))
    assert (is_max ^ is_average).all()
    assert is_max.any() and is_average.any()
    mixed_within_a_sample = (is_max.any(1) & is_average.any(1)).any()
    assert mixed_within_a_sample == (per == "channel")
    taken = is_max.sum(0) if per == "channel" else is_max[:, :1].sum(0)
    assert torch.equal(op.max_draws, taken) and op.draws == 40


def test_draws_have_the_stated_probability():
    op, x = build("random_mixed", 8, probability=0.2).train(), torch.zeros(500, 8, 2, 2)
    op(x)
    # 4000 draws: five standard deviations of their mean are 0.032.
    assert abs(op.frequency().mean().item() - 0.2) < 0.032


@pytest.mark.parametrize("evaluate", ["expected", "majority"])
def test_eval_mixes_by_the_recorded_frequencies(evaluate):
    op, x = build("random_mixed", 2, evaluate=evaluate).eval(), torch.randn(3, 2, 4, 4)
    op.draws.fill_(10)
    op.max_draws.copy_(torch.tensor([2, 7]))
    share = torch.tensor([0.2, 0.7]) if evaluate == "expected" else torch.tensor([0.0, 1.0])
    share = share[:, None, None]
    assert_close(op(x), share * F.max_pool2d(x, 2) + (1 - share) * F.avg_pool2d(x, 2))


def test_majority_of_as_many_maxima_as_averages_is_the_maximum():
    op, x = build("random_mixed", 2, evaluate="majority").eval(), torch.randn(3, 2, 4, 4)
    op.draws.fill_(10)
    op.max_draws.copy_(torch.tensor([5, 4]))
    y = op(x)
    assert_close(y[:, 0], F.max_pool2d(x, 2)[:, 0])
    assert_close(y[:, 1], F.avg_pool2d(x, 2)[:, 1])


def test_untrained_operator_expects_its_probability():
    op, x = build("random_mixed", 2, probability=0.25).eval(), torch.randn(3, 2, 4, 4)
    assert_close(op(x), 0.25 * F.max_pool2d(x, 2) + 0.75 * F.avg_pool2d(x, 2))


def test_half_precision_model_counts_on():
    op = build("random_mixed", 3).half().train()
    op(torch.zeros(4096, 3, 2, 2, dtype=torch.float16))
    op(torch.zeros(1, 3, 2, 2, dtype=torch.float16))
    assert op.draws == 4097


def test_draws_of_single_samples_under_vmap_are_not_counted():
    op = build("random_mixed", 3).train()
    x = torch.randn(4, 3, 8, 8, dtype=torch.float64)
    gradients = torch.func.vmap(torch.func.grad(lambda one: op(one).sum()), randomness="different")(x)
    assert (gradients.sum((1, 2, 3)) - 3 * 16).abs().max() < 1e-12
    assert op.draws == 0 and (op.max_draws == 0).all()
