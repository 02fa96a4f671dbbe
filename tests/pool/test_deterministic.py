"""Torch's deterministic mode, which training on a CPU turns on, with every operator."""

import pytest
import torch
from torch import autograd


@pytest.fixture
def refusing():
    """Torch refuses what does not repeat bit for bit."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def test_nothing_is_refused_and_gradients_repeat_bit_for_bit(stem, make, refusing):
    op = make(stem, training=True, dtype=torch.float32)
    x = torch.randn(2, 3, 12, 12, requires_grad=True)
    wanted = [x, *op.parameters()]
    gradients = []
    for _ in range(2):
        torch.manual_seed(1)
        y = op(x)
        weights = torch.linspace(-1, 1, y.numel()).view_as(y)
        gradients.append(autograd.grad((y * weights).sum(), wanted, allow_unused=True))
    for first, second in zip(*gradients, strict=True):
        assert (first is None and second is None) or torch.equal(first, second)
