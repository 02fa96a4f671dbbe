import json
import os
import time

import pytest

from cnnpool.run_folder import status
from cnnpool.run_folder.errors import DamagedError


def test_what_is_written_is_read(tmp_path):
    assert status.read(tmp_path) is None
    before = time.time()
    status.write(tmp_path, "failed", "the loss became nan", 1)
    found = status.read(tmp_path)
    assert (found.state, found.error, found.status) == ("failed", "the loss became nan", 1)
    assert found.pid == os.getpid()
    assert before <= found.time <= time.time()
    assert os.listdir(tmp_path) == ["status.json"]


def test_a_status_of_an_earlier_version_is_read(tmp_path):
    (tmp_path / "status.json").write_text('{"state": "failed", "error": "why", "host": "a"}')
    assert status.read(tmp_path) == status.Status("failed", "why")


def test_damage_is_one_line_that_names_file_and_field(tmp_path):
    content = {"state": "done", "error": None, "status": 0, "pid": 1, "time": 2.5}
    for field, value in {"state": "gone", "error": 1, "status": "0", "time": "now", "machine": 1}.items():
        (tmp_path / "status.json").write_text(json.dumps(content | {field: value}))
        with pytest.raises(DamagedError, match=rf"status\.json is damaged: {field}: ") as caught:
            status.read(tmp_path)
        assert "\n" not in str(caught.value) and len(str(caught.value)) < 300
