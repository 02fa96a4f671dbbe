import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts" / "reliability"


def outcome(script, *arguments):
    command = [sys.executable, str(SCRIPTS / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the script forks")
def test_runs_killed_at_random_instants_go_on_to_the_same_bits():
    found = outcome("kill_test.py", "1")
    assert found["kills"] == 1 and found["runs"] >= 1
    assert found["broken files"] == found["steps lost"] == found["failed restarts"] == found["different"] == 0


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the script forks")
def test_a_sweep_killed_at_random_instants_goes_on_to_the_same_results():
    found = outcome("kill_sweep.py", "1", "processes")
    assert found["kills"] == 1
    assert found["broken files"] == found["failed restarts"] == found["done twice"] == found["different"] == 0
