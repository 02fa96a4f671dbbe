"""Options are those of signatures and of the files of ``conf``, said by help and kept in ``schema.json``."""

import re
import shutil
import subprocess
import sys
from inspect import Parameter
from pathlib import Path

import pytest
import yaml
from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf

from cnnpool import cli, registry, schema
from cnnpool.launch import conf_dir, names_of
from cnnpool.launch.hydra_compose import opened

ROOT = Path(__file__).parents[1]
GROUPS = pytest.mark.parametrize("group", schema.GROUPS)


@GROUPS
def test_an_option_has_the_type_of_its_parameter_and_a_sentence(group):
    for name, entry in schema.entries(group).items():
        known, expected = schema.options_of(group, name), registry.options_of(entry)
        assert set(known) == set(expected) - set(schema.GROUPS[group].built)
        for key, option in known.items():
            assert option.hint == expected[key].hint and option.words == expected[key].words, (name, key)
            assert option.text, (name, key)


@GROUPS
def test_every_choice_has_its_options_with_their_defaults_and_a_file_what_differs(group):
    with opened():
        store = ConfigStore.instance()
    for name, entry in schema.entries(group).items() if group != "probe" else ():
        stem = name or "default"
        path = conf_dir() / group / f"{stem}.yaml"
        own = yaml.safe_load(path.read_text()) if path.is_file() else {}
        place = f"signature/{group}/{stem}" if own else f"{group}/{stem}"
        content = OmegaConf.to_container(store.load(f"{place}.yaml").node)
        assert not own or own.pop("defaults")[0] == f"/{place}@_here_"
        assert all(key in content and content[key] != value for key, value in own.items())
        assert content.pop("name", name) == name and set(content) == set(schema.options_of(group, name))
        for key, option in registry.options_of(entry).items():
            if key not in schema.GROUPS[group].built:
                value = tuple(content[key]) if isinstance(content[key], list) else content[key]
                assert value == ("???" if option.default is Parameter.empty else option.default)
    if group not in ("fit", "trainer", "probe"):
        assert set(names_of(group)) - {"keep"} == set(schema.names(group))


def test_the_full_choice_of_probes_has_all_their_options():
    for name, entry in schema.entries("probe").items():
        content = yaml.safe_load((conf_dir() / "probe" / "full.yaml").read_text())[name]
        assert set(content) == set(schema.options_of("probe", name)), name
        # Of more images than by default.
        registry.check(entry, name, content)


def test_an_unknown_name_has_no_options():
    with pytest.raises(KeyError, match="nosuch"):
        schema.options_of("pool", "nosuch")
    assert schema.options_of("fit", "smoke") == schema.options_of("fit", "default")


def help_of(capfd, *words):
    """The output of ``cnnpool train ... --help``."""
    with pytest.raises(SystemExit) as stop:
        cli.main(["train", *words, "--help"])
    out, err = capfd.readouterr()
    assert (stop.value.code, err) == (0, "")
    return out


def test_help_names_every_choice_and_key_with_its_value_and_range(tmp_path, capfd):
    out = help_of(capfd, "pool=lp", "pool.p=3")
    assert "(130: Ctrl-C, 143: SIGTERM)\n" in out[-60:]
    assert "1 a run failed, 2 a mistake in what was asked, 128 + the signal" in out
    for room in ("pool", "readout", "model", "data"):
        assert len(found := names_of(room)) > 8 and all(name in out for name in found)
    assert re.search(r"^  pool\.p=3 +power, > 0 .*\n.*\(a number above 0, or inf\)$", out, re.MULTILINE)
    assert re.search(r"^  fit\.optimizer=adamw +adamw, sgd", out, re.MULTILINE)
    joined = out.replace("\n" + " " * 34, " ")
    assert re.search(r"^  seed=0 .*\(whole from 0 to 4,294,967,295\)", joined, re.MULTILINE)
    assert re.search(r"^  data\.root=\S+\s+folder of the data", out, re.MULTILINE) and "${" not in out
    assert "pool.dilation" not in out and max(map(len, out.splitlines())) <= 100
    assert "\nsettings (KEY=VALUE) with\n  data=digits model=convnet pool=lp " in out
    keys = re.findall(r"^  ([\w.]+)=", out, re.MULTILINE)
    for name in ("data.root", "model.width", "probe.invariance.presets", "out", "readout.hidden"):
        assert keys.count(name) == 1
    # An installed package's choice has its keys without a sentence.
    (tmp_path / "mine" / "pool").mkdir(parents=True)
    (tmp_path / "mine" / "pool" / "foreign.yaml").write_text("name: foreign\nfancy: 3\n")
    out = help_of(capfd, "--config-dir", str(tmp_path / "mine"), "pool=foreign")
    assert "\n  pool.fancy=3\n" in out and out.count("foreign") >= 2


