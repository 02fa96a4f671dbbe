import copy

import pytest
import torch

from cnnpool.fit.optimizers import AdamW, Muon, Sgd

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


def convolution(layout):
    """(weight, bias, optimiser, oracles): a convolution under Muon, and torch's Muon and AdamW beside it."""
    torch.manual_seed(0)
    weight, bias = torch.randn(6, 3, 2, 2).contiguous(memory_format=layout), torch.randn(6)
    # In the order of the weight's own memory, which is that of the matrix.
    flat = (weight if weight.is_contiguous() else weight.permute(0, 2, 3, 1)).reshape(6, 12)
    ours, theirs = ([t.clone().requires_grad_() for t in pair] for pair in ((weight, bias), (flat, bias)))
    groups = [{"params": ours[:1], "weight_decay": 0.1}, {"params": ours[1:], "weight_decay": 0.0}]
    options = {"momentum": 0.6, "ns_steps": 3, "adjust_lr_fn": "match_rms_adamw", "weight_decay": 0.1}
    oracles = [
        torch.optim.Muon(theirs[:1], lr=0.1, **options),
        torch.optim.AdamW(theirs[1:], lr=0.1, weight_decay=0.0, fused=True),
    ]
    return ours, Muon(groups, lr=0.1), theirs, oracles


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_muon_steps_as_torchs_with_the_weight_as_a_matrix_and_adamw_for_the_rest(layout):
    ours, optimizer, theirs, oracles = convolution(layout)
    start = theirs[0].detach().clone()
    for step in range(4):
        flat = torch.randn(6, 12, generator=torch.Generator().manual_seed(step))
        order = (
            flat.view(6, 3, 2, 2) if ours[0].is_contiguous() else flat.view(6, 2, 2, 3).permute(0, 3, 1, 2)
        )
        # A gradient need not lie in memory as its weight does.
        ours[0].grad, theirs[0].grad = order.contiguous(), flat
        ours[1].grad = theirs[1].grad = torch.full((6,), step + 1.0)
        optimizer.step()
        for oracle in oracles:
            oracle.step()
    weight = ours[0] if ours[0].is_contiguous() else ours[0].permute(0, 2, 3, 1)
    # Torch's rounds the matrix to bfloat16, and all between it and the step: 8 bits each time.
    assert (weight.reshape(6, 12) - theirs[0]).norm() < 0.02 * (theirs[0] - start).norm()
    assert torch.equal(ours[1], theirs[1])


def test_muons_step_is_nearly_orthogonal_and_as_large_as_adamws():
    (weight, _), optimizer, *_ = convolution(torch.contiguous_format)
    before = weight.detach().clone()
    weight.grad = torch.randn_like(weight)
    optimizer.step()
    moved = (before * (1 - 0.1 * 0.1) - weight).detach().flatten(1) / (0.1 * 0.2 * 12**0.5)
    values = torch.linalg.svdvals(moved)
    # What three of the quintic steps make of singular values between a tenth of the norm and the norm.
    assert values.min() > 0.5 and values.max() < 1.3


def test_muon_goes_on_from_a_saved_state():
    ours, optimizer, *_ = convolution(torch.channels_last)
    ours[0].grad, ours[1].grad = torch.randn(6, 3, 2, 2), torch.ones(6)
    optimizer.step()
    again, other, *_ = convolution(torch.channels_last)
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    with torch.no_grad():
        for p, old in zip(again, ours, strict=True):
            p.copy_(old)
    for params, each in ((ours, optimizer), (again, other)):
        params[0].grad, params[1].grad = torch.full((6, 3, 2, 2), 0.3), torch.ones(6)
        each.step()
    assert all(torch.equal(a, b) for a, b in zip(ours, again, strict=True))
