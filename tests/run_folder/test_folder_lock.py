import json
import os
from pathlib import Path

import pytest

from cnnpool.run_folder import layout, status
from cnnpool.run_folder.errors import InUseError, OccupiedError
from cnnpool.run_folder.folder_lock import abandoned, held
from cnnpool.system.atomic import beside


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_folder_is_held_by_one_at_a_time(tmp_path):
    with held(tmp_path / "here"):
        with pytest.raises(InUseError, match="is in use by another process"), held(tmp_path / "here"):
            pass
        status.write(tmp_path / "here", "running")
        with pytest.raises(InUseError, match=f"is in use by pid {os.getpid()}"), held(tmp_path / "here"):
            pass
    with held(tmp_path / "here"):
        pass


def test_a_run_is_abandoned_when_its_process_has_gone_without_a_word(tmp_path):
    status.write(tmp_path, "running")
    # No lock is there: nobody knows.
    assert not abandoned(tmp_path, status.read(tmp_path))
    with held(tmp_path):
        assert not abandoned(tmp_path, status.read(tmp_path))
    assert abandoned(tmp_path, status.read(tmp_path))
    known = json.loads((tmp_path / "status.json").read_text())
    for change in ({"machine": "another"}, {"machine": None}, {"state": "done"}):
        (tmp_path / "status.json").write_text(json.dumps(known | change))
        assert not abandoned(tmp_path, status.read(tmp_path))


def test_only_unfinished_files_of_the_same_run_are_swept(tmp_path):
    one, other = tmp_path / "one", tmp_path / "one" / "other"
    for folder in (one, other):
        (folder / "checkpoints").mkdir(parents=True)
        layout.begin(folder)
    mine = [beside(path, layout.temp_prefix(one)) for path in (one / "a", one / "checkpoints" / "last.ckpt")]
    theirs = [
        beside(other / "checkpoints" / "last.ckpt", layout.temp_prefix(other)),
        one / ".thesis.tex.part",
        one / "checkpoints" / ".last.ckpt.0123456789abcdef-1.part",
        one / "notes" / ".a.part",
    ]
    (one / "notes").mkdir()
    for path in (*mine, *theirs):
        path.write_text("half")
    layout.begin(one)
    assert not any(path.exists() for path in mine)
    assert all(path.exists() for path in theirs)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        *(("thesis.tex", "theirs"), ("metrics.jsonl", ""), (".hydra", None), (".a.part", "")),
        *(("status.json", text) for text in ("[1]", '{"state": "open", "votes": 3}', "")),
    ],
)
def test_a_folder_with_files_of_others_is_refused_and_left_as_it_is(tmp_path, name, content):
    (tmp_path / name).mkdir() if content is None else (tmp_path / name).write_text(content)
    (tmp_path / "train.log").write_text("theirs too")
    with pytest.raises(OccupiedError, match=rf"holds files that no run wrote \({name}\)"), held(tmp_path):
        pass
    assert files(tmp_path) == sorted([name, "train.log"])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        *((".cnnpool", "{}"), ("results.json", "{"), ("checkpoints/last.ckpt", "")),
        ("status.json", '{"state": "failed", "error": "why"}'),
    ],
)
def test_a_folder_of_a_run_may_hold_notes(tmp_path, name, content):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(content)
    (tmp_path / "notes.txt").write_text("mine")
    with held(tmp_path):
        pass
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_home_and_the_whole_disk_are_no_folders_for_a_run(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "home")
    for place in (Path("/"), tmp_path / "home", tmp_path / "link"):
        with pytest.raises(OccupiedError, match="cannot be a run's folder"), held(place):
            pass
    assert files(tmp_path / "home") == []


def test_what_never_began_is_taken_back_and_nothing_else(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "logged").mkdir()
    (tmp_path / "logged" / "train.log").write_text("earlier")
    for folder in (tmp_path / "new" / "deep" / "run", tmp_path / "empty", tmp_path / "logged"):
        with held(folder) as mine:
            layout.begin(folder)
            status.write(folder, "running")
            with (folder / "train.log").open("a") as log:
                log.write("a line")
            mine.undo()
    with pytest.raises(OccupiedError), held(tmp_path / "a" / "b"):
        raise OccupiedError("another run's")
    assert files(tmp_path) == ["empty", "logged", "logged/train.log"]
    assert (tmp_path / "logged" / "train.log").read_text() == "earliera line"


def test_a_run_is_cleared_where_its_folders_are_links(tmp_path):
    run, scratch = tmp_path / "run", tmp_path / "scratch"
    for folder in (run, scratch / "below"):
        folder.mkdir(parents=True)
    layout.begin(run)
    (run / "results.json").touch()
    (scratch / "last.ckpt").touch()
    (run / "checkpoints").symlink_to(scratch)
    (run / ".hydra").mkdir()
    (run / ".hydra" / "config.yaml").touch()
    layout.clear(run)
    assert files(tmp_path) == ["run", "run/.hydra", "run/checkpoints", "scratch", "scratch/below"]
