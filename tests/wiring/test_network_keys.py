"""Every option of an operator, a readout and a backbone reaches the network as it was set, and changes it."""

import pytest
import torch
import yaml
from proofs import proves

import cnnpool
from cnnpool import model, pool, readout, schema
from cnnpool.launch import conf_dir
from cnnpool.pool import Pool2d

SIZE = 16
SMALL = ["data=digits", f"data.size={SIZE}", "data.limit=64", "pool@stage.s2=max"]
OTHERS = {
    "kernel_size": (3, 5), "stride": (4, 3), "padding": (1, 0), "dilation": (2,), "filter_size": (5,),
    "conv_size": (5,), "output_size": (5,), "groups": (2,), "p": (3.0, 2.0), "r": (2.0,), "beta": (0.25,),
    "mix": (0.25,), "probability": (0.25,), "eps": (0.25,), "scale": (2.5,), "tau": (0.5,),
    "bandwidth": (0.75,), "smoothness": (8.0,), "bottleneck": (2,), "hidden": (5,),
    "grid": (4,), "divisor_override": (3,), "levels": (3,), "heads": (2,), "gamma": (3.0,), "width": (4,),
    "size": ((SIZE, SIZE),), "dropout": (0.5,), "input_dropout": (0.5,), "blocks": (2,), "depth": (3,),
}  # fmt: skip
"""The first that is not the usual value is tried; of names the last other one."""
OWN = {"aps.p": float("inf"), "max_aps.p": float("inf"), "pyramid.levels": (1, 3), "wavelet.order": 3}
OWN |= {f"{name}.padding": 0 for name in ("conv_pool", "depthwise", "reduction", "strided")}
NEEDS = {"per": {"learnable": True}, "count_include_pad": {"padding": 1}, "size": {"learnable": True}}
"""Options without which another has nothing to act on."""
ONLY = {"haar.stride", "lift.stride", "wavelet.stride"}
"""Options of which one value is legal."""
LATER = {"none.stride"}
"""Options that change later layers alone."""
APART = {"sprint": "pad_ends"}
"""An option that goes with no other one's other value."""
BACKBONES = sorted(set(schema.names("model")) - {"timm", "torchvision", "installed"})


def every(group, names):
    return [f"{group}.{name}.{key}" for name in names for key in schema.options_of(group, name)]


def usual(group, name):
    known = {key: option.default for key, option in schema.options_of(group, name).items()}
    path = conf_dir() / group / f"{name}.yaml"
    text = path.read_text(encoding="utf-8") if path.is_file() else "{}"
    known |= yaml.safe_load(text.replace("${norm_of_model:}", "batch"))
    return {key: tuple(v) if isinstance(v, list) else v for key, v in known.items() if key != "defaults"}


def others(group, name):
    """A value that is not the usual one for every option of a choice."""
    known, found = usual(group, name), {}
    for key, option in schema.options_of(group, name).items():
        names = [value for value in option.choices if value != str(known[key])]
        if f"{name}.{key}" in OWN:
            found[key] = OWN[f"{name}.{key}"]
        elif isinstance(known[key], bool):
            found[key] = not known[key]
        elif f"{name}.{key}" not in ONLY:
            tried = names[::-1] if isinstance(known[key], str) else OTHERS[key]
            found[key] = next(value for value in tried if value != known[key])
    return found


def words(group, options):
    """``options`` as the command line takes them."""
    plain = {key: list(value) if isinstance(value, tuple) else value for key, value in options.items()}
    return [
        f"{group}.{key}={str(value).lower() if isinstance(value, bool) else value}"
        for key, value in plain.items()
    ]


def shown(module, maps):
    """All that an option could change: parameters, outputs and gradients, in training and in evaluation."""
    found = [(name, tuple(p.shape), p.requires_grad) for name, p in module.named_parameters()]
    for train in (True, False):
        for x in maps:
            module.train(train).zero_grad()
            torch.manual_seed(0)
            x = x.clone().requires_grad_()
            try:
                out = module(x)
                out.square().sum().backward()
                found += [
                    out.detach(),
                    x.grad,
                    *(p.grad.clone() for p in module.parameters() if p.grad is not None),
                ]
            except ValueError as error:
                found.append(str(error))
    return found


def same(one, other):
    return len(one) == len(other) and all(
        a.shape == b.shape and torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b
        for a, b in zip(one, other, strict=True)
    )


def maps(channels, *sizes):
    """Maps with equal maxima, and one with a cell that stands out."""
    torch.manual_seed(1)
    drawn = [torch.randint(0, 4, (2, channels, size, size)) / 2 for size in (*sizes, sizes[0])]
    drawn[-1][:, :, 1, 2] = 9
    return drawn


def check(group, name, wired, build, drawn):
    """``wired`` composes of all other values what ``build`` makes of them, and each changes something."""
    found = others(group, name)
    for apart in (True, False) if name in APART else (False,):
        given = {key: value for key, value in found.items() if (key == APART.get(name)) == apart}
        composed = wired(words(group, given)).to(memory_format=torch.contiguous_format)
        alone = build(**{**usual(group, name), **given})
        alone.load_state_dict(composed.state_dict())
        assert same(shown(composed, drawn), shown(alone, drawn))

    def seen(**options):
        torch.manual_seed(0)
        return shown(build(**{**usual(group, name), **options}), drawn)

    before = seen()
    for key, value in found.items():
        needed = {k: v for k, v in NEEDS.get(key, {}).items() if k in found}
        changed = seen(**needed, **{key: value})
        assert same(seen(**needed) if needed else before, changed) == (f"{name}.{key}" in LATER), (
            f"{group}.{name}.{key} changes nothing"
        )


@proves(*every("pool", schema.names("pool")))
@pytest.mark.parametrize("name", schema.names("pool"))
def test_an_operator_is_made_of_its_options(name):
    def wired(given):
        net = cnnpool.classifier(*SMALL, "model.width=8", f"pool={name}", *given).model
        return next(module for module in net.modules() if isinstance(module, Pool2d))

    check("pool", name, wired, lambda **options: pool.build(name, 8, **options), maps(8, SIZE, SIZE - 1))


@proves("pool.none.stride")
def test_the_stride_that_is_not_taken_dilates_later_layers():
    def dilations(net):
        return [layer.dilation for layer in net.modules() if isinstance(layer, torch.nn.Conv2d)]

    net = cnnpool.classifier(*SMALL, "model.width=2", "pool=none", "pool.stride=3").model
    assert dilations(net) == [(1, 1), (3, 3), (3, 3), (3, 3)]


@proves(*every("readout", schema.names("readout")))
@pytest.mark.parametrize("name", schema.names("readout"))
def test_a_readout_is_made_of_its_options(name):
    def wired(given):
        return cnnpool.classifier(*SMALL, "model.width=4", f"readout={name}", *given).model.readout

    check("readout", name, wired, lambda **options: readout.build(name, 16, (4, 4), **options), maps(16, 4))


@proves(*every("model", BACKBONES))
@pytest.mark.parametrize("name", BACKBONES)
def test_a_backbone_is_made_of_its_options(name):
    def wired(given):
        return cnnpool.classifier(
            "data=digits", "data.limit=64", f"model={name}", "readout=gap", *given
        ).model

    def build(**options):
        return model.build(
            name, 1, (28, 28), 10, **options,
            pool=lambda stage, channels: pool.build("max", channels),
            readout=lambda channels, size: readout.build("gap", channels, size),
        )  # fmt: skip

    check("model", name, wired, build, maps(1, 28))
