"""The figures of the design: those that are reached stay reached, and each is counted right."""

import ast

import pytest

from scripts import figures


@pytest.fixture(scope="module")
def trees():
    """Those of the package, and those of the scripts."""
    scripts = {
        ".".join(path.relative_to(figures.ROOT).with_suffix("").parts): ast.parse(path.read_text("utf-8"))
        for path in sorted((figures.ROOT / "scripts").rglob("*.py"))
    }
    return figures.modules(), scripts


def parsed(**sources):
    return {f"cnnpool.{name}": ast.parse(source) for name, source in sources.items()}


def test_no_modules_import_each_other_in_a_circle(trees):
    assert [figures.circle(figures.imports(some)) for some in trees] == [[], []]


def test_no_function_is_long(trees):
    for some in trees:
        assert len(some) > 20
        assert [one for one in figures.functions(some) if one.lines > figures.MOST_LINES] == []


def test_private_names_of_other_packages_stand_in_one_file(trees):
    found = {one.partition(":")[0] for names in figures.private_names(trees[0]).values() for one in names}
    assert found == {"cnnpool.pool.internals"}


def test_a_circle_is_found_inside_functions_too():
    around = parsed(
        a="from cnnpool.b import x", b="import cnnpool.c", c="from cnnpool import a", d="import cnnpool.a"
    )
    assert figures.circle(figures.imports(around)) == ["cnnpool.a", "cnnpool.b", "cnnpool.c"]
    inside = parsed(a="import cnnpool.b", b="def f():\n    import cnnpool.a")
    assert figures.circle(figures.imports(inside)) == ["cnnpool.a", "cnnpool.b"]


def test_files_are_weighed_by_part(tmp_path):
    names = ["cnnpool/a/b.py", "tests/c.py", "docs/d.md", "docs/generated/e.md", "docs/sweep/f.md", "G.md"]
    for name in names:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("one\ntwo\n")
    (tmp_path / "docs" / "glossary.md").write_text("whole\n")
    (tmp_path / "G.md").write_text("one\n<!-- a: begin -->\nwritten\n<!-- a: end -->\ntwo\n")
    found = {part: figures.weight(part, tmp_path) for part in figures.BUDGET}
    assert found == {"package": (2, 1), "tests": (2, 1), "scripts": (0, 0), "Markdown": (4, 2)}


def test_private_names_of_other_packages_are_found():
    theirs = ("import torch\ntorch._C.x()", "from torch._inductor import x", "from hydra import _internal")
    allowed = ("import torch\ntorch.__version__", "import os\nos._exit(0)")
    for source in (*theirs, *allowed, "from cnnpool.pool import _mine\n_mine._own"):
        assert bool(figures.private_names(parsed(**{"room.a": source}))) == (source in theirs), source
