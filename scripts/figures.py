"""Count figures of the design, weight and files of a run among them, and print them as a table.

usage: python scripts/figures.py
"""

import ast
import os
import re
import subprocess
import sys
import tempfile
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

from cnnpool import tables

ROOT = Path(__file__).resolve().parents[1]
BUDGET = {
    "package": (("cnnpool/**/*.py",), 32_000, 225),
    "tests": (("tests/**/*.py",), 22_000, None),
    "scripts": (("scripts/**/*.py",), 3_200, None),
    "Markdown": (("*.md", "docs/*.md", "outputs/README.md"), 2_000, None),
}
"""Part -> patterns of its files, the most lines, and the most files."""
WRITTEN = ("operators.md", "glossary.md", "claims.md", "faults.md", "performance*.md", "index.md")
"""Patterns of pages of ``docs`` that scripts write whole, and of the site's menus: they count for no part."""
PASSAGE = re.compile(r"<!-- (.*): begin -->.*?<!-- \1: end -->\n", re.DOTALL)
"""A part of a page that a script writes, which counts for none either."""
RUN = ("train", "data=digits", "pool=max", "fit=smoke", "fit.progress=false")
MOST_RUN_FILES = 80
TRACE = """
import sys, threading
files = set()
def hear(frame, event, argument):
    # CO_OPTIMIZED: of functions, not of modules and classes.
    if event == "call" and frame.f_code.co_flags & 1:
        files.add(frame.f_code.co_filename)
threading.setprofile(hear)
sys.setprofile(hear)
from cnnpool import cli
try:
    cli.main(sys.argv[2:])
finally:
    sys.setprofile(None)
    open(sys.argv[1], "w").write("\\n".join(sorted(files)))
"""
MOST_LINES, MOST_COMPLEX = 50, 12
COMPLEX = ("ruff", "check", "--select=C901", f"--config=lint.mccabe.max-complexity={MOST_COMPLEX}")


class Function(NamedTuple):
    """A function with its size in lines, without its docstring and decorators."""

    name: str
    lines: int


def modules(root: Path = ROOT) -> dict[str, ast.Module]:
    """Dotted name -> syntax tree of every module of the package."""
    found = {}
    for path in sorted((root / "cnnpool").rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = ast.parse(path.read_text("utf-8"))
    return found


def imports(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """Module -> modules of the package that it imports, also inside functions."""
    graph: dict[str, set[str]] = {}
    for name, tree in trees.items():
        graph[name] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                named = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                below = [f"{node.module}.{alias.name}" for alias in node.names]
                named = [one if one in trees else node.module for one in below]
            else:
                continue
            graph[name] |= {one for one in named if one in trees and one != name}
    return graph


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Modules that import each other, if there are any; ``cnnpool`` itself serves names lazily."""
    try:
        TopologicalSorter({name: graph[name] - {"cnnpool"} for name in graph if name != "cnnpool"}).prepare()
    except CycleError as error:
        return sorted(set(error.args[1]))
    return []


def weight(part: str, root: Path = ROOT) -> tuple[int, int]:
    """Lines and files of a part of ``BUDGET``."""
    paths = {path for pattern in BUDGET[part][0] for path in root.glob(pattern)}
    paths -= {path for pattern in WRITTEN for path in root.glob(f"docs/{pattern}")}
    return sum(len(PASSAGE.sub("", path.read_text("utf-8")).splitlines()) for path in paths), len(paths)


def run_files() -> list[str]:
    """Files of the package of which a function is called in a short ``cnnpool train pool=max``."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "files")
        command = [sys.executable, "-c", TRACE, str(out), *RUN, f"hydra.run.dir={folder}/run"]
        path = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        subprocess.run(command, cwd=folder, env=os.environ | path, check=True, capture_output=True)
        package = str(ROOT / "cnnpool")
        return [name for name in out.read_text().split("\n") if name.startswith(package)]


def functions(trees: dict[str, ast.Module]) -> list[Function]:
    """Every function and method, largest first."""
    found = [
        Function(f"{module}.{node.name}", _size(node))
        for module, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return sorted(found, key=lambda one: -one.lines)


def _size(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    whole = (node.end_lineno or node.lineno) - node.lineno + 1
    if ast.get_docstring(node, clean=False) is None:
        return whole
    text = node.body[0]
    return whole - ((text.end_lineno or text.lineno) - text.lineno + 1)


def private_names(trees: dict[str, ast.Module]) -> dict[str, list[str]]:
    """Room -> names beginning with one underscore that it takes from other packages."""
    found: dict[str, list[str]] = {}
    for module, tree in trees.items():
        foreign = _foreign(tree)
        for node in ast.walk(tree):
            name = _private(node, foreign)
            if name:
                found.setdefault(module.split(".")[1], []).append(f"{module}: {name}")
    return found


def _foreign(tree: ast.Module) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            source = getattr(node, "module", None) or node.names[0].name
            if source.split(".")[0] != "cnnpool" and source.split(".")[0] not in sys.stdlib_module_names:
                names |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
    return names


def _private(node: ast.AST, foreign: set[str]) -> str:
    def hidden(name: str) -> bool:
        return any(part.startswith("_") and not part.startswith("__") for part in name.split("."))

    if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] != "cnnpool":
        return next((f"{node.module}.{a.name}" for a in node.names if hidden(f"{node.module}.{a.name}")), "")
    if isinstance(node, ast.Attribute):
        name = ast.unparse(node)
        return name if name.split(".")[0] in foreign and hidden(node.attr) else ""
    return ""


def last_line(*command: str) -> str:
    """The last line that a Python module prints about the package."""
    command = (sys.executable, "-m", *command, "cnnpool")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return (done.stdout or done.stderr).strip().splitlines()[-1]


def main() -> None:
    trees = modules()
    sizes, rooms, around = functions(trees), private_names(trees), circle(imports(trees))
    rows: list[tuple[str, object, str]] = []
    for part, (_, most_lines, most_files) in BUDGET.items():
        lines, files = weight(part)
        few = f" of at most {most_files}" if most_files else ""
        rows.append((f"lines of {part}", f"{lines:,}", f"at most {most_lines:,}; {files} files{few}"))
    rows += [
        ("files that run in a training", len(run_files()), f"at most {MOST_RUN_FILES}; {' '.join(RUN)}"),
        ("modules in a circle", len(around), ", ".join(around)),
        ("largest function (lines)", sizes[0].lines, sizes[0].name),
        (f"functions over {MOST_LINES} lines", sum(one.lines > MOST_LINES for one in sizes), ""),
        (f"functions over complexity {MOST_COMPLEX}", "", last_line(*COMPLEX)),
        *((f"private names of others in {room}", len(names), "") for room, names in sorted(rooms.items())),
        ("mypy, strict", "", last_line("mypy", "--strict")),
    ]
    text = [(figure, str(count), where) for figure, count, where in rows]
    print(tables.markdown(tables.from_rows(("figure", "count", "where"), text, numbers=("count",))))


if __name__ == "__main__":
    main()
