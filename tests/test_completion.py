"""Completion as bash, zsh and fish ask for it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BASH = """\
eval "$(cnnpool completion bash)"
COMP_TYPE=9; COMP_WORDBREAKS=$' \\t\\n"\\'><=;|&(:'
for COMP_LINE in "$@"; do
  COMP_POINT=${#COMP_LINE}
  _python_argcomplete cnnpool
  printf '%s\\n' "$COMP_LINE: ${COMPREPLY[*]}"
done
"""
POOLS = ["max", "max_aps", "max_blur"]


@pytest.fixture
def shell(tmp_path):
    """A function that runs a script of a shell in a folder with files, and returns the lines it prints."""
    if not (Path(sys.executable).parent / "cnnpool").exists():
        pytest.skip("the command is not installed")
    (tmp_path / "mine" / "pool").mkdir(parents=True)
    (tmp_path / "mine" / "pool" / "wide.yaml").write_text("name: avg\n")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos.txt").touch()
    known = os.environ | {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}

    def run(name, script, *arguments):
        program = shutil.which(name) or pytest.skip(f"{name} is not installed")
        command = [program, "-c", script, *([name] if name == "bash" else []), *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=known, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        return [line.strip() for line in done.stdout.splitlines()]

    return run


LINES = {
    "cnnpool ex": ["explain"], "cnnpool explain ma": POOLS,
    "cnnpool explain readout=g": ["gap", "gem", "gmp"], "cnnpool explain max kern": ["kernel_size="],
    "cnnpool explain max ties=": ["first", "last", "split"], "cnnpool explain readout=gem le": ["learnable="],
    "cnnpool explain pool=bogus hi": [""],
    "cnnpool train -m seed=0,1 pool=avg,ma": ["avg,max", "avg,max_aps", "avg,max_blur"],
    "cnnpool train dat": ["data.", "data="], "cnnpool train fit.optimizer=": ["adamw", "muon", "sgd"],
    "cnnpool train pool@stage.s2=ma": POOLS,
    "cnnpool train probe=full probe.lie.s": ["probe.lie.samples="], "cnnpool train probe.lie.s": [""],
    "cnnpool train data.root=ph": ["photos/"], "cnnpool train --config-dir mine pool=wi": ["wide"],
    "cnnpool compare ph": ["photos/"], "cnnpool probe x --swap max": POOLS,
    "cnnpool completion ": ["bash", "zsh", "fish"]
}  # fmt: skip


def test_bash_completes_a_line(shell):
    found = [f"{line}: {' '.join(expected)}".strip() for line, expected in LINES.items()]
    assert shell("bash", BASH, *LINES) == found


def test_zsh_reads_its_script(shell):
    script = 'autoload -Uz compinit; compinit -u; eval "$(cnnpool completion zsh)"; print ${_comps[cnnpool]}'
    assert shell("zsh", script) == ["_python_argcomplete"]


def test_fish_completes_a_line(shell):
    script = 'cnnpool completion fish | source; complete -C "cnnpool train pool=ma"'
    assert [line.split("\t")[0] for line in shell("fish", script)] == [f"pool={pool}" for pool in POOLS]


def test_a_shell_that_is_not_known_or_missing_is_named():
    for given, said in ((["tcsh"], "tcsh"), ([], "bash|zsh|fish")):
        command = [sys.executable, "-m", "cnnpool", "completion", *given]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1
