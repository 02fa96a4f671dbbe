"""Neither a command line nor a folder of configuration names code, and a broken file is named in a line."""

import os
import sys

import pytest
from omegaconf import OmegaConf

from cnnpool.launch import conf_dir
from cnnpool.launch.compose import Request, jobs_of
from cnnpool.launch.config import NEEDED, refuse_code, resolve
from cnnpool.launch.overrides import parse

REFUSED = [
    "hydra.searchpath=[file:///tmp]", "hydra/job_logging=default",
    "hydra.job_logging.handlers.file.class=os.system", "+hydra.callbacks={mine:{_target_:os.system}}",
    "++hydra.callbacks.mine._target_=os.system", "~hydra.callbacks",
    "hydra={callbacks:{mine:{_target_:os.system}}}", "+pool@hydra.callbacks.x=max",
    "hydra/job_logging@hydra.x=default", "+pool._target_=os.system", "+pool={_target_:os.system}",
    "++probe.x={y:[{_target_:os.system}]}", "hydra.sweeper._target_=os.system",
    "hydra.sweeper.custom_search_space=os.system", "+hydra.launcher={_target_:os.system}",
    "+hydra.job.env_set.PATH=x"
]  # fmt: skip


def test_no_argument_names_code(call, tmp_path):
    said = ("cannot name code", "a choice is made by its name")
    for argument in REFUSED:
        err = call.refused(*call.quick, argument)
        assert any(map(err.__contains__, said)), err
    assert not list(tmp_path.rglob("*"))


HARM = "{_target_: harm.run}"
EXPERIMENT, POOL = "experiment/evil.yaml", "pool/evil.yaml"
FILES = {
    # The content of a file, and the key that is named. Each file is chosen.
    EXPERIMENT: {
        f"hydra:\n  callbacks: {{x: {HARM}}}\n": "hydra.callbacks.x",
        f"data: {{mine: {{x: {HARM}}}}}\nhydra: {{callbacks: '${{data.mine}}'}}\n": "hydra.callbacks",
        "defaults: [{override /hydra/job_logging: stdout}]\n": "hydra/job_logging",
        f"hydra:\n  sweeper: {HARM}\n": "hydra.sweeper._target_",
        "hydra:\n  sweeper: {custom_search_space: harm.run}\n": "hydra.sweeper.custom_search_space",
        "hydra:\n  searchpath: [pkg://harm]\n": "hydra.searchpath",
        "x: {searchpath: ['pkg://harm']}\nhydra: ${x}\n": "hydra: of Hydra's settings only",
    },
    POOL: {
        "# @package hydra.callbacks.x\nname: max\n": "pool is missing",
        "defaults:\n  - max@_global_.hydra.callbacks.x\nname: max\n": "hydra.callbacks.x",
        "name: max\n_target_: harm.run\n": "pool._target_",
        "name: max\nties: [{_partial_: true}]\n": "_partial_",
    },
}
CHOSEN = {EXPERIMENT: "experiment=evil", POOL: "pool=evil"}


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


def write(folder, name, text):
    path = folder / "mine" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", FILES)
def test_no_file_of_a_configuration_folder_names_code(name, call, tmp_path, harm):
    for text, said in FILES[name].items():
        path = write(tmp_path, name, "# @package _global_\n" * (name == EXPERIMENT) + text)
        assert said in call.refused("-cd", "mine", *call.quick, CHOSEN[name])
        path.unlink()
    assert not harm.exists() and not (tmp_path / "outputs").exists()


@pytest.mark.parametrize("key", ["+hydra.callbacks.x._target_", "pool._target_"])
def test_no_sweep_of_a_configuration_folder_names_code(key, call, tmp_path, harm):
    text = f"# @package _global_\nhydra: {{sweeper: {{params: {{'{key}': harm.run}}}}}}\n"
    write(tmp_path, EXPERIMENT, text)
    assert key.lstrip("+") in call.refused("-m", "--config-dir", "mine", "experiment=evil", *call.quick)
    assert not harm.exists() and not (tmp_path / "outputs").exists()


