"""The rules of the rooms, who may import what, read from the source, not from what happens to be loaded."""

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

# Room: what it may import besides the standard library and itself. An own name covers what lies below it.
BASES = {"cnnpool.pool.base", "cnnpool.readout.base", "cnnpool.model.base"}
LAYERS = {"cnnpool.data", "cnnpool.model", "cnnpool.pool", "cnnpool.probe", "cnnpool.readout"}
SCHEMA = {"annotated_types", "cnnpool.bounds", "cnnpool.registry"}
RUN_FOLDER, SYSTEM, TABLES = "cnnpool.run_folder", "cnnpool.system", "cnnpool.tables"
RIVALS = {"torchvision", "timm", "kornia", "antialiased_cnns"}
ROOMS = {
    "pool": {"torch", "numba", "triton", *SCHEMA},
    "readout": {"torch", *SCHEMA, "cnnpool.pool"},
    "model": {"torch", *SCHEMA, *BASES},
    "data": {"torch", "torchvision", "datasets", "numpy", "PIL", "filelock", SYSTEM, TABLES, *SCHEMA},
    "probe": {"torch", "PIL", "cnnpool.pool.max", "cnnpool.quantity", *SCHEMA, *BASES},
    "fit": {
        *("torch", "torchvision", "lightning", "torchmetrics", "tensorboard", "matplotlib", "PIL"),
        *("cnnpool.bounds", "cnnpool.network"),
        *("cnnpool.explain", "cnnpool.lightning", "cnnpool.loggers", "cnnpool.quantity", "cnnpool.recipe"),
        "cnnpool.registry",
        *(RUN_FOLDER, SYSTEM, TABLES, *LAYERS),
    },
    "report": {
        *("jinja2", "numpy", "scipy", "matplotlib", "tensorboard", "cnnpool.json_text"),
        *("cnnpool.cli_parser", "cnnpool.system.atomic", "cnnpool.system.progress", RUN_FOLDER, TABLES),
        "cnnpool.system.next_command",
        # The probes describe the numbers of runs that do not do so themselves yet.
        *("cnnpool.quantity", "cnnpool.registry", "cnnpool.probe.declared"),
    },
    "tensorboard": {
        *("tensorboard", "werkzeug", "matplotlib", "cnnpool.report", RUN_FOLDER, TABLES),
        *("cnnpool.choose.live_file", "cnnpool.json_text"),
    },
    "explain": {
        *("torch", "matplotlib"),
        *("cnnpool.cli_parser", "cnnpool.pool", "cnnpool.readout", "cnnpool.registry", SYSTEM, TABLES),
    },
    "bench": {"torch", *RIVALS, "cnnpool.pool", "cnnpool.cli_parser", RUN_FOLDER, SYSTEM, TABLES},
    "__init__": {
        *("cnnpool.launch.python", "cnnpool.pool", "cnnpool.report.table", "cnnpool.surgery"),
        "cnnpool.system.hardware",
    },
    "choices": set(),
    "network": {*("torch", "cnnpool.choices", "cnnpool.published", "cnnpool.registry", RUN_FOLDER, *LAYERS)},
    "training": {
        *("torch", "yaml", "cnnpool.choices", "cnnpool.fit", "cnnpool.loggers", "cnnpool.network"),
        *("cnnpool.published", "cnnpool.recipe", RUN_FOLDER, SYSTEM, *LAYERS),
    },
    "__main__": {"cnnpool.cli"},
    "tables": set(),
    "choose": {
        *("numpy", "scipy", "matplotlib", "torch", "annotated_types", "filelock", "pydantic"),
        *(
            "cnnpool.cli_parser",
            "cnnpool.data",
            "cnnpool.launch",
            "cnnpool.probe",
            "cnnpool.published",
            "cnnpool.quantity",
            "cnnpool.registry",
            "cnnpool.report",
        ),
        *(RUN_FOLDER, SYSTEM, TABLES),
    },
    "cli": {"cnnpool"},
    "launch": {
        *("hydra", "omegaconf", "ray", "submitit", "yaml", "torch", "numpy"),
        *(
            "cnnpool.choices",
            "cnnpool.cli_parser",
            "cnnpool.fit",
            "cnnpool.loggers",
            "cnnpool.published",
            "cnnpool.training",
            "cnnpool.recipe",
            RUN_FOLDER,
            SYSTEM,
            TABLES,
            *LAYERS,
            *SCHEMA,
            "cnnpool.schema",
        ),
    },
    "cli_parser": set(),
    "completion": {"argcomplete", "yaml", "cnnpool.cli_parser", "cnnpool.launch", "cnnpool.schema"},
    "loggers": SCHEMA,
    "recipe": SCHEMA,
    "json_text": {"pydantic"},
    "run_folder": {
        *("torch", "numpy", "filelock", "annotated_types", "yaml", SYSTEM),
        *("cnnpool.json_text", "cnnpool.quantity"),
    },
    "system": {"torch", "tqdm", "filelock"},
    "lightning": {
        *("torch", "lightning", "torchmetrics", "matplotlib"),
        *("cnnpool.explain", "cnnpool.probe", "cnnpool.surgery"),
    },
    "published": {
        *("torch", "torchvision", "timm", "safetensors", "cnnpool.model", "cnnpool.surgery"),
        *("cnnpool.bounds", "cnnpool.choices", "cnnpool.registry", RUN_FOLDER),
    },
    "surgery": {"torch", "cnnpool.pool", "cnnpool.readout", "cnnpool.registry", *BASES},
    "inspection": {
        *("torch", "torchvision", "timm", "matplotlib", *LAYERS),
        *("cnnpool.explain", "cnnpool.published", "cnnpool.surgery"),
        *("cnnpool.cli_parser", "cnnpool.quantity", "cnnpool.registry", RUN_FOLDER, SYSTEM, TABLES),
    },
    "bounds": {"annotated_types"},
    "quantity": {"cnnpool.json_text"},
    "registry": {"pydantic", "cnnpool.bounds"},
    "schema": SCHEMA,
}
DUMPING_GROUNDS = {"util", "utils", "helper", "helpers", "common", "misc", "tools"}


