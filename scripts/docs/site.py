"""The pages of the site that come from elsewhere: README and its like, docstrings, ``--help``, options."""

import ast
import inspect
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import cnnpool.lightning
from cnnpool import pool, probe, readout, registry, surgery, tables
from cnnpool.choose.options import Options
from cnnpool.cli import COMMANDS
from cnnpool.explain.operator import shown
from scripts.docs.documented import PROGRAMS
from scripts.docs.pages import ROOT, table

FOLDER = "generated"
PLACES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": f"{FOLDER}/contributing.md",
    "CHANGES.md": f"{FOLDER}/changes.md",
    "outputs/README.md": f"{FOLDER}/runs.md",
}
"""Pages outside ``docs``, and where they stand in the site."""
LITERAL = re.compile(r"(``.*?``)")
COMMANDS_BLOCK = re.compile(rf"^```\n(?=(?:\$ )?(?:\.venv/bin/)?(?:{'|'.join(PROGRAMS)}) )", re.MULTILINE)
"""The beginning of a block of commands, which names no language."""
LINK = re.compile(r"(?<=\]\()(?!https?:|#)([^)#\s]+)")


def write(source: Path) -> None:
    """Write the generated pages below ``source``; unchanged ones keep their time and are not built again."""
    folder = source / FOLDER
    folder.mkdir(exist_ok=True)
    made = dict(pages())
    for path in set(folder.iterdir()) - {folder / name for name in made}:
        path.unlink()
    for name, text in made.items():
        path = folder / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def pages() -> Iterator[tuple[str, str]]:
    """(file name, Markdown) of every generated page."""
    for path, place in PLACES.items():
        name = "readme.md" if place == "index.md" else Path(place).name
        yield name, linked((ROOT / path).read_text(encoding="utf-8"), Path(path).parent)
    yield "operators.md", operators()
    yield "readouts.md", listed(readout, "Readouts", readout.READOUTS)
    yield "probes.md", listed(probe, "Probes", probe.PROBES)
    yield "surgery.md", listed(surgery, "Swapping", {})
    yield "lightning.md", listed(cnnpool.lightning, "Lightning", {})
    yield "commands.md", commands()
    yield "choose.md", options_of_choose()


def linked(text: str, folder: Path) -> str:
    """Markdown of a page in ``folder`` (relative to the repository), with links from the site's root."""

    def place(found: re.Match[str]) -> str:
        path = os.path.normpath(folder / found.group(1))
        if path in PLACES:
            return f"/{PLACES[path]}"
        inside = path.removeprefix("docs/")
        return f"/{inside}" if inside != path else f"/../{path}"

    return coloured(LINK.sub(place, text))


def coloured(text: str) -> str:
    """Markdown whose blocks of commands are coloured as such."""
    return COMMANDS_BLOCK.sub("```shell\n", text)


def adapt(app: Any, page: str, source: list[str]) -> None:
    """Colour commands of a page in ``docs``, and point its links to files above it at the site's pages."""
    if page.startswith((FOLDER, "notebooks")):
        return
    source[0] = coloured(source[0])
    for path, place in PLACES.items():
        source[0] = re.sub(rf"(?<=\]\()(\.\./)+{re.escape(path)}(?=[)#])", f"/{place}", source[0])


def operators() -> str:
    """The reference of ``cnnpool.pool``: every operator with its function, then what belongs to none."""
    parts = [heading(pool, "Operators in Python"), _documented("cnnpool.pool", ["build"])]
    told = {"build", "Pool2d"}
    for name, entry in pool.OPERATORS.items():
        beside = [one for one in pool.__all__ if _home(pool, one) == entry.__module__ and _owner(one) == name]
        told |= {entry.__name__, *beside}
        parts += [f"## {name}", *_facts(entry), _documented("cnnpool.pool", [*beside, entry.__name__])]
    rest = [name for name in pool.__all__ if name not in told and name != "OPERATORS"]
    parts += ["## Sequences, and the way back", _documented("cnnpool.pool", rest)]
    parts += ["## Base", _documented("cnnpool.pool", ["Pool2d"])]
    return "\n\n".join(parts) + "\n"


def listed(room: Any, title: str, table: dict[str, Any]) -> str:
    """The reference of a room: its public classes and functions, with the names and facts of ``table``."""
    named = {entry.__name__: name for name, entry in table.items()}
    parts = [heading(room, title)]
    for one in room.__all__:
        if callable(entry := getattr(room, one)):
            facts = _facts(entry) if one in named and room is readout else []
            parts += [f"## {named.get(one, one)}", *facts, _documented(room.__name__, [one])]
    return "\n\n".join(parts) + "\n"


