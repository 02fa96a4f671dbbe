"""Promises of every operator of conf/pool, whatever it computes: names, options, sizes.

An operator is excused from a promise by its own class attributes alone: ``gain = None`` (no fixed gain),
``random = True`` (draws in training mode), ``equivariant = False`` (does not commute with shifts by the
stride) and ``dilates > 1`` (keeps the resolution, may hand its input through).
"""

import inspect
import itertools

import pytest
import torch
import yaml

from cnnpool import registry, schema
from cnnpool.pool import OPERATORS, Pool2d, build
from cnnpool.registry import KEEP


def test_yaml_holds_every_option_at_its_default(stem, conf):
    written = yaml.safe_load((conf / f"{stem}.yaml").read_text())
    assert written.pop("name") == stem
    if written.get("norm") == "${norm_of_model:}":
        # On the command line the network decides, alone there is none.
        written["norm"] = "none"
    defaults = {name: option.default for name, option in registry.options_of(OPERATORS[stem]).items()}
    assert {k: tuple(v) if isinstance(v, list) else v for k, v in written.items()} == defaults
    assert [type(v) for v in registry.check(OPERATORS[stem], stem, written).values()] == [
        type(defaults[k]) for k in written
    ]


def test_yaml_module_and_table_share_one_stem(stem):
    assert OPERATORS[stem].__module__ == f"cnnpool.pool.{stem}"
    assert issubclass(OPERATORS[stem], Pool2d) and OPERATORS[stem].__name__.endswith("2d")


def test_every_operator_of_the_table_has_a_yaml(conf):
    assert {path.stem for path in conf.glob("*.yaml")} - {"inherit", KEEP} == set(OPERATORS)


def test_facts_are_stated(stem):
    operator = OPERATORS[stem]
    assert all(getattr(operator, fact).strip() for fact in ("formula", "paper", "shift"))
    assert inspect.getdoc(operator) != inspect.getdoc(Pool2d)
    assert all(option.text for option in schema.options_of("pool", stem).values())


def test_defaults_halve_even_sizes_and_odd_ones_follow_output_size(stem, make, halved):
    for channels in (1, 4):
        op = make(stem, channels)
        for size in [(8, 8), (12, 6), (32, 28), (7, 9), (5, 8), (12, 11), (15, 15)]:
            x = torch.randn(2, channels, *size, dtype=torch.float64)
            assert op(x).shape == (2, channels, *op.output_size(*size))
            assert any(n % 2 for n in size) or op.output_size(*size) == halved(op, *size)


def test_output_size_is_right_for_every_accepted_option(stem, make):
    values = {"kernel_size": (1, 2, 3, (3, 2)), "stride": (1, 2, 3, (2, 1)), "padding": (0, 1)}
    values |= {"dilation": (1, 2), "ceil_mode": (False, True)}
    swept = {k: v for k, v in values.items() if k in registry.options_of(OPERATORS[stem])}
    accepted = 0
    for combination in itertools.product(*swept.values()):
        try:
            op = make(stem, **dict(zip(swept, combination, strict=True)))
        except ValueError:
            continue
        for size in [(6, 9), (7, 4)]:
            x = torch.randn(1, 3, *size, dtype=torch.float64)
            try:
                expected = op.output_size(*size)
            except ValueError:
                with pytest.raises(ValueError):
                    op(x)
            else:
                assert op(x).shape == (1, 3, *expected), (combination, size)
                accepted += 1
    assert accepted


def test_size_that_leaves_nothing_is_named(stem, make):
    op = make(stem)
    for size in [(1, 1), (1, 8), (8, 1), (2, 2), (3, 2)]:
        x = torch.randn(1, 3, *size, dtype=torch.float64)
        try:
            expected = op.output_size(*size)
        except ValueError as error:
            assert f"{size[0]}x{size[1]}" in str(error)
            with pytest.raises(ValueError, match=f"{size[0]}x{size[1]}"):
                op(x)
        else:
            assert min(expected) >= 1
            assert op(x).shape == (1, 3, *expected)


def test_bad_option_is_refused_with_its_name(stem):
    bad = {"kernel_size": 0, "stride": 0, "padding": -1, "dilation": 0}
    for name in {"colour"} | bad.keys() & registry.options_of(OPERATORS[stem]).keys():
        with pytest.raises(ValueError, match=name):
            build(stem, 3, **{name: bad.get(name, 1)})


def test_flops_count_grows_with_the_map_and_zero_means_selection(stem, make):
    op, x = make(stem), torch.randn(2, 3, 8, 8, dtype=torch.float64)
    count = op.flops(8, 8)
    assert type(count) is int and count >= 0
    if count == 0:
        assert torch.isin(op(x), x).all(), "an operator without arithmetic only picks values"
    else:
        assert op.flops(16, 16) > count and make(stem, 6).flops(8, 8) > count


def test_channels_that_are_no_count_are_refused_with_their_value():
    for channels in (0, -1, 2.5, "4", True):
        message = f"max: channels must be a whole number from 1 to .*, got {channels!r}"
        with pytest.raises(ValueError, match=message):
            build("max", channels)
