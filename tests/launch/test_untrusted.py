import pytest

REFUSED = [
    "hydra.searchpath=[file:///tmp]",
    "hydra/job_logging=default",
    "hydra.job_logging.handlers.file.class=os.system",
    "+hydra.callbacks.mine._target_=os.system",
    "+hydra.job_logging.handlers.x={'()':os.system}",
    "+pool._target_=os.system",
    "hydra.sweeper._target_=os.system",
    "+hydra.job.env_set.PATH=x",
]


@pytest.mark.parametrize("argument", REFUSED)
def test_no_argument_names_code(call, tmp_path, argument):
    status, _, err = call("train", *call.quick, argument)
    assert status == 2 and "cannot name code" in err and err.count("\n") == 1
    assert not list(tmp_path.rglob("*"))


FILES = {
    "hydra/job_logging/evil.yaml": "version: 1\n",
    "experiment/evil.yaml": "hydra:\n  callbacks: {x: {_target_: os.system}}\n",
    "pool/evil.yaml": "# @package hydra.callbacks.x\nname: max\n",
    "pool/worse.yaml": "defaults:\n  - max@hydra.job\nname: max\n",
    "pool/code.yaml": "name: max\n_target_: os.system\n",
    "hydra/callbacks/evil.yaml": "x: {_target_: os.system}\n",
    "experiment/path.yaml": "# @package _global_\nhydra:\n  searchpath: [file:///tmp]\n",
}


@pytest.mark.parametrize("name", FILES)
def test_no_file_of_a_configuration_folder_names_code(call, tmp_path, name):
    path = tmp_path / "mine" / name
    path.parent.mkdir(parents=True)
    path.write_text(FILES[name])
    for option in (["--config-dir", "mine"], ["--config-dir=mine"], ["-cd", "mine"]):
        status, _, err = call("train", *option, *call.quick)
        assert status == 2 and "cannot name code" in err and path.name in err
    assert [p.name for p in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize("key", ["token", "api_key", "data_password", "client_secret", "credentials"])
def test_no_file_of_a_configuration_folder_holds_a_secret(call, tmp_path, key):
    path = tmp_path / "mine" / "pool" / "mine.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(f"name: max\n{key}: s3cr3t\n")
    status, _, err = call("train", "--config-dir", "mine", "pool=mine", *call.quick)
    assert status == 2 and f"pool.{key}: settings are saved with the run" in err and err.count("\n") == 1
    assert [p for p in tmp_path.rglob("*") if p.is_file() and "s3cr3t" in p.read_text()] == [path]
