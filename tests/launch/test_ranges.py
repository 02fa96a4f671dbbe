"""What is refused before torch is imported is what the constructors refuse."""

import math
import subprocess
import sys
from typing import Any, get_type_hints

import pytest

from cnnpool import data, model, pool, probe, readout, registry
from cnnpool.launch import check, ranges

ENTRIES = {
    "pool": pool.OPERATORS,
    "readout": readout.READOUTS,
    "model": model.MODELS,
    "data": data.DATASETS,
    "probe": probe.PROBES,
}
CHOICES = [(room, name) for room, entries in ENTRIES.items() for name in entries]
VALUES = [
    -1, 0, 1, 2, 3, 8, 9, 11, -0.5, 0.0, 0.5, 1.0, 1.5, math.inf,
    [0, 1], [1, 2], [2, -1], [1.0, 1.5], [1, 1, 1], "text", True, None,
]  # fmt: skip
# Those that depend on the channels, on a map, or on another option; and an empty list.
LEFT = {"groups", "heads", "grid", "ada.size", "ada.beta", "mixed.mix", "levels"}


def options_of(room, name):
    entry = ENTRIES[room][name]
    return [option for option in registry.options_of(entry) if room != "model" or option not in ENTRIES]


def construct(room, name, **options):
    """What the constructor makes of ``options``, of four channels where it wants to know."""
    match room:
        case "pool":
            pool.build(name, 4, **options)
        case "readout":
            readout.build(name, 4, (8, 8), **options)
        case "model":
            model.build(
                name, 1, (32, 32), 3,
                pool=lambda stage, channels: pool.build("avg", channels),
                readout=lambda channels, size: readout.build("gap", channels, size),
                **options,
            )  # fmt: skip
        case "data":
            registry.construct(data.DATASETS, "datasets", name, **options)
        case "probe":
            probe.build(name, **options)


def refused(function, *arguments, **options):
    try:
        function(*arguments, **options)
    except ValueError:
        return True
    return False


@pytest.mark.parametrize(("room", "name"), CHOICES)
def test_types_are_those_of_the_signature(room, name):
    declared = get_type_hints(ENTRIES[room][name].__init__)
    for option in options_of(room, name):
        known = ranges.range_of(room, name, option).hint
        assert known in (declared[option], Any), option


@pytest.mark.parametrize(("room", "name"), CHOICES)
def test_the_constructor_refuses_the_same_values(room, name):
    signature = registry.options_of(ENTRIES[room][name])
    defaults = {option: signature[option].default for option in options_of(room, name)}
    for option in defaults:
        for value in VALUES:
            early = refused(check._check, room, room, {"name": name, **defaults, option: value})
            late = refused(construct, room, name, **{option: value})
            if (
                not {option, f"{name}.{option}"} & LEFT
                and ranges.range_of(room, name, option).hint is not Any
            ):
                assert early == late, (option, value)
            assert late or not early, (option, value)


def test_every_choice_has_known_options():
    for room, name in CHOICES:
        assert set(check._options(room, name)) == set(options_of(room, name)), name
        assert name in check._names(room)


def test_a_range_is_named_with_key_and_value():
    for value, said in ((0, "got 0"), ((1, 0), r"got \(1, 0\)")):
        with pytest.raises(ValueError, match=rf"^pool\.stride must be at least 1, {said}$"):
            ranges.range_of("pool", "max", "stride").check("pool.stride", value)


def test_another_packages_option_may_be_anything():
    ranges.range_of("pool", "max", "of_another_package").check("key", -1)


REFUSED = [
    "fit.lr=-1", "fit.epochs=0", "fit.precision=8", "seed=-1", "launch=processes launch.jobs=0",
    "pool.kernel_size=0", "pool.padding=2", "pool.ties=all", "+pool.extra=1", "pool.name=nosuch",
    "pool=blur pool.padding_mode=mirror", "pool@stage.s2=avg stage.s2.stride=0", "stage.s2=avg",
    "data.batch_size=0", "data.name=mnists", "model.width=0", "readout.hidden=-1",
    "+probe.nosuch.samples=1", "probe.gradient.samples=0", "pool=nosuch", "nosuch=1", "out=",
    "seed=${oc.env:NOPE}", "-m pool.stride=0,-1",
]  # fmt: skip


def test_nothing_is_refused_only_after_torch_is_imported(tmp_path):
    code = f"""
import sys
from cnnpool import cli
for command in {REFUSED}:
    try:
        cli.main(["train", *command.split()])
    except SystemExit as stop:
        assert stop.code == 2, (command, stop.code)
    assert "torch" not in sys.modules, command
assert "hydra" in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("error: ") == len(REFUSED) + 1
