import pytest
import torch
from torch.testing import assert_close

from cnnpool import model, pool, readout
from cnnpool.model.sprint import WholeConv2d


def build(operator, size=28, padding_mode="zeros", pad_ends=True, **options):
    return model.build(
        "sprint",
        1,
        (size, size),
        10,
        pool=lambda stage, c: pool.build(operator, c, **options),
        readout=lambda c, s: readout.build("flatten", c, s, hidden=0),
        width=4,
        padding_mode=padding_mode,
        pad_ends=pad_ends,
    )


def test_parameters_and_maps_are_those_of_the_plan():
    net = build("max")
    convolutions = 25 * 4 + 9 * 4 * 8 + 9 * 8 * 8
    assert sum(p.numel() for p in net.parameters()) == convolutions + 2 * (4 + 8 + 8) + 10 * (8 * 3 * 3 + 1)
    seen = {}
    for name, stage in net.stages.items():
        stage.register_forward_hook(lambda m, i, o, name=name: seen.update({name: (i[0].shape, o.shape)}))
    net(torch.zeros(2, 1, 28, 28))
    assert seen == {"s1": ((2, 4, 14, 14), (2, 4, 7, 7)), "s2": ((2, 8, 7, 7), (2, 8, 3, 3))}


def test_an_operator_that_keeps_the_resolution_dilates_what_follows():
    convolutions = [m for m in build("none").modules() if isinstance(m, torch.nn.Conv2d)]
    assert [c.dilation[0] for c in convolutions] == [1, 2, 4]
    assert build("none").feature_size == (14, 14)
    assert build("none", pad_ends=False).feature_size == (12 - 8, 12 - 8)


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({}, 1),
        ({"size": 48}, 3),
        ({"size": 24}, 2),
        ({"kernel_size": 2, "stride": 3}, 1),
        ({"size": 13}, 1),
        ({"pad_ends": True}, 3),
    ],
)
def test_the_last_convolution_is_padded_if_asked_to_or_larger_than_the_map(options, size):
    assert build("max", **{"pad_ends": False} | options).feature_size == (size, size)


def test_a_border_is_refused_where_there_is_to_be_none():
    with pytest.raises(ValueError, match="pad_ends=False makes borders"):
        build("max", padding_mode="circular", pad_ends=False)


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("window", [2, 3])
def test_a_window_as_large_as_the_map_is_the_convolution_that_torch_has(window, memory_format):
    torch.manual_seed(0)
    ours = WholeConv2d(3, 5, window).double().to(memory_format=memory_format)
    torchs = torch.nn.Conv2d(3, 5, window, bias=False).double()
    torchs.load_state_dict(ours.state_dict())
    for size in ((2, 2), (3, 3), (5, 4)):
        if min(size) < window:
            continue
        x = torch.randn(4, 3, *size, dtype=torch.float64).to(memory_format=memory_format).requires_grad_()
        y, expected = ours(x), torchs(x)
        assert_close(y, expected)
        g = torch.randn_like(y)
        mine = torch.autograd.grad(y, [x, *ours.parameters()], g)
        theirs = torch.autograd.grad(expected, [x, *torchs.parameters()], g)
        assert_close(mine, theirs)


def test_a_dilated_window_is_no_product_with_the_map():
    ours = WholeConv2d(1, 1, 3, dilation=2)
    assert ours(torch.zeros(1, 1, 5, 5)).shape == (1, 1, 1, 1)
    with pytest.raises(RuntimeError, match="size"):
        ours(torch.zeros(1, 1, 3, 3))