def test_a_folder_may_bring_choices_experiments_and_sweeps(tmp_path):
    text = "hydra: {sweep: {dir: there}, sweeper: {params: {seed: '0,1', pool: 'max,avg'}}}\n"
    write(tmp_path, "experiment/own.yaml", f"# @package _global_\n{text}")
    jobs = jobs_of(Request(["experiment=own"], multirun=True, config_dir=tmp_path / "mine"))
    assert len(jobs) == 4 and all(job.folder.is_relative_to(tmp_path / "there") for job in jobs)


def test_no_secret_is_a_setting(call, tmp_path, monkeypatch):
    path = write(tmp_path, "pool/mine.yaml", "name: max\napi_key: s3cr3t\n")
    for words in (
        ["--config-dir", "mine", "pool=mine"],
        ["+pool={token: s3cr3t}"],
        ["+data.password=s3cr3t"],
        ["-m", "+pool.token=s3cr3t,s3cr3t"],
    ):
        err = call.refused(*words, *call.quick)
        assert "settings are saved with the run" in err and "s3cr3t" not in err
    # How many tokens a network of a script's own has is none, nor is a word of an ordinary variable.
    monkeypatch.setenv("SOME_IMPLICIT_TOKEN", "false")
    own = {key: {"num_tokens": 4, "cls_token": True, "max_tokens": None} for key in NEEDED}
    refuse_code(own)
    assert resolve(OmegaConf.create(own)) == own
    for words in (["+pool.num_tokens=4"], ["+pool.num_tokens=4,8"], ["+pool.cls_token=true"]):
        parse(words)
    with pytest.raises(ValueError, match=r"^pool\.num_tokens: .* secret"):
        parse(["+pool.num_tokens=s3cr3t"])
    assert [p for p in tmp_path.rglob("*") if p.is_file() and "s3cr3t" in p.read_text()] == [path]


