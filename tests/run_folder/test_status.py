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
    assert (found.state, found.error, found.status, found.pid) == (
        "failed",
        "the loss became nan",
        1,
        os.getpid(),
    )
    assert before <= found.time <= time.time()
    assert os.listdir(tmp_path) == ["status.json"]


def test_a_status_of_an_earlier_version_is_read(tmp_path):
    (tmp_path / "status.json").write_text('{"state": "failed", "error": "why", "host": "a"}')
    assert status.read(tmp_path) == status.Status("failed", "why")


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"null", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"state": "runn', b"{}", b"\0" * 20,
        *(
            json.dumps({"state": "done", "error": None, "status": 0, "pid": 1, "time": 2.5} | change).encode()
            for change in (
                {"state": None}, {"state": "gone"}, {"state": ["done"]}, {"error": 1}, {"error": {}},
                {"status": "0"}, {"status": True}, {"pid": "x"}, {"pid": 1.5}, {"time": "now"}, {"time": [1]},
                {"machine": 1},
            )
        ),
    ],
)  # fmt: skip
def test_damage_is_one_line_that_names_the_file(tmp_path, content):
    (tmp_path / "status.json").write_bytes(content)
    with pytest.raises(DamagedError, match=r"status\.json is damaged: ") as caught:
        status.read(tmp_path)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300


def test_a_folder_in_its_place_cannot_be_read(tmp_path):
    (tmp_path / "status.json").mkdir()
    with pytest.raises(DamagedError, match="cannot be read: Is a directory"):
        status.read(tmp_path)
