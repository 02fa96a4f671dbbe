"""Puts ``schema.json`` into a wheel or source archive: the first command then has it without importing torch.

Where torch cannot be imported, as in the environments that pip makes to build, that of the checkout or source
archive is taken; without one the first command writes it. An editable installation leaves it in the checkout.
"""

import subprocess
import sys
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FIND = "from cnnpool import schema; print(schema.file() or '')"


class SchemaHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        found = subprocess.run([sys.executable, "-c", FIND], cwd=self.root, capture_output=True, text=True)
        path = found.stdout.strip()
        if path and version != "editable":
            build_data["force_include"][path] = "cnnpool/schema.json"
