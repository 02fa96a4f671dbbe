import os

import pytest

from cnnpool.launch.remote import gather
from cnnpool.run_folder.atomic import write_json


@pytest.mark.parametrize("left", ["", "\0\0", '{"state": "runn', "null", "{}"])
def test_a_machine_that_went_down_leaves_a_job_that_ended_without_a_word(left, tmp_path):
    root = tmp_path / "outputs"
    state = {"error": None, "status": 0, "pid": 1}

    def launch():
        for name in ("max", "avg", "blur"):
            (root / name).mkdir(parents=True)
        write_json(root / "avg" / "status.json", {**state, "state": "done", "time": 4e9})
        write_json(root / "blur" / "status.json", {**state, "state": "done", "time": 1e9})
        (root / "max" / "status.json").write_text(left)
        os.utime(root / "max" / "status.json", (4e9, 4e9))

    outcomes, error = gather([f"out={root}"], launch)
    assert error == ""
    assert [(one.run, one.state, one.status) for one in outcomes] == [
        ("avg", "done", 0),
        ("max", "running", 1),
    ]
    assert outcomes[1].said == "ended without a word"