def room_of(path):
    """``pool`` for ``cnnpool/pool/max.py``, ``cli`` for ``cnnpool/cli.py``."""
    return Path(path).with_suffix("").parts[1]


def imports(path, source):
    """(line, full dotted name) of every import, those inside functions and those by a string included."""
    package = Path(path).parent.parts
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*above, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            yield node.lineno, _named(node.args[0]) if node.args else "a computed name"


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
    allowed = {*ROOMS[room], f"cnnpool.{room}", "cnnpool.__version__"}
    found = [
        f"{path}:{line}: {room} may not import {name}"
        for line, name in imports(path, source)
        if name.split(".")[0] not in sys.stdlib_module_names
        and not any(name == one or name.startswith(one + ".") for one in allowed)
    ]
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    found += [f"{path}:{call.lineno}: print" for call in calls if ast.unparse(call.func) == "print"]
    stems = {part.removesuffix(".py").strip("_") for part in Path(path).parts}
    return found + [f"{path}: {stem} names no idea" for stem in sorted(stems & DUMPING_GROUNDS)]


def package_files():
    return sorted(path.relative_to(ROOT) for path in ROOT.glob("cnnpool/**/*.py"))


def test_files_keep_the_rules_of_their_rooms():
    sources = {path.as_posix(): (ROOT / path).read_text(encoding="utf-8") for path in package_files()}
    assert [breach for path, source in sources.items() for breach in violations(path, source)] == []


BREACHES = {
    "cnnpool/pool/max.py": [
        "from cnnpool.readout.gap import GlobalAvgPool2d",
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
    "cnnpool/model/vgg.py": ["from cnnpool.pool import OPERATORS"],
    "cnnpool/__init__.py": ["import torch"],
}
ALLOWED = {
    "cnnpool/pool/max.py": [
        "import math\nimport torch.nn.functional as F\nfrom torch import Tensor",
        'import_module(f"cnnpool.pool.{device}.{stem}")',
        "from .base import Pool2d\nfrom . import base\nfrom .. import registry",
    ],
    "cnnpool/model/vgg.py": ["from cnnpool.pool.base import Pool2d"],
    "cnnpool/cli.py": ["def train():\n    from cnnpool import report"],
}


def test_breaches_are_found_and_nothing_else():
    for path, lines in BREACHES.items():
        assert all(violations(path, line) for line in lines), path
    for path, lines in ALLOWED.items():
        assert not any(violations(path, line) for line in lines), path
