import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from cnnpool.data.draws import Draws, stratified


@settings(max_examples=50)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=80), st.integers(0, 9))
def test_every_prefix_of_a_stratified_order_holds_each_class_in_proportion(classes, seed):
    labels = torch.tensor(classes)
    order = stratified(labels, seed=seed)
    assert sorted(order.tolist()) == list(range(len(labels)))
    sizes = labels.bincount(minlength=6).double()
    for n in range(len(labels) + 1):
        counts = labels[order[:n]].bincount(minlength=6)
        # Each class is off by at most its own half plus its share of the others' halves.
        assert ((counts - n * sizes / len(labels)).abs() < 0.5 + 6 / 2).all()


def test_draws_are_uniform_and_those_of_an_image_whatever_the_batch():
    many = Draws(3, 1, torch.arange(20_000))
    numbers = many.rand(2, 3)
    assert numbers.shape == (20_000, 2, 3) and numbers.min() >= 0 and numbers.max() < 1
    for column in numbers.flatten(1).T:
        assert stats.kstest(column.numpy(), "uniform").pvalue > 1e-4
    # Neither the numbers of one image nor those of neighbours say anything of each other.
    assert numbers.flatten(1).T.corrcoef().fill_diagonal_(0).abs().max() < 0.04
    assert abs(torch.stack((numbers[1:, 0, 0], numbers[:-1, 0, 0])).corrcoef()[0, 1]) < 0.04
    few = Draws(3, 1, torch.tensor([17, 4]))
    assert torch.equal(few.rand(2, 3), numbers[[17, 4]])
    assert torch.equal(few.rand(), many.rand()[[17, 4]])
    assert not torch.isin(many.rand(2, 3), numbers).any()
    assert not torch.equal(few.rand(), Draws(3, 2, torch.tensor([17, 4])).rand())


def test_whole_draws_reach_every_value_between_their_bounds():
    found = Draws(0, 0, torch.arange(5000)).randint(-2, 3, 2)
    counts = (found + 2).flatten().bincount(minlength=5)
    assert found.dtype == torch.int64 and len(counts) == 5
    assert counts.min() > 1850 and counts.max() < 2150


def test_draws_are_splitmix64():
    # The first outputs of the published algorithm from state 0, as its reference implementation prints them.
    expected = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    draws = Draws(0, 0, torch.tensor([0]))
    draws._state[:] = 0
    assert draws.rand(3)[0].tolist() == [(bits >> 11) * 2.0**-53 for bits in expected]
