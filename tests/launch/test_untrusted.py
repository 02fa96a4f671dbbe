"""A command line or a folder of others names no code, in whatever spelling."""

import os
import sys

import pytest

from cnnpool.launch import conf_dir
from cnnpool.launch.compose import Request, jobs_of

REFUSED = [
    "hydra.searchpath=[file:///tmp]",
    "hydra/job_logging=default",
    "hydra/launcher=basic",
    "hydra.job_logging.handlers.file.class=os.system",
    "+hydra.callbacks.mine._target_=os.system",
    "+hydra.callbacks={mine:{_target_:os.system}}",
    "++hydra.callbacks.mine._target_=os.system",
    "~hydra.callbacks",
    "hydra={callbacks:{mine:{_target_:os.system}}}",
    "+hydra={callbacks:{mine:{_target_:os.system}}}",
    "+hydra.job_logging.handlers.x={class:os.system}",
    "+pool@hydra.callbacks.x=max",
    "hydra/job_logging@hydra.x=default",
    "+pool._target_=os.system",
    "+pool={_target_:os.system}",
    "++probe.x={y:[{_target_:os.system}]}",
    "hydra.sweeper._target_=os.system",
    "hydra.launcher._target_=os.system",
    "+hydra.job.env_set.PATH=x",
    "hydra.verbose=true",
]


@pytest.mark.parametrize("argument", REFUSED)
def test_no_argument_names_code(call, tmp_path, argument):
    status, _, err = call("train", *call.quick, argument)
    assert status == 2 and err.count("\n") == 1
    said = ("cannot name code", "a choice is made by its name", "launch=NAME says where jobs run")
    assert any(map(err.__contains__, said)), err
    assert not list(tmp_path.rglob("*"))


HARM = "{_target_: harm.run}"
CALLBACKS = f"callbacks: {{x: {HARM}}}"
EXPERIMENT, POOL, PRIMARY = "experiment/evil.yaml", "pool/evil.yaml", "evil.yaml"
FILES = {
    # The content of a file, and the key that is named. Each file is chosen, and a logging group too.
    EXPERIMENT: {
        f"hydra:\n  {CALLBACKS}\n": "hydra.callbacks.x",
        f'"\\x68ydra": {{{CALLBACKS}}}\n': "hydra.callbacks.x",
        'hydra: {job_logging: {x: {"\\x28\\x29": harm.run}}}\n': "hydra.job_logging.x",
        f"data: {{mine: {{x: {HARM}}}}}\nhydra: {{callbacks: '${{data.mine}}'}}\n": "hydra.callbacks",
        "defaults: [{override /hydra/job_logging: stdout}]\n": "hydra/job_logging",
        "defaults: [{override /hydra/launcher: joblib}]\n": "launch=NAME says where jobs run",
        "defaults: [{override /hydra/sweeper: optuna}]\n": "a sweep runs every combination",
        f"hydra: {{launcher: {HARM}}}\n": "launch=NAME says where jobs run",
        "hydra: {job: {env_set: {PATH: x}}}\n": "hydra.job.env_set",
        "hydra: {sweeper: {_target_: harm.run}}\n": "hydra.sweeper._target_",
        "hydra:\n  searchpath: [pkg://harm]\n": "hydra.searchpath",
    },
    POOL: {
        "# @package hydra.callbacks.x\nname: max\n": "pool is missing",
        "defaults:\n  - max@_global_.hydra.callbacks.x\nname: max\n": "hydra.callbacks.x",
        "name: max\n_target_: harm.run\n": "pool._target_",
        'name: max\n"\\x5ftarget_": harm.run\n': "pool._target_",
        "name: max\nties: [{_partial_: true}]\n": "_partial_",
    },
    PRIMARY: {
        "defaults: [train, _self_]\nhydra: {searchpath: [pkg://harm]}\n": "hydra.searchpath",
        "x: {searchpath: ['pkg://harm']}\nhydra: ${x}\n": "hydra: of Hydra's settings only",
        f"defaults: [train, _self_]\nhydra: {{{CALLBACKS}}}\n": "hydra.callbacks.x",
    },
}
CHOSEN = {EXPERIMENT: "experiment=evil", POOL: "pool=evil", PRIMARY: "--config-name=evil"}


