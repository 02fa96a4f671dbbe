import math

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import median_filter

from cnnpool.pool import median_pool2d


@settings(max_examples=50)
@given(kernel=st.sampled_from([3, 5]), stride=st.integers(1, 3), seed=st.integers(0, 999))
def test_odd_windows_equal_the_median_filter_of_scipy(kernel, stride, seed):
    image = np.random.default_rng(seed).integers(-3, 4, (11, 9)).astype(np.float64)
    edge = kernel // 2
    filtered = median_filter(image, size=kernel)[edge : 11 - edge : stride, edge : 9 - edge : stride]
    out = median_pool2d(torch.from_numpy(image)[None, None], kernel, stride)
    assert np.array_equal(out[0, 0].numpy(), filtered)


def test_gradient_goes_to_one_cell_that_holds_the_median():
    x = torch.randint(0, 2, (4, 3, 8, 8)).double().requires_grad_()
    y = median_pool2d(x, 2)
    y.sum().backward()
    cells, grads = (t.unfold(2, 2, 2).unfold(3, 2, 2).flatten(4) for t in (x.detach(), x.grad))
    assert torch.equal(grads.sum(-1), torch.ones_like(y))
    assert set(grads.unique().tolist()) == {0.0, 1.0}
    assert torch.equal((cells * grads).sum(-1), y.detach())


def test_infinities_are_ordered_and_nan_wins():
    inf = math.inf
    x = torch.tensor([[inf, inf, -inf, -inf], [inf, 1, -inf, -inf]])[None, None]
    assert median_pool2d(x, 2).flatten().tolist() == [inf, -inf]
    x[..., 1, 1] = math.nan
    assert median_pool2d(x, 2).flatten().isnan().tolist() == [True, False]
