import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cnnpool.data.draw import generator, stratified


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


def test_equal_classes_take_equal_parts():
    labels = torch.arange(10).repeat(50)
    counts = labels[stratified(labels, seed=1)[:100]].bincount()
    assert counts.tolist() == [10] * 10


def test_the_order_depends_on_the_seed_alone():
    labels = torch.arange(3).repeat(20)
    torch.manual_seed(3)
    state = torch.get_rng_state()
    first, second, other = (stratified(labels, seed=seed) for seed in (7, 7, 8))
    assert torch.equal(first, second) and not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), state)


def test_generators_of_different_words_differ():
    words = [(), (0,), (0, 0), (0, 1), (1, 0), (10,), (1, 0, 0), (-1,), (2**70,)]
    draws = {torch.randint(2**62, (1,), generator=generator(*w)).item() for w in words}
    assert len(draws) == len(words)
