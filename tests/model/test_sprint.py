import torch

from cnnpool import model, pool, readout


def build(operator):
    return model.build(
        "sprint",
        1,
        (28, 28),
        10,
        pool=lambda stage, c: pool.build(operator, c),
        readout=lambda c, s: readout.build("flatten", c, s, hidden=0),
        width=4,
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
