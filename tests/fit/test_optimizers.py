import copy

import pytest
import torch

from cnnpool.fit.optimizers import AdamW, Sgd

ORACLES = {
    AdamW: lambda groups, lr: torch.optim.AdamW(groups, lr=lr, fused=True),
    Sgd: lambda groups, lr: torch.optim.SGD(groups, lr=lr, momentum=0.9, nesterov=True, fused=True),
}


def problem(kind):
    """(parameters, optimiser): two groups, one parameter that never gets a gradient."""
    torch.manual_seed(0)
    params = [torch.randn(4, 3).requires_grad_(), torch.randn(5).requires_grad_(), torch.ones(2)]
    groups = [{"params": params[:1], "weight_decay": 0.1}, {"params": params[1:], "weight_decay": 0.0}]
    return params, kind(groups, lr=0.1)


def advance(params, optimizer, steps):
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = 0.1 / (step + 1)
        optimizer.zero_grad()
        ((params[0].sum(0) ** 2).sum() + (params[1] - step).abs().sum()).backward()
        optimizer.step()


@pytest.mark.parametrize("kind", [AdamW, Sgd])
def test_steps_are_those_of_torchs_class_to_the_bit(kind):
    ours, theirs = problem(kind), problem(ORACLES[kind])
    advance(*ours, 5)
    advance(*theirs, 5)
    for a, b in zip(ours[0], theirs[0], strict=True):
        assert torch.equal(a, b)
    assert torch.equal(ours[0][2], torch.ones(2))


@pytest.mark.parametrize("kind", [AdamW, Sgd])
def test_a_state_saved_and_loaded_goes_on_to_the_same_bits(kind):
    params, optimizer = problem(kind)
    advance(params, optimizer, 3)
    saved = copy.deepcopy((optimizer.state_dict(), [p.detach() for p in params]))
    advance(params, optimizer, 2)
    again, other = problem(kind)
    other.load_state_dict(saved[0])
    with torch.no_grad():
        for p, old in zip(again, saved[1], strict=True):
            p.copy_(old)
    advance(again, other, 2)
    assert all(torch.equal(a, b) for a, b in zip(params, again, strict=True))


@pytest.mark.parametrize("kind", [AdamW, Sgd])
def test_a_state_has_the_layout_of_torchs(kind):
    (params, ours), (others, theirs) = problem(kind), problem(ORACLES[kind])
    advance(params, ours, 1)
    advance(others, theirs, 1)
    state, expected = ours.state_dict(), theirs.state_dict()
    assert {k: set(v) for k, v in state["state"].items()} == {k: set(v) for k, v in expected["state"].items()}
    assert [g["params"] for g in state["param_groups"]] == [g["params"] for g in expected["param_groups"]]


def test_a_state_of_other_groups_is_refused():
    _, optimizer = problem(AdamW)
    state = optimizer.state_dict()
    state["param_groups"][0]["params"] = []
    with pytest.raises(ValueError, match=r"\[1, 2\] parameters, those saved \[0, 2\]"):
        optimizer.load_state_dict(state)