def test_help_is_given_without_torch():
    heavy = "{'torch', 'lightning', 'hydra', 'omegaconf', 'numpy', 'matplotlib', 'torchvision', 'sklearn'}"
    code = f"""
import sys
from contextlib import suppress
from cnnpool import cli
for words, heavy in ([], {heavy}), (["train"], {{"torch", "numpy", "lightning", "pydantic"}}):
    with suppress(SystemExit):
        cli.main([*words, "--help"])
    assert not heavy & set(sys.modules)
assert "hydra" in sys.modules
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Times that options were generated, of a package of one file."""
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "pool.py").write_text("kernel_size = 2")
    monkeypatch.setattr(schema, "PACKAGE", tmp_path / "package")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    times = []
    options = {"pool": {"max": {"kernel_size": {"type": "int", "text": "a side", "default": 2}}}}
    monkeypatch.setattr(schema, "generate", lambda: times.append(1) or options)
    return times


read = schema._content.__wrapped__


def test_options_are_generated_once_for_the_same_sources(made):
    in_wheel, beside, at_home = schema.places()
    assert read() == read() == read() and len(made) == 1 and schema.file() == beside
    (schema.PACKAGE / "pool.py").touch()
    assert read() and len(made) == 1
    for path, text in (("pool.py", "kernel_size = 3"), ("blur.py", "")):
        (schema.PACKAGE / path).write_text(text)
        before = len(made)
        assert read() == read() and len(made) == before + 1
    assert not in_wheel.exists() and not at_home.exists()


def test_a_wheels_file_is_read_if_it_is_of_these_sources(made):
    read()
    in_wheel, beside, _ = schema.places()
    beside.rename(in_wheel)
    assert read() and len(made) == 1 and schema.file() == in_wheel
    (schema.PACKAGE / "pool.py").write_text("kernel_size = 3")
    assert read() and len(made) == 2 and schema.file() == beside


def test_a_damaged_file_is_written_anew(made):
    expected, path = read(), schema.file()
    whole = path.read_bytes()
    for content in (b"", whole[:-9], b"[]", b"null", b"\xff", b'{"sources": 1}'):
        path.write_bytes(content)
        made.clear()
        assert read() == read() == expected and len(made) == 1, content
        assert path.read_bytes() == whole
    path.unlink()
    path.mkdir()
    assert read() == expected and schema.file() == schema.places()[-1]


def test_options_are_known_where_nothing_can_be_written(made, tmp_path):
    # Not by permissions, which bind no superuser.
    (schema.PACKAGE / "__pycache__").touch()
    assert read() == read() and len(made) == 1 and schema.file() == schema.places()[-1]
    shutil.rmtree(tmp_path / "home")
    (tmp_path / "home").touch()
    assert read() == read() and len(made) == 3 and schema.file() is None


@pytest.mark.slow
def test_processes_of_a_new_checkout_start_at_once_and_see_changed_signatures_and_own_packages(
    tmp_path, capfd
):
    for folder in ("cnnpool", "conf"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shown = [sys.executable, "-m", "cnnpool", "train", "pool=lp", "--help"]
    begun = [subprocess.Popen(shown, cwd=tmp_path, stdout=-1, stderr=-1, text=True) for _ in range(2)]
    ends = [process.communicate()[0] for process in begun]
    assert ends == [help_of(capfd, "pool=lp")] * 2
    beside = tmp_path / "cnnpool" / "__pycache__"
    assert [path.name for path in beside.iterdir() if path.suffix != ".pyc"] == ["schema.json"]
    (tmp_path / "mine.py").write_text(
        "from cnnpool.pool import MaxPool2d\nclass Mine2d(MaxPool2d):\n"
        "    def __init__(self, channels: int, *, fancy: int = 7): super().__init__(channels)\n"
    )
    about = tmp_path / "mine-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[cnnpool.operators]\nmine = mine:Mine2d\n")
    source = tmp_path / "cnnpool" / "readout" / "whole.py"
    before = "p: AboveZero = 3.0"
    assert before in source.read_text()
    source.write_text(source.read_text().replace(before, "p: AboveZero = 5.0"))
    shown[4:5] = ["pool=mine", "readout=gem"]
    out = subprocess.run(shown, cwd=tmp_path, capture_output=True, text=True).stdout
    assert "  readout.p=5.0 " in out and "  pool.fancy=7" in out
