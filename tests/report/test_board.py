from pathlib import Path
from urllib.parse import urlsplit

from cnnpool.report import Run, find, main
from cnnpool.report.board import LINK, root_of
from cnnpool.tensorboard.plugin import NAME


def test_the_link_opens_the_tab_on_this_machine():
    parts = urlsplit(LINK)
    assert (parts.hostname, parts.fragment) == ("localhost", NAME)


def test_compare_names_the_folder_and_the_tab_and_writes_nothing_there(shelf, capsys):
    shelf.sweep(max=[0.9, 0.8], avg=[0.7, 0.6])
    before = {path for path in shelf.root.rglob("*") if path.is_file()}
    assert main([str(shelf.root)]) == 0
    assert f"board: tensorboard --logdir {shelf.root}\n       {LINK}\n" in capsys.readouterr().out
    after = {path for path in shelf.root.rglob("*") if path.is_file()}
    assert {path.parent.name for path in after - before} == {"report"}


def test_no_board_prints_none(shelf, capsys):
    shelf.put()
    assert main([str(shelf.root), "--no-board"]) == 0
    assert "board:" not in capsys.readouterr().out


def test_what_version_0_1_left_goes_and_nothing_else(shelf):
    shelf.sweep(max=[0.9], avg=[0.8])
    means = shelf.root / "_mean"
    for folder in ("max", "avg"):
        (means / folder).mkdir(parents=True)
        (means / folder / "events.out.tfevents.1.2.ab.cnnpool").write_text("")
    (means / "events.out.tfevents.1.2.cd.cnnpool").write_text("")
    others = [means / "events.out.tfevents.1.theirs", means / "avg" / "notes.txt"]
    for path in others:
        path.write_text("")
    assert main([str(shelf.root)]) == 0
    assert sorted(path for path in means.rglob("*") if path.is_file()) == sorted(others)
    assert not (means / "max").exists()


def test_the_folder_of_means_is_never_a_run(shelf):
    shelf.put()
    (shelf.root / "_mean" / "max").mkdir(parents=True)
    (shelf.root / "_mean" / "max" / "metrics.jsonl").write_text("")
    assert [run.folder.name for run in find([shelf.root])] == ["seed0"]


def test_the_common_root_is_below_the_whole_disk_or_nothing(shelf):
    one, other = shelf.put(seed=0), shelf.put(seed=1, pool="avg")
    assert root_of(find([one, other])) == shelf.root.resolve()
    assert root_of(find([one])) == shelf.root.resolve()
    assert root_of(find([shelf.put("loose/run", seed=2)])) == shelf.root.resolve() / "loose"
    found = find([one])[0].found
    far = [Run(Path("/", str(k), "seed0"), "done", found=found) for k in range(2)]
    assert root_of(far) is None
