import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "kill_test.py"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the script forks")
def test_runs_killed_at_random_instants_go_on_to_the_same_bits():
    done = subprocess.run([sys.executable, str(SCRIPT), "3"], capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["kills"] == 3 and found["runs"] >= 1
    assert found["broken files"] == found["steps lost"] == found["failed restarts"] == found["different"] == 0
