"""Plain subsampling against slicing and the strided convolution it stands for."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cnnpool.pool import Subsample2d


def test_keeps_the_top_left_pixel_of_each_cell():
    x = torch.arange(20.0).reshape(1, 1, 4, 5)
    assert Subsample2d(1)(x).tolist() == [[[[0, 2, 4], [10, 12, 14]]]]


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 4), st.integers(1, 4))
@settings(max_examples=50)
def test_keeps_one_row_and_column_of_every_cell_begun(height, width, down, right):
    op, x = Subsample2d(2, stride=(down, right)), torch.rand(1, 2, height, width)
    kept = op(x)
    assert kept.shape[2:] == op.output_size(height, width) == (-(-height // down), -(-width // right))
    for i, j in torch.cartesian_prod(*map(torch.arange, kept.shape[2:])).reshape(-1, 2).tolist():
        assert torch.equal(kept[..., i, j], x[..., down * i, right * j])


def test_gradient_goes_to_the_kept_pixels_alone():
    x = torch.randn(1, 1, 6, 6, requires_grad=True)
    Subsample2d(1, stride=3)(x).sum().backward()
    assert x.grad.nonzero()[:, 2:].tolist() == [[0, 0], [0, 3], [3, 0], [3, 3]]
    assert x.grad.sum() == 4
