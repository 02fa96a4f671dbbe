"""Sum pooling."""

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import grad
from torch.testing import assert_close

from cnnpool.pool import SumPool2d, sum_pool2d


@pytest.mark.parametrize("args", [(2,), (3, 2, 1), (3, 2, 1, True), ((2, 3), (1, 2)), (2, 3, 0, True)])
def test_sum_is_the_convolution_with_ones(args):
    kernel, stride, padding, ceil_mode = (*args, *(None, 0, False)[len(args) - 1 :])
    kernel = kernel if isinstance(kernel, tuple) else (kernel, kernel)
    x = torch.randn(2, 3, 7, 8, dtype=torch.float64, requires_grad=True)
    y = sum_pool2d(x, *args)
    # Zeros after the last row and column change no sum; windows too many are cut off again.
    padded = F.pad(x, (0, 4, 0, 4)) if ceil_mode else x
    ones = torch.ones(3, 1, *kernel, dtype=torch.float64)
    reference = F.conv2d(padded, ones, None, stride or kernel, padding, 1, 3)[..., : y.shape[2], : y.shape[3]]
    assert_close(y, reference)
    upstream = torch.randn_like(y)
    assert_close(grad(y, x, upstream)[0], grad(reference, x, upstream)[0])


def test_gain_is_the_number_of_cells_where_every_window_is_whole():
    assert SumPool2d(1, kernel_size=(2, 3)).gain == 6
    assert SumPool2d(1, kernel_size=3, padding=1).gain is None
    assert SumPool2d(1, kernel_size=3, ceil_mode=True).gain is None


def test_whole_numbers_stay_whole():
    x = torch.arange(16).reshape(1, 4, 4)
    assert sum_pool2d(x, 2).tolist() == [[[10, 18], [42, 50]]]
