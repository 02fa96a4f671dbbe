"""Every option of every group takes the values within its bounds, and refuses all others in one line."""

import math
from typing import Annotated, Literal

import pytest
from annotated_types import Ge, Gt, Le, Lt, MinLen, doc

from cnnpool import data, model, pool, probe, readout, registry
from cnnpool.bounds import describe
from cnnpool.launch.runners import RUNNERS
from cnnpool.recipe import LOGGERS, Recipe

TABLES = {
    "pool": pool.OPERATORS, "readout": readout.READOUTS, "model": model.MODELS, "data": data.DATASETS,
    "probe": probe.PROBES, "fit": {"fit": Recipe}, "launch": RUNNERS, "log": LOGGERS
}  # fmt: skip
FACTORIES = {"pool", "readout"}
OPTIONS = [
    (group, name, key)
    for group, table in TABLES.items()
    for name, entry in table.items()
    for key in registry.options_of(entry)
    if group != "model" or key not in FACTORIES
]
VALUES = [
    -1, 0, 1, 2, 3, 8, 9, 11, 16, 17, 255, 256, 257, 1024, 1025, 10**9, 10**9 + 1, 10**40,
    -0.5, -0.0, 0.5, 1.0, 1.5, 1024.5, 1e-300, 1e300, math.inf, -math.inf, math.nan,
    [0, 1], [1, 2], [2, -1], [1.0, 1.5], [1, 1, 1], [3], [], [math.nan, 1.0], [True, 1],
    "text", "inf", "nan", "3", "", True, False, None, {}, b"x", object,
]  # fmt: skip


def take(group, name, key, value):
    """As a command line checks it."""
    return registry.check(TABLES[group][name], name, {key: value}, group)[key]


NEEDED = {"huggingface": {"path": "ylecun/mnist"}, "torchvision": {"dataset": "SVHN"}}
"""Options without a default, at a legal value."""


def construct(group, name, /, **options):
    """The object itself, as Python code makes it, of four channels where it wants to know."""
    entry = TABLES[group][name]
    options = NEEDED.get(name, {}) | options
    match group:
        case "pool":
            return entry(4, **options)
        case "readout":
            return entry(4, (8, 8), **options)
        case "model":
            return entry(
                1, (32, 32), 3,
                pool=lambda stage, channels: pool.build("avg", channels),
                readout=lambda channels, size: readout.build("gap", channels, size),
                **options,
            )  # fmt: skip
    return entry(**options)


def refusal(function, /, *arguments, **options):
    """The message that refuses, or none."""
    try:
        function(*arguments, **options)
    except ValueError as error:
        assert type(error) is ValueError or isinstance(error, data.DataError), type(error)
        return str(error)
    return None


def options(group):
    """(name, key, annotation) of every option of a group."""
    named = [(name, key) for of, name, key in OPTIONS if of == group]
    return [(name, key, registry.options_of(TABLES[group][name])[key].hint) for name, key in named]


groups = pytest.mark.parametrize("group", TABLES)


@groups
def test_a_command_line_and_a_constructor_refuse_the_same_values_in_one_line(group):
    for name, key, hint in options(group):
        for value in VALUES:
            if refused := refusal(take, group, name, key, value):
                words = f"{group}.{key} must be {describe(hint)}, got {repr(value)[:90]}"
                assert refused.startswith(words) and "\n" not in refused, (name, key, value)
                # Runners are functions, whose options are checked before they are called.
                said = refusal(construct, group, name, **{key: value}) if group != "launch" else refused
                assert said and key in said and "must be" in said and "\n" not in said, (name, key, value)


def test_infinity_is_legal_where_it_means_something():
    endless = {option for option in OPTIONS if not refusal(take, *option, math.inf)}
    assert endless == {("pool", name, "p") for name in ("lp", "aps", "max_aps")}


# Written by hand, against a slip in an annotation itself.
BY_HAND = {
    "pool.max.kernel_size": ([1, 2, [1, 3], 1024], [0, -1, [2, 0], 1025, 2.0, True, [1, 2, 3], None]),
    "pool.max.padding": ([0, 1, [0, 1]], [-1, [0, -1], 0.5]),
    "pool.avg.divisor_override": ([None, -3, 4], [0, 2.0]),
    "pool.blur.filter_size": ([1, 2, 255], [0, 256, 10**12]),
    "pool.diffstride.stride": ([1, 1.5, [1, 2.5], [1.5]], [0.99, math.inf, 10**6]),
    "pool.diffstride.bandwidth": ([0.01, 0.99], [0, 1, 1.5]),
    "pool.fractional_max.stride": ([1.01, 2], [1, 1.0, 0.5]), "pool.gem.p": ([0.1, 3], [0, -1, math.inf]),
    "pool.lp.p": ([0.5, 1, math.inf], [0, -1, math.nan]),
    "pool.aps.p": ([1, 2, 2.0, math.inf], [3, 1.5, 0]), "pool.none.stride": ([1, 16], [0, 17, [2, 2]]),
    "pool.wavelet.stride": ([2], [1, 3, 2.0, True]),
    "readout.pyramid.levels": ([[1], [1, 2, 4]], [[], [0], 1, [65]]),
    "readout.simpool.gamma": ([None, 2], [0, math.inf]),
    "data.mnist.val_size": ([0, 5000, 0.0, 0.99], [-1, 1.0, 1.5, -0.1]),
    "data.image_folder.channels": ([1, 3], [2, True, 1.0]),
    "data.image_folder.size": ([None, 1, [32], [32, 48]], [0, [32, 0]]),
    "probe.invariance.presets": ([[], ["tips"]], ["tips", ["tipps"]]),
    "fit.fit.lr": ([1e-9, 10], [0, -1, math.inf, "fast"]),
    "fit.fit.checkpoint_every_minutes": ([0, 0.5, 10**6], [-1, math.inf, 10**7]),
    "fit.fit.deterministic": (["auto", "warn", True, False], ["no", 1]),
    "launch.ray.gpus": ([0, 0.5], [-1, math.inf])
}  # fmt: skip


def test_bounds_are_the_ones_that_were_meant():
    for option, (good, bad) in BY_HAND.items():
        for value in good:
            assert refusal(take, *option.split("."), value) is None, (option, value)
        for value in bad:
            assert refusal(take, *option.split("."), value), (option, value)


def test_a_type_in_words():
    for hint, words in [
        (Annotated[int, Ge(1)], "a whole number, at least 1"),
        (Annotated[int, Ge(1), Le(8)], "a whole number from 1 to 8"),
        (Annotated[int, Ge(1), Le(10**9)], "a whole number from 1 to 10^9"),
        (Annotated[float, Gt(0)], "a number above 0, or inf"),
        (Annotated[float, Ge(0), Lt(1)], "a number, at least 0 and below 1"),
        (pool.base.OddTap, "a whole number from 1 to 255, odd"),
        (int | tuple[int, int] | None, "a whole number, or two of them, or null"),
        (tuple[str, int], "a list of a text, a whole number"),
        (Annotated[tuple[int, ...], MinLen(1)], "a list, each a whole number, at least 1 of them"),
        (Literal["a", "b"] | bool, "one of a, b, or true or false"),
        (Annotated[float, doc("1, 2 or inf")], "1, 2 or inf"),
    ]:
        assert describe(hint) == words