UNREADABLE = {
    "pool/mine.yaml": {
        "name: max\n\tk: 2": "is not valid YAML",
        "[" * 1000 + "]" * 1000: "is not valid YAML",
        "name: max\nname: avg": "duplicate key",
        "name: max\n1: 2": "not 1",
        "name: max\nwhen: 2020-01-01": "when",
        "name: max\nraw: !!binary aGFybQ==": "pool.raw",
        "name: max\ncode: !!python/object/apply:os.system [touch done]": "mine.yaml",
        "- a list": "pool holds options by name",
        "defaults: [nope]\nname: max": "nope",
        "defaults: [{/data: mnist}]": "pool.name=None is not a name",
        "defaults: no": "defaults",
    },
    "pool/max.yaml": {"name: avg": "there is a pool/max already"},
    "train.yaml": {"seed: 1": "there is a train already"},
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_file_that_cannot_be_meant_is_named_in_one_line(name, call, tmp_path):
    pool = ["pool=mine"] if name == "pool/mine.yaml" else []
    for text, said in UNREADABLE[name].items():
        write(tmp_path, name, text)
        err = call.refused("--config-dir", "mine", *pool, *call.quick)
        assert said in err and len(err) < 600 and "Traceback" not in err
    assert not (tmp_path / "outputs").exists() and not (tmp_path / "done").exists()


def test_a_copy_of_our_own_configuration_and_a_folder_that_contains_itself_do_no_harm(call, tmp_path):
    (tmp_path / "ours").symlink_to(conf_dir())
    assert call("train", "--config-dir", "ours", "--cfg", "job")[0] == 0
    write(tmp_path, "pool/wide.yaml", "name: avg\nkernel_size: ${seed}\n")
    os.symlink(tmp_path / "mine", tmp_path / "mine" / "pool" / "again")
    status, out, _ = call("train", "-cd", "mine", "pool=wide", "seed=4", "--cfg", "job", "--resolve")
    assert status == 0 and "kernel_size: 4" in out


WORDS = {
    "pool=\x1b[31mred": "control characters", "out='a\nb'": "a setting is one line",
    f"pool={'a' * 300}": "no pool/aaa", "data.limit=" + "{a:" * 1000: "expected KEY=VALUE",
    "out=[a,b]": "out=['a', 'b']: not the name of a folder",
    "out={a:b}": "out={'a': 'b'}: not the name of a folder",
    "+pool.x='" + "${" * 300 + "a" + "}" * 300 + "'": "references are nested too deep",
    "hydra.job.chdir=true": "jobs run where the command is typed",
    "probe.gradient=null": "leave it out by ~probe.gradient",
    "probe.gradient=3": "leave it out by ~probe.gradient"
}  # fmt: skip


def test_words_that_cannot_be_meant_are_refused_in_a_short_line_that_a_terminal_can_show(call):
    for word, said in WORDS.items():
        status, out, err = call("train", *call.quick, "probe=default", word)
        assert status == 2 and not out and err.count("\n") == 1 and len(err) < 1000, err
        assert said in err and err[:-1].isprintable()


def test_the_address_of_a_cluster_comes_from_no_file(tmp_path):
    text = "defaults: [{override /launch: ray}]\nlaunch: {address: 'ray://evil:10001'}\n"
    path = write(tmp_path, "experiment/paper.yaml", f"# @package _global_\n{text}")
    for words, multirun in ((["experiment=paper"], False), (["experiment=paper", "seed=0,1"], True)):
        with pytest.raises(ValueError, match=r"^launch\.address=ray://evil:10001: .* from the command line"):
            jobs_of(Request(words, multirun, tmp_path / "mine"))
    path.write_text("# @package _global_\nhydra: {sweeper: {params: {launch.address: 'evil:1'}}}\n")
    with pytest.raises(ValueError, match=r"^launch\.address=evil:1: "):
        jobs_of(Request(["experiment=paper", "launch=ray"], True, tmp_path / "mine"))
    (job,) = jobs_of(Request(["launch=ray", "launch.address=ours:6379"]))
    assert job.settings["launch"]["address"] == "ours:6379"


def test_a_file_may_read_the_environment_but_no_secret_is_saved(call, tmp_path, monkeypatch):
    monkeypatch.setenv("MY_TIES", "last")
    monkeypatch.setenv("MY_TOKEN", "s3cr3t")
    path = write(tmp_path, "pool/mine.yaml", "name: max\nties: ${oc.env:MY_TIES}\n")
    (job,) = jobs_of(Request(["pool=mine"], config_dir=tmp_path / "mine"))
    assert job.settings["pool"] == {"name": "max", "ties": "last"}
    for name in ("${oc.env:MY_TOKEN}", '"${\\x6fc.env:MY_TOKEN}"', "a-${oc.decode:${oc.env:MY_TOKEN}}"):
        path.write_text(f"name: max\nties: {name}\n")
        status, out, err = call("train", "--config-dir", "mine", "pool=mine", *call.quick)
        assert status == 2 and "the environment variable MY_TOKEN" in err and err.count("\n") == 1, err
        assert "s3cr3t" not in out + err
    assert not (tmp_path / "outputs").exists()


def test_a_bad_file_harms_only_the_commands_that_use_it(call, tmp_path):
    write(tmp_path, "pool/bad.yaml", "name: [")
    write(tmp_path, "pool/max.yaml", "name: avg")
    write(tmp_path, "experiment/loud.yaml", "# @package _global_\nhydra: {verbose: true}\n")
    write(tmp_path, "pool/good.yaml", "name: avg\n")
    write(tmp_path, "pool/worse.yaml", "defaults: [bad]\n")
    assert call("train", "-cd", "mine", "pool=good", "--cfg", "job")[0] == 0
    for words, said in ((["pool=bad"], "bad.yaml"), ([], "max.yaml"), (["pool=worse"], "bad.yaml"),
                        (["pool=good", "experiment=loud"], "hydra.verbose")):  # fmt: skip
        assert said in call.refused("-cd", "mine", *words, "--cfg", "job")


HARMFUL = "gpu\\ntouch harm #"
"""As YAML writes it between quotes: sbatch takes what follows the end of the line for a command."""


@pytest.mark.parametrize("setting", ["partition", "out"])
def test_no_file_adds_a_line_to_the_script_of_a_job(call, tmp_path, setting):
    own = f'out: "{HARMFUL}"' if setting == "out" else f'launch: {{{setting}: "{HARMFUL}"}}'
    text = f"# @package _global_\ndefaults: [{{override /launch: slurm}}]\n{own}\n"
    write(tmp_path, "experiment/paper.yaml", text)
    err = call.refused("--config-dir", "mine", "experiment=paper", *call.quick)
    assert setting in err and "a setting is one line" in err
    assert not (tmp_path / "harm").exists() and not (tmp_path / "outputs").exists()
