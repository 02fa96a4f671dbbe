"""Steps of Muon; rates by depth, frozen levels, frozen normalisation."""

import pickle

import pytest
import torch
from small_nets import network

from cnnpool.fit import Classifier
from cnnpool.fit.optimizers import Muon, levels, orthogonal, plan
from cnnpool.recipe import Recipe


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
        assert optimizer.step(lambda step=step: step) == step
        for oracle in oracles:
            oracle.step()
    weight = ours[0] if ours[0].is_contiguous() else ours[0].permute(0, 2, 3, 1)
    # Torch's rounds the matrix to bfloat16, and all between it and the step: 8 bits each time.
    assert (weight.reshape(6, 12) - theirs[0]).norm() < 0.02 * (theirs[0] - start).norm()
    assert torch.equal(ours[1], theirs[1])


SHAPES = [(4, 9), (9, 4), (5, 5), (1, 7), (7, 1), (4, 30)]


def draw(shape, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=dtype)


def by_definition(m, steps):
    """The image of each singular value under the steps, one by one, in float64."""
    u, values, v = torch.linalg.svd(m.double(), full_matrices=False)
    values = values / values.norm()
    for _ in range(steps):
        values = 3.4445 * values - 4.775 * values**3 + 2.0315 * values**5
    return u @ values.diag() @ v


@pytest.mark.parametrize("steps", [1, 2, 3, 5])
@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_singular_values_are_those_of_the_definition(steps, dtype, error):
    matrices = [draw(shape, dtype) for shape in SHAPES]
    for m, done in zip(matrices, orthogonal(matrices, steps), strict=True):
        assert done.dtype == dtype and done.shape == m.shape
        assert torch.allclose(done.double(), by_definition(m, steps), rtol=0, atol=error)


def test_nothing_stays_nothing():
    done = orthogonal([torch.zeros(4, 9), draw((4, 5))])
    assert not done[0].any() and done[1].isfinite().all()


def test_autocast_rounds_nothing():
    plain = orthogonal([draw((4, 9))])
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(orthogonal([draw((4, 9))])[0], plain[0])


def test_rates_by_layer_need_a_network_of_ours_and_one_rate_takes_any():
    other = torch.nn.Linear(2, 2)
    assert Classifier(model=other).levels == []
    with pytest.raises(ValueError, match="rates by layer and frozen layers need a network of cnnpool"):
        Classifier(model=other, fit={"layer_decay": 0.5})


EXAMPLE = torch.zeros(1, 1, 16, 16)


@pytest.fixture(params=["gap", "attention"])
def model(request):
    return network("convnet", 1, (16, 16), 10, "strided", request.param, width=2)


def test_levels_are_resolutions_and_hold_every_parameter_once(model):
    found = levels(model, EXAMPLE)
    sizes = [[type(module).__name__ for module in level.modules] for level in found]
    # conv 1, stage s1 | conv 2, stage s2 | conv 3, conv 4 | the classifier.
    assert [names.count("Conv2d") + names.count("StridedConv2d") for names in sizes[:3]] >= [1, 1, 2]
    assert found[3].modules == [model.classifier] and len(found) == 4
    parameters = [p for level in found for p in level.parameters]
    assert len(parameters) == len(set(parameters)) and set(parameters) == set(model.parameters())
    assert pickle.dumps(model), "no hook is left on it"


def test_a_stage_that_makes_no_smaller_map_begins_no_level(model):
    model.stages["s2"].register_forward_hook(lambda stage, given, made: given[0])
    assert len(levels(model, EXAMPLE)) == 3


def test_so_many_first_levels_are_frozen_and_the_others_learn(model):
    for freeze in range(4):
        learns = [bool(level.parameters) for level in plan(model, Recipe(freeze=freeze), EXAMPLE)]
        assert learns == [False] * freeze + [True] * (4 - freeze)
    with pytest.raises(ValueError, match=r"fit\.freeze=4 leaves nothing to train: the network has 4 levels"):
        plan(model, Recipe(freeze=4), EXAMPLE)
