"""Plain subsampling against slicing and the strided convolution it stands for."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cnnpool.pool import Subsample2d


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 4), st.integers(1, 4))
@settings(max_examples=50)
def test_keeps_one_row_and_column_of_every_cell_begun(height, width, down, right):
    op, x = Subsample2d(2, stride=(down, right)), torch.rand(1, 2, height, width)
    kept = op(x)
    assert kept.shape[2:] == op.output_size(height, width) == (-(-height // down), -(-width // right))
    for i, j in torch.cartesian_prod(*map(torch.arange, kept.shape[2:])).reshape(-1, 2).tolist():
        assert torch.equal(kept[..., i, j], x[..., down * i, right * j])