@pytest.fixture
def harm(tmp_path, monkeypatch):
    """A module that leaves a file when it is imported or called."""
    done = tmp_path / "done"
    (tmp_path / "harm").mkdir()
    text = f"from pathlib import Path\nPath({str(done)!r}).touch()\ndef run(*a, **k): pass\n"
    (tmp_path / "harm" / "__init__.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield done
    sys.modules.pop("harm", None)


@pytest.mark.parametrize(("name", "text"), [(name, text) for name in FILES for text in FILES[name]])
def test_no_file_of_a_configuration_folder_names_code(name, text, call, tmp_path, harm):
    path = tmp_path / "mine" / name
    path.parent.mkdir(parents=True)
    if name == POOL:
        # Behind a link, which is followed.
        path.parent.rmdir()
        (tmp_path / "real").mkdir()
        path.parent.symlink_to(tmp_path / "real")
    path.write_text("# @package _global_\n" * (name == EXPERIMENT) + text)
    status, _, err = call("train", "-cd", "mine", *call.quick, CHOSEN[name])
    assert status == 2 and FILES[name][text] in err and err.count("\n") == 1, err
    assert not harm.exists() and not (tmp_path / "outputs").exists()


@pytest.mark.parametrize("key", ["+hydra.callbacks.x._target_", "hydra.sweeper.params.seed", "pool._target_"])
def test_no_sweep_of_a_configuration_folder_names_code(key, call, tmp_path, harm):
    path = tmp_path / "mine" / EXPERIMENT
    path.parent.mkdir(parents=True)
    path.write_text(f"# @package _global_\nhydra: {{sweeper: {{params: {{'{key}': harm.run}}}}}}\n")
    status, _, err = call("train", "-m", "--config-dir", "mine", "experiment=evil", *call.quick)
    assert status == 2 and key.lstrip("+") in err and err.count("\n") == 1, err
    assert not harm.exists() and not (tmp_path / "outputs").exists()


def test_a_folder_may_bring_choices_experiments_and_sweeps(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine" / "experiment" / "own.yaml"
    path.parent.mkdir(parents=True)
    text = "hydra: {sweep: {dir: there}, sweeper: {params: {seed: '0,1', pool: 'max,avg'}}}\n"
    path.write_text(f"# @package _global_\n{text}")
    jobs = jobs_of(Request(["experiment=own"], multirun=True, config_dir=tmp_path / "mine"))
    assert len(jobs) == 4 and all(job.folder.is_relative_to(tmp_path / "there") for job in jobs)


@pytest.mark.parametrize("key", ["token", "api_key", "data_password", "client_secret", "credentials"])
def test_no_file_of_a_configuration_folder_holds_a_secret(call, tmp_path, key):
    path = tmp_path / "mine" / "pool" / "mine.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(f"name: max\n{key}: s3cr3t\n")
    status, _, err = call("train", "--config-dir", "mine", "pool=mine", *call.quick)
    assert status == 2 and f"pool.{key}: settings are saved with the run" in err and err.count("\n") == 1
    assert [p for p in tmp_path.rglob("*") if p.is_file() and "s3cr3t" in p.read_text()] == [path]


@pytest.mark.parametrize("override", ["+pool={token: s3cr3t}", "++probe.x=[{password: s3cr3t}]"])
def test_no_secret_hides_in_a_value(call, tmp_path, override):
    status, _, err = call("train", override, *call.quick)
    assert status == 2 and "settings are saved with the run" in err and "s3cr3t" not in err
    assert not list(tmp_path.rglob("*"))


UNREADABLE = {
    "pool/mine.yaml": {
        "name: max\n\tk: 2": "is not valid YAML",
        "[" * 5000 + "]" * 5000: "nested too deep",
        "name: max\nname: avg": "duplicate key",
        "name: max\n1: 2": "not 1",
        "name: max\nwhen: 2020-01-01": "when",
        "name: max\nraw: !!binary aGFybQ==": "pool.raw",
        "name: max\npath: !!python/object/apply:pathlib.Path [x]": "mine.yaml",
        "name: max\ncode: !!python/object/apply:os.system [touch done]": "mine.yaml",
        "- a list": "pool holds options by name",
        "defaults: [nope]\nname: max": "nope",
        "defaults: [{/data: mnist}]": "pool.name=None is not a name",
        "defaults: no": "defaults",
    },
    "pool/max.yaml": {"name: avg": "there is a pool/max already"},
    "train.yaml": {"seed: 1": "there is a train already"},
}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name in UNREADABLE for text in UNREADABLE[name]])
def test_a_file_that_cannot_be_meant_is_named_in_one_line(name, text, call, tmp_path):
    path = tmp_path / "mine" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    pool = ["pool=mine"] if name == "pool/mine.yaml" else []
    status, _, err = call("train", "--config-dir", "mine", *pool, *call.quick)
    assert status == 2 and UNREADABLE[name][text] in err, err
    assert err.count("\n") == 1 and len(err) < 600 and "Traceback" not in err
    assert not (tmp_path / "outputs").exists() and not (tmp_path / "done").exists()


