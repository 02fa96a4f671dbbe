"""gap, gmp, avgmax, catavgmax and pyramid against torch, timm and a slow loop."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from cnnpool.readout import (
    GlobalAvgMaxPool2d,
    GlobalAvgPool2d,
    GlobalCatAvgMaxPool2d,
    GlobalMaxPool2d,
    SpatialPyramidPool2d,
)

SIZE = (5, 7)


def image(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def test_gap_and_gmp_are_torchs_adaptive_average_and_maximum():
    x = image(2, 3, *SIZE)
    assert_close(GlobalAvgPool2d(3, SIZE)(x), F.adaptive_avg_pool2d(x, 1).flatten(1))
    for ties in ("first", "split"):
        assert torch.equal(GlobalMaxPool2d(3, SIZE, ties=ties)(x), F.adaptive_max_pool2d(x, 1).flatten(1))


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_gmp_gives_tied_gradient_to_the_first_as_torchs_adaptive_maximum(memory_format):
    x = torch.randint(0, 3, (4, 3, *SIZE)).double().contiguous(memory_format=memory_format).requires_grad_()
    upstream = torch.rand(4, 3, dtype=torch.float64)
    (ours,) = torch.autograd.grad(GlobalMaxPool2d(3, SIZE)(x), x, upstream)
    (theirs,) = torch.autograd.grad(F.adaptive_max_pool2d(x, 1).flatten(1), x, upstream)
    assert torch.equal(ours, theirs)
    assert (ours.flatten(2) != 0).sum(2).eq(1).all()


def test_gmp_splits_tied_gradient_evenly_when_asked():
    x = torch.tensor([[[[1.0, 4.0], [4.0, 4.0]]]], requires_grad=True)
    GlobalMaxPool2d(1, (2, 2), ties="split")(x).sum().backward()
    assert_close(x.grad.flatten(), torch.tensor([0, 1 / 3, 1 / 3, 1 / 3]))


@pytest.mark.parametrize("ties", ["first", "split"])
def test_gmp_passes_nan_and_infinity_on(ties):
    x = torch.stack([torch.zeros(2, 2), torch.full((2, 2), -math.inf), torch.ones(2, 2)])[None]
    x[0, 0, 1, 1] = math.nan
    out = GlobalMaxPool2d(3, (2, 2), ties=ties)(x)[0]
    assert out[0].isnan() and out[1] == -math.inf and out[2] == 1


@pytest.mark.parametrize(
    ("readout", "name"), [(GlobalAvgMaxPool2d, "avgmax"), (GlobalCatAvgMaxPool2d, "catavgmax")]
)
@pytest.mark.parametrize("ties", ["first", "split"])
def test_avgmax_and_catavgmax_are_timms(readout, name, ties):
    layers = pytest.importorskip("timm.layers")
    # timm's plain pooling breaks ties by the first, its fast one splits: values are the same, gradients not.
    kind = name if ties == "first" else f"fast{name}"
    theirs = layers.SelectAdaptivePool2d(pool_type=kind, flatten=True)
    x = torch.randint(0, 4, (3, 4, *SIZE)).double().requires_grad_()
    ours = readout(4, SIZE, ties=ties)(x)
    upstream = torch.rand_like(ours)
    assert_close(ours, theirs(x))
    assert_close(torch.autograd.grad(ours, x, upstream), torch.autograd.grad(theirs(x), x, upstream))


@pytest.mark.parametrize("size", [(4, 4), (5, 7), (13, 8)])
def test_pyramid_keeps_the_maximum_of_each_cell_level_after_level(size):
    levels, x = (1, 3, 4), image(2, 3, *size)
    columns = []
    for level in levels:
        for c in range(3):
            for i in range(level):
                for j in range(level):
                    rows = slice(i * size[0] // level, math.ceil((i + 1) * size[0] / level))
                    cols = slice(j * size[1] // level, math.ceil((j + 1) * size[1] / level))
                    columns.append(x[:, c, rows, cols].flatten(1).amax(1))
    readout = SpatialPyramidPool2d(3, size, levels=levels)
    assert readout.out_features == len(columns) == 3 * 26
    assert torch.equal(readout(x), torch.stack(columns, 1))


def test_pyramid_finer_than_the_map_is_refused_at_the_start_and_later():
    with pytest.raises(ValueError, match=r"levels=\(1, 2, 4\) has a grid finer than the 3x9 map"):
        SpatialPyramidPool2d(3, (3, 9))
    with pytest.raises(ValueError, match="finer than the 8x2 map; levels up to 2 fit"):
        SpatialPyramidPool2d(3, (8, 8))(torch.zeros(1, 3, 8, 2))
