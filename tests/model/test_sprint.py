import torch
import torch.nn.functional as F

from cnnpool.model.sprint import Fold


def test_folding_and_a_3x3_convolution_are_a_6x6_convolution_of_stride_2():
    torch.manual_seed(0)
    x, weight = torch.randn(2, 3, 10, 8, dtype=torch.float64), torch.randn(5, 3, 6, 6, dtype=torch.float64)
    expected = F.conv2d(x, weight, stride=2, padding=2)
    # Entry (a, b) of the 3x3 kernel sees the four pixels (2a + i, 2b + j), in the order (i, j, channel).
    folded = weight.view(5, 3, 3, 2, 3, 2).permute(0, 3, 5, 1, 2, 4).reshape(5, 12, 3, 3)
    torch.testing.assert_close(F.conv2d(Fold()(x), folded, padding=1), expected)


def test_folding_drops_an_odd_last_row_and_column():
    x = torch.arange(15.0).view(1, 1, 3, 5)
    assert Fold()(x)[0, :, 0].tolist() == [[0.0, 2.0], [1.0, 3.0], [5.0, 7.0], [6.0, 8.0]]