def test_a_choice_whose_file_sets_something_else_is_said_to_be_missing(call, tmp_path):
    """Such as one written for an experiment."""
    (tmp_path / "mine" / "pool").mkdir(parents=True)
    (tmp_path / "mine" / "pool" / "mine.yaml").write_text("# @package _global_\nfit:\n  epochs: 3\n")
    code, _, err = call("train", "--config-dir", str(tmp_path / "mine"), "pool=mine")
    assert code == 2 and err.count("\n") == 1 and "pool is missing" in err and "@package" in err


@pytest.mark.parametrize("word", ["pool=a\nb", "pool=\x1b[31mred", "seed=1\r", "x\u2028y=1"])
def test_a_setting_is_one_line_that_a_terminal_can_show(word, call):
    code, _, err = call("train", word)
    assert code == 2 and err.count("\n") == 1 and err[:-1].isprintable() and "control characters" in err


def test_a_range_among_values_is_refused_in_one_line(call):
    code, _, err = call("train", "-m", "seed=range(0,3),5")
    assert code == 2 and err.count("\n") == 1 and "seed=range(0,3),5" in err and "stands alone" in err


def test_a_copy_of_our_own_configuration_adds_nothing_and_does_no_harm(call, tmp_path):
    from cnnpool.launch import conf_dir

    (tmp_path / "mine").symlink_to(conf_dir())
    assert call("train", "--config-dir", "mine", "--cfg", "job")[0] == 0


def test_folders_that_contain_themselves_are_read_once(call, tmp_path):
    (tmp_path / "mine" / "pool").mkdir(parents=True)
    (tmp_path / "mine" / "pool" / "wide.yaml").write_text("name: avg\nkernel_size: 4\n")
    os.symlink(tmp_path / "mine", tmp_path / "mine" / "pool" / "again")
    assert call("train", "--config-dir", "mine", "pool=wide", "--cfg", "job")[0] == 0


@pytest.mark.parametrize("further", [[], ["--cfg", "job", "--resolve"]])
def test_references_nested_too_deep_are_refused_in_a_line(call, further):
    status, _, err = call("train", *call.quick, "+pool.x='" + "${" * 300 + "a" + "}" * 300 + "'", *further)
    assert status == 2 and err.count("\n") == 1 and "references are nested too deep" in err


@pytest.mark.parametrize(
    ("word", "said"),
    [
        (f"data.limit=[{'1,' * 5000}1]", "longer than 4,096 characters"),
        ("data.limit=" + "[" * 30_000, "longer than 4,096 characters"),
        ("data.limit=" + "{a:" * 1000, "not of the form key=value"),
        (f"pool={'a' * 300}", "no pool/aaa"),
        ("out=[a,b]", "out=['a', 'b']: names no folder"),
        ("out={a:b}", "out={'a': 'b'}: names no folder"),
    ],
)
def test_words_that_are_too_long_or_no_folder_are_refused_in_a_short_line(call, word, said):
    status, out, err = call("train", *call.quick, word)
    assert status == 2 and not out and err.count("\n") == 1 and len(err) < 1000
    assert said in err


def test_a_sweep_into_a_folder_that_cannot_be_known_is_refused_in_a_line(call):
    status, _, err = call("train", "-m", *call.quick, "out=${hydra:searchpath}", "seed=0,1")
    assert status == 2 and err.count("\n") == 1 and "hydra.sweep.dir" in err


