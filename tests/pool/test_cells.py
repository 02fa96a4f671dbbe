"""A map seen cell by cell: views, counts at the borders, and the sorting network."""

import itertools

import pytest
import torch
from torch.testing import assert_close

from cnnpool.pool.cells import cells, comparisons, count, inside, order, peak
from cnnpool.pool.window import window_of


def test_cells_are_views_of_the_map():
    x = torch.randn(1, 2, 7, 7)
    for window in (window_of(2, 2, 0), window_of(3, 2, 0)):
        assert {part.untyped_storage().data_ptr() for part in cells(x, window)} == {
            x.untyped_storage().data_ptr()
        }


def test_count_and_inside_are_those_of_an_average_without_its_padding():
    x = torch.rand(1, 1, 7, 6)
    for kernel, stride, padding, ceil in itertools.product((2, 3), (1, 2, 3), (0, 1), (False, True)):
        window = window_of(kernel, stride, padding, ceil_mode=ceil)
        mean = sum(cells(x, window)) / count(x, window)
        reference = torch.nn.functional.avg_pool2d(x, kernel, stride, padding, ceil, count_include_pad=False)
        assert_close(mean, reference)
        masks = inside(x, window)
        assert (masks is None) == (not any(window.pads(7, 6)))
        assert_close(peak(x, window), torch.nn.functional.max_pool2d(x, kernel, stride, padding, 1, ceil))


@pytest.mark.parametrize("length", range(1, 13))
def test_network_sorts_every_sequence_of_zeros_and_ones(length):
    # A comparison network that sorts these sorts everything (the 0-1 principle).
    sequences = torch.tensor(list(itertools.product([0.0, 1.0], repeat=length)))
    ordered = torch.stack(order(list(sequences.unbind(1)), range(length)), 1)
    assert torch.equal(ordered, sequences.sort(1).values)
    for place in range(length):
        assert torch.equal(
            order(list(sequences.unbind(1)), range(place, place + 1))[place], ordered[:, place]
        )
    assert comparisons(length, range(length)) <= length * (length - 1) // 2


@pytest.mark.parametrize("length", [1, 4, 9])
def test_equal_cells_stay_where_they_are(length):
    # The gradient of a tie goes where the order puts it, so this decides which of equal cells it reaches.
    parts = [torch.zeros(1, requires_grad=True) for _ in range(length)]
    for place, ordered in enumerate(order(parts, range(length))):
        grads = torch.autograd.grad(ordered, parts, retain_graph=True, materialize_grads=True)
        assert [grad.item() for grad in grads] == [float(i == place) for i in range(length)]
