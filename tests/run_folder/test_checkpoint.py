import os
import pickle
import zipfile

import pytest
import torch

from cnnpool.run_folder.checkpoint import load, save
from cnnpool.run_folder.errors import DamagedError, LostError


class Harm:
    def __reduce__(self):
        return os.system, ("touch harm",)


def write(path):
    save(path, {"weights": torch.arange(5000.0), "step": 3})
    return path


def test_what_is_saved_is_loaded_and_nothing_else_is_left(tmp_path):
    content = load(write(tmp_path / "folder" / "a.ckpt"))
    assert content["step"] == 3 and torch.equal(content["weights"], torch.arange(5000.0))
    assert [p.name for p in (tmp_path / "folder").iterdir()] == ["a.ckpt"]


def test_no_flipped_bit_changes_what_is_read(tmp_path):
    path = write(tmp_path / "a.ckpt")
    whole = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        begin = 8 * archive.start_dir
    generator, end = torch.Generator().manual_seed(0), 8 * len(whole)
    anywhere = torch.randint(end, (60,), generator=generator).tolist()
    # The archive's directory is a small part, and its bits decide most.
    accepted = []
    for bit in anywhere + torch.randint(begin, end, (300,), generator=generator).tolist():
        altered = bytearray(whole)
        altered[bit // 8] ^= 1 << bit % 8
        path.write_bytes(altered)
        try:
            content = load(path)
        except DamagedError:
            continue
        if not torch.equal(content["weights"], torch.arange(5000.0)) or content["step"] != 3:
            accepted.append((bit // 8, bit % 8))
    assert accepted == []


def test_a_tensor_marked_as_a_folder_is_refused(tmp_path):
    """torch would give uninitialised memory for it."""
    path = write(tmp_path / "a.ckpt")
    whole = bytearray(path.read_bytes())
    place = whole.rindex(b"archive/data/0") - 8  # external attributes, before the header's place and the name
    whole[place] |= 0x10
    path.write_bytes(whole)
    with pytest.raises(DamagedError, match="data/0 is marked as a folder"):
        load(path)


def test_a_file_that_is_cut_or_missing_is_refused(tmp_path):
    path = write(tmp_path / "a.ckpt")
    whole = path.read_bytes()
    for length in (0, 100, -1):
        path.write_bytes(whole[:length])
        with pytest.raises(DamagedError, match=r"a\.ckpt"):
            load(path)
    path.unlink()
    with pytest.raises(DamagedError, match=r"cannot read the checkpoint .*a\.ckpt: No such file"):
        load(path)


def test_a_pickle_that_runs_code_is_refused_and_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"weights": Harm()}, tmp_path / "a.ckpt")
    (tmp_path / "b.ckpt").write_bytes(pickle.dumps(Harm()))
    for name in ("a.ckpt", "b.ckpt"):
        with pytest.raises(DamagedError):
            load(tmp_path / name)
    assert not (tmp_path / "harm").exists()


def test_a_folder_that_is_gone_is_not_made_again(tmp_path):
    with pytest.raises(LostError, match=r"run was deleted or replaced while its run was running"):
        write(tmp_path / "run" / "checkpoints" / "a.ckpt")
    assert not any(tmp_path.iterdir())