def test_a_key_twice_in_the_file_to_begin_with_is_refused_in_a_line(call, tmp_path):
    main = (conf_dir() / "train.yaml").read_text(encoding="utf-8")
    (tmp_path / "own.yaml").write_text(f"seed: [1]\n{main}")
    status, _, err = call("train", "--config-dir", str(tmp_path), "--config-name", "own", "--cfg", "job")
    assert status == 2 and err.count("\n") == 1 and "found duplicate key seed" in err


@pytest.mark.parametrize("word", ["probe.gradient=null", "probe.gradient=3"])
def test_a_probe_without_options_is_refused_in_a_line(call, word):
    status, _, err = call("train", *call.quick, "probe=default", word)
    assert status == 2 and err.count("\n") == 1 and "leave it out by ~probe.gradient" in err


HARMFUL = "gpu\\ntouch harm #"
"""As YAML writes it between quotes: sbatch takes what follows the end of the line for a command."""


@pytest.mark.parametrize("setting", ["partition", "account", "qos", "constraint", "out"])
def test_no_file_adds_a_line_to_the_script_of_a_job(call, tmp_path, setting):
    own = f'out: "{HARMFUL}"' if setting == "out" else f'launch: {{{setting}: "{HARMFUL}"}}'
    path = tmp_path / "mine" / "experiment" / "paper.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(f"# @package _global_\ndefaults: [{{override /launch: slurm}}]\n{own}\n")
    status, _, err = call("train", "--config-dir", "mine", "experiment=paper", *call.quick)
    assert status == 2 and setting in err and "a setting is one line" in err and err.count("\n") == 1
    assert not (tmp_path / "harm").exists() and not (tmp_path / "outputs").exists()


def test_the_address_of_a_cluster_comes_from_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine" / "experiment" / "paper.yaml"
    path.parent.mkdir(parents=True)
    text = "defaults: [{override /launch: ray}]\nlaunch: {address: 'ray://evil:10001'}\n"
    path.write_text(f"# @package _global_\n{text}")
    for words, multirun in ((["experiment=paper"], False), (["experiment=paper", "seed=0,1"], True)):
        with pytest.raises(ValueError, match=r"^launch\.address=ray://evil:10001: .* from the command line"):
            jobs_of(Request(words, multirun, tmp_path / "mine"))
    path.write_text("# @package _global_\nhydra: {sweeper: {params: {launch.address: 'evil:1'}}}\n")
    with pytest.raises(ValueError, match=r"^launch\.address=evil:1: "):
        jobs_of(Request(["experiment=paper", "launch=ray"], True, tmp_path / "mine"))
    (job,) = jobs_of(Request(["launch=ray", "launch.address=ours:6379"]))
    assert job.settings["launch"]["address"] == "ours:6379"


@pytest.mark.parametrize(
    "text",
    [
        "name: max\nties: ${oc.env:TOKEN}\n",
        'name: max\nties: "${\\x6fc.env:TOKEN}"\n',
        "name: max\nx: env\nties: ${oc.${x}:TOKEN}\n",
        "name: max\nx: e\nties: '${oc.decode:\"$${oc.${.x}nv:TOKEN}\"}'\n",
        "defaults: ['${oc.env:TOKEN}']\nname: max\n",
    ],
)
def test_no_file_of_a_configuration_folder_reads_the_environment(text, call, tmp_path, monkeypatch):
    monkeypatch.setenv("TOKEN", "s3cr3t")
    path = tmp_path / "mine" / "pool" / "mine.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    status, out, err = call("train", "--config-dir", "mine", "pool=mine", "--cfg", "job", "--resolve")
    assert status == 2 and "not to the environment" in err and err.count("\n") == 1
    assert "s3cr3t" not in out + err


def test_a_file_of_a_configuration_folder_refers_to_other_keys(call, tmp_path):
    path = tmp_path / "mine" / "pool" / "mine.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("name: max\nkernel_size: ${seed}\n")
    status, out, err = call("train", "-cd", "mine", "pool=mine", "seed=2", "--cfg", "job", "--resolve")
    assert status == 0 and "kernel_size: 2" in out, err