def heading(room: Any, title: str) -> str:
    """The title, the import and the docstring of a room."""
    return f"# {title}\n\n`import {room.__name__}`: {inspect.getdoc(room)}"


def commands() -> str:
    """The help of every command, as it is printed."""
    parts = ["# Commands", "Printed by `cnnpool COMMAND --help`."]
    for command in COMMANDS:
        arguments = [sys.executable, "-m", "cnnpool", command, "--help"]
        narrow = {**os.environ, "COLUMNS": "100", "CNNPOOL_DATA": "data"}
        done = subprocess.run(arguments, capture_output=True, text=True, check=True, env=narrow, cwd=ROOT)
        parts += [f"## cnnpool {command}", f"```text\n{done.stdout.rstrip()}\n```"]
    return "\n\n".join(parts) + "\n"


def options_of_choose() -> str:
    """The settings of ``cnnpool choose``, with the words of their docstring."""
    return (
        "# Settings of choose\n\n[How `choose` decides](/choose.md); each setting is `choose.KEY=VALUE`.\n\n"
        f"{_options(Options, shown)}\n\n{_documented('cnnpool.choose.options', ['Options'])}\n"
    )


def readable_signature(
    app: Any, what: str, name: str, entry: Any, options: Any, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """A signature without bounds: ``Annotated[int, Ge(1)]`` is ``int``; the tables of options have them."""
    if not signature:
        return None
    try:
        tree = ast.parse(f"def f{signature} -> {returned or 'None'}: ...")
    except SyntaxError:
        return signature, returned
    plain = ast.unparse(_WithoutBounds().visit(tree))
    arguments, _, result = plain.removeprefix("def f").removesuffix(":\n    ...").rpartition(" -> ")
    return arguments, result if returned else None


def plain_bars(app: Any, what: str, name: str, entry: Any, options: Any, lines: list[str]) -> None:
    """Let ``|x|`` in a docstring stand for itself: reStructuredText would look for a substitution."""
    for number, line in enumerate(lines):
        if "|" in line and not line.lstrip().startswith((">>>", "...")):
            parts = LITERAL.split(line)
            parts[::2] = [part.replace("|", "\\|") for part in parts[::2]]
            lines[number] = "".join(parts)


class _WithoutBounds(ast.NodeTransformer):
    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if ast.unparse(node.value).endswith("Annotated") and isinstance(node.slice, ast.Tuple):
            return node.slice.elts[0]
        return node


def _owner(function: str) -> str | None:
    """The operator that a function of its module computes: the longest name within the function's."""
    beside = [name for name, entry in pool.OPERATORS.items() if entry.__module__ == _home(pool, function)]
    return max((name for name in beside if name in function), key=len, default=None)


def _home(room: Any, name: str) -> str:
    return getattr(getattr(room, name), "__module__", "")


def _facts(entry: Any) -> list[str]:
    """Formula, gradient, behaviour under shifts and paper, as the operator states them, and its options."""
    facts = {key: getattr(entry, key, None) for key in ("formula", "gradient", "shift", "paper")}
    lines = [f"- **{key}**: {_literal(key, value)}" for key, value in facts.items() if isinstance(value, str)]
    return ["\n".join(lines), _options(entry)]


def _literal(key: str, value: str) -> str:
    return f"`{value}`" if key == "formula" else tables.markdown_text(value)


def _options(entry: Any, words: Callable[[Any], str] = str) -> str:
    found = registry.options_of(entry)
    if not found:
        return "No options."
    rows = [(f"`{key}`", f"`{words(option.default)}`", option.words) for key, option in found.items()]
    return table(("option", "default", "legal values"), rows)


def _documented(module: str, names: list[str]) -> str:
    blocks = []
    for name in names:
        entry = getattr(import_module(module), name)
        if inspect.isclass(entry):
            members = "" if module.startswith(("cnnpool.pool", "cnnpool.readout")) else "\n   :members:"
            blocks.append(f".. autoclass:: {module}.{name}{members}")
        else:
            blocks.append(f".. autofunction:: {module}.{name}")
    body = "\n\n".join(blocks)
    return f"```{{eval-rst}}\n{textwrap.dedent(body)}\n```"
