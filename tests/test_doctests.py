"""The examples in the docstrings of operators, probes and surgery run as they stand there."""

import doctest
import inspect
from importlib import import_module
from pathlib import Path

import pytest
import torch

import cnnpool
from cnnpool import pool, surgery
from cnnpool.pool import dispatch

ROOT = Path(cnnpool.__file__).parent
PUBLIC = {
    f"{room.__name__}.{name}": getattr(room, name)
    for room in (pool, surgery)
    for name in room.__all__
    if inspect.isfunction(getattr(room, name)) or inspect.isclass(getattr(room, name))
}
# Its fields say all. Probes are all measured as the example of `cnnpool.probe.build`.
WITHOUT = {"cnnpool.surgery.Change"}
FILES = sorted(
    path.relative_to(ROOT.parent)
    for room in ("pool", "probe", "surgery")
    for path in (ROOT / room).rglob("*.py")
    if ">>>" in path.read_text("utf-8")
)


def test_every_public_function_and_class_has_an_example():
    # Operators are made and called alike, as `build` and their base class show.
    without = {name for name, thing in PUBLIC.items() if ">>>" not in (thing.__doc__ or "")}
    operators = {name for name in without if inspect.isclass(PUBLIC[name]) and ".pool." in name}
    assert without - operators == WITHOUT


@pytest.mark.parametrize("path", FILES, ids=str)
def test_examples_print_what_they_say(path):
    parts = path.with_suffix("").parts
    module = import_module(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    torch.manual_seed(0)
    # A reader's session has none of the module's own names; those of operators begin as `cnnpool.pool` says.
    known = {"torch": torch} | {name: getattr(pool, name) for name in pool.__all__} if "pool" in parts else {}
    finder = doctest.DocTestFinder(exclude_empty=True)
    runner = doctest.DocTestRunner(verbose=False)
    said: list[str] = []
    # torch's operators print the same, without the time that compiling a kernel takes.
    with dispatch.use(False):
        for test in finder.find(module, globs=known):
            runner.run(test, out=said.append)
    assert runner.tries > 0 and runner.failures == 0, "".join(said)
