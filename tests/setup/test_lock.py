"""The dependency lock: every file hashed, no release that is known to be bad."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
KNOWN_BAD = {
    "lightning": {"2.6.2", "2.6.3"},  # malware: GHSA-w37p-236h-pfx3
    "pytorch-lightning": {"2.6.2", "2.6.3"},
    "hydra-core": {"1.2.0", *(f"1.3.{n}" for n in range(8))},  # CVE-2026-68508, -106439, -106441
    "torch": {"2.5.0", "2.5.1"},  # CVE-2025-32434: code is run in spite of weights_only
}


def pinned():
    text = (ROOT / "requirements.lock").read_text()
    return re.findall(r"^([\w.-]+)==([^\s;\\]+)(.*(?:\n    .*)*)", text, re.MULTILINE)


def test_every_file_of_every_dependency_is_hashed():
    assert len(pinned()) > 50
    assert [name for name, _, rest in pinned() if "--hash=sha256:" not in rest] == []


def test_nothing_comes_from_anywhere_but_the_index():
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    assert [line for line in lines if "://" in line or line.startswith("-")] == []


def test_no_release_known_to_be_bad_is_locked():
    assert [(name, v) for name, v, _ in pinned() if v in KNOWN_BAD.get(name, ())] == []


def test_it_satisfies_the_project_which_leaves_the_known_bad_out():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    groups = [one for group in project["dependency-groups"].values() for one in group if isinstance(one, str)]
    asked = [*project["project"]["dependencies"], *groups, *project["build-system"]["requires"]]
    locked = {name: version for name, version, _ in pinned()}
    for requirement in map(Requirement, asked):
        name = requirement.name.lower()
        assert locked[name] in requirement.specifier
        assert list(requirement.specifier.filter(KNOWN_BAD.get(name, ()))) == []
