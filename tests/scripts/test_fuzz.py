import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_altered_configuration_is_fine_or_refused_in_one_line():
    command = [sys.executable, "scripts/reliability/fuzz_configuration.py", "60", "99"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    found = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert found["cases"] == found["fine"] + found["refused"] == 60


def test_altered_kernels_on_disk_are_found_and_made_again():
    command = [sys.executable, "scripts/reliability/fuzz_kernels.py", "5", "99"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    found = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert found["told"] + found["made again"] + found["read alike"] == found["alterations"] == 5
    assert found["told"] > 0
