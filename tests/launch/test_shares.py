from types import SimpleNamespace

import pytest

from cnnpool.launch.run_processes import shares


@pytest.mark.parametrize(
    ("jobs", "devices", "asked", "found"),
    [
        (3, 1, (None, None), (3, 2)),
        (9, 1, (None, None), (8, 1)),
        (9, 2, (None, None), (4, 1)),
        (9, 1, (2, None), (2, 4)),
        (9, 2, (2, None), (2, 2)),
        (9, 1, (2, 3), (2, 3)),
    ],
)
def test_cores_are_shared_out_among_jobs_and_their_devices(monkeypatch, jobs, devices, asked, found):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(8), raising=False)
    assert shares([SimpleNamespace(devices=devices)] * jobs, *asked) == found
