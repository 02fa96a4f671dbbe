import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_altered_files_are_named_and_the_rest_goes_on():
    command = [sys.executable, "scripts/reliability/fuzz_files.py", "12", "7"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    found = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert found["told"] + found["of no effect"] == found["alterations"] > 8


def test_altered_words_are_fine_or_refused_in_one_line():
    command = [sys.executable, "scripts/reliability/fuzz_configuration.py", "60", "99"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    found = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert found["cases"] == found["fine"] + found["refused"] == 60
