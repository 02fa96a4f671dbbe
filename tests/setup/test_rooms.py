"""The rules of the rooms, who may import what, read from the source, not from what happens to be loaded."""

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

# Room: what it may import besides the standard library and itself. An own name covers what lies below it.
# A name that begins with a dot is one of cnnpool.
BASES = ".model.base .pool.base .readout.base"
LAYERS = ".data .model .pool .probe .readout"
SCHEMA = "annotated_types .bounds .registry"
RIVALS = "antialiased_cnns kornia timm torchvision"
ROOMS = {
    "pool": f"numba torch triton {SCHEMA}",
    "readout": f"torch .pool {SCHEMA}",
    "model": f"torch {BASES} {SCHEMA}",
    "data": f"PIL datasets filelock numpy torch torchvision .system .tables {SCHEMA}",
    "probe": f"PIL torch .as_found .pool .quantity {BASES} {SCHEMA}",
    "fit": (
        "PIL lightning matplotlib numpy tensorboard torch torchmetrics torchvision .bounds .explain "
        ".lightning .network .quantity .recipe .registry .run_folder .surgery.statistics .system .tables "
        f"{LAYERS}"
    ),
    # The probes describe the numbers of runs that do not do so themselves yet.
    "report": (
        "jinja2 matplotlib numpy scipy tensorboard .cli_parser .json_text .probe.declared .quantity "
        ".registry .run_folder .system.atomic .system.next_command .system.progress .tables"
    ),
    "tensorboard": "matplotlib tensorboard werkzeug .choose.ledger .json_text .report .run_folder .tables",
    "explain": "matplotlib torch .cli_parser .pool .readout .registry .system .tables",
    "bench": f"torch .cli_parser .pool .registry .run_folder .system .tables {RIVALS}",
    "__init__": ".launch.python .pool .report.render .surgery .system.hardware .system.process",
    "choices": ".registry",
    "network": f"torch .choices .published .registry .run_folder {LAYERS}",
    "training": f"torch yaml .choices .fit .network .published .recipe .run_folder .system {LAYERS}",
    "__main__": ".cli",
    "tables": "",
    "choose": (
        "annotated_types filelock matplotlib numpy pydantic scipy torch .choices .cli_parser .data .launch "
        ".probe .published .quantity .registry .report .run_folder .system .tables"
    ),
    "cli": "cnnpool",
    "launch": (
        "hydra numpy omegaconf ray submitit torch yaml .as_found .choices .cli_parser .fit .published "
        f".quantity .recipe .run_folder .schema .system .tables .training {LAYERS} {SCHEMA}"
    ),
    "cli_parser": "",
    "completion": "argcomplete yaml .cli_parser .launch .schema",
    "recipe": SCHEMA,
    "json_text": "pydantic",
    "run_folder": "annotated_types filelock numpy torch yaml .json_text .quantity .system",
    "system": "filelock torch tqdm",
    "lightning": (
        "lightning matplotlib numpy torch torchmetrics .as_found .explain .probe .quantity .registry .surgery"
    ),
    "published": (
        "safetensors timm torch torchvision .as_found .bounds .choices .model .registry .run_folder .surgery"
    ),
    "surgery": f"torch .as_found .pool .quantity .readout .registry .system.progress {BASES}",
    "inspection": (
        "matplotlib timm torch torchvision .cli_parser .explain .fit.optimizers .network .published "
        f".quantity .recipe .registry .run_folder .surgery .system .tables {LAYERS}"
    ),
    "bounds": "annotated_types",
    "as_found": "numpy torch",
    "quantity": ".json_text",
    "registry": "pydantic .bounds",
    "schema": f".system {SCHEMA}",
}
DUMPING_GROUNDS = {"util", "utils", "helper", "helpers", "common", "misc", "tools"}


def room_of(path):
    """``pool`` for ``cnnpool/pool/max.py``, ``cli`` for ``cnnpool/cli.py``."""
    return Path(path).with_suffix("").parts[1]


def imports(path, nodes):
    """(line, full dotted name) of every import, those inside functions and those by a string included."""
    package = Path(path).parent.parts
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*above, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and called(node) in ("import_module", "__import__"):
            yield node.lineno, _named(node.args[0]) if node.args else "a computed name"


def called(call):
    """The last part of the name of what is called."""
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def _named(argument):
    """The module that a string names, or the package before what is filled in."""
    if isinstance(argument, ast.Constant):
        return argument.value
    begins = isinstance(argument, ast.JoinedStr) and isinstance(argument.values[0], ast.Constant)
    package, dot, _ = argument.values[0].value.rpartition(".") if begins else ("", "", "")
    return package if dot else "a computed name"


def violations(path, source):
    """Breaches of the rules in one file of the package, each with its line."""
    room = room_of(path)
    if room not in ROOMS:
        return [f"{path}: there is no room called {room}"]
    own = (f"cnnpool{name}" if name.startswith(".") else name for name in ROOMS[room].split())
    allowed, nodes = {*own, f"cnnpool.{room}", "cnnpool.__version__"}, list(ast.walk(ast.parse(source)))
    found = [
        f"{path}:{line}: {room} may not import {name}"
        for line, name in imports(path, nodes)
        if name.split(".")[0] not in sys.stdlib_module_names
        and not any(name == one or name.startswith(one + ".") for one in allowed)
    ]
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    found += [f"{path}:{call.lineno}: print" for call in calls if called(call) == "print"]
    stems = {part.removesuffix(".py").strip("_") for part in Path(path).parts}
    return found + [f"{path}: {stem} names no idea" for stem in sorted(stems & DUMPING_GROUNDS)]


def package_files():
    return sorted(path.relative_to(ROOT) for path in ROOT.glob("cnnpool/**/*.py"))


def test_files_keep_the_rules_of_their_rooms():
    sources = {path.as_posix(): (ROOT / path).read_text(encoding="utf-8") for path in package_files()}
    assert [breach for path, source in sources.items() for breach in violations(path, source)] == []


BREACHES = {
    "cnnpool/pool/max.py": [
        "from cnnpool.readout.whole import GlobalAvgPool2d",
        "from .. import model",
        "import numpy as np",
        "import torch, scipy",
        "if TYPE_CHECKING:\n    from cnnpool.fit import Net",
        "importlib.import_module('hydra')",
        "import_module(name)",
        'import_module(f"cnnpool.{room}")',
        "__import__('lightning')",
        "print('here')",
    ],
    "cnnpool/pool/utils.py": [""],
    "cnnpool/helpers/sizes.py": [""],
    "cnnpool/trainers/loop.py": [""],
    "cnnpool/model/plain.py": ["from cnnpool.pool import OPERATORS"],
    "cnnpool/__init__.py": ["import torch"],
}
ALLOWED = {
    "cnnpool/pool/max.py": [
        "import math\nimport torch.nn.functional as F\nfrom torch import Tensor",
        'import_module(f"cnnpool.pool.{device}.{stem}")',
        "from .base import Pool2d\nfrom . import base\nfrom .. import registry",
    ],
    "cnnpool/model/plain.py": ["from cnnpool.pool.base import Pool2d"],
    "cnnpool/cli.py": ["def train():\n    from cnnpool import report"],
}


def test_breaches_are_found_and_nothing_else():
    for path, lines in BREACHES.items():
        assert all(violations(path, line) for line in lines), path
    for path, lines in ALLOWED.items():
        assert not any(violations(path, line) for line in lines), path
