"""Every key of every command has an experiment that shows that it acts."""

import dataclasses
import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import proofs

from cnnpool import schema
from cnnpool.choose.options import Options

HERE = Path(__file__).parent
PUBLISHED = ("timm", "torchvision", "installed")
SHOWN = {"train --help", "probe --help", "compare --help", "choose --help"}
"""What prints and does no more; the pages on the command line try them."""
SHOWN |= {f"train --{flag}" for flag in ("multirun", "cfg", "resolve", "package", "info")}


def settings():
    """The keys of ``cnnpool train``; those that several data sets or published networks share once."""
    yield from (*schema.OWN, "experiment")
    for group in schema.GROUPS:
        for name in schema.names(group):
            common = group == "data" or name in PUBLISHED or not name
            keys = schema.options_of(group, name)
            yield from (f"{group}.{key}" if common else f"{group}.{name}.{key}" for key in keys)
            if group == "log" and not keys:
                yield f"{group}.{name}"


def flags(command, printed):
    """The options and arguments that ``--help`` of a command lists."""
    return [f"{command} {flag}" for flag in re.findall(r"^ +(?:-\w+(?: \w+)?, )?(--[a-z-]+)", printed, re.M)]


def test_every_key_has_an_experiment(command, capfd):
    for path in HERE.glob("test_*.py"):
        spec = spec_from_file_location(f"proofs_of_{path.stem}", path)
        spec.loader.exec_module(module_from_spec(spec))
    declared = {*settings(), *(f"choose.{field.name}" for field in dataclasses.fields(Options))}
    for name in ("train", "probe", "compare", "choose"):
        command(name, "--help")
        declared |= {*flags(name, capfd.readouterr().out)}
    tried = proofs.PROVEN | proofs.ELSEWHERE
    assert not sorted(declared - SHOWN - tried.keys())
    for key, place in tried.items():
        file, _, test = place.partition("::")
        assert f"def {test}(" in (HERE.parent / file).read_text(encoding="utf-8"), f"{key}: no {place}"
