"""The committed schema is that of the signatures, and of the files of ``conf``; help says what it says."""

import json
import re
import subprocess
import sys
from inspect import Parameter

import pytest
import yaml
from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf

from cnnpool import registry, schema
from cnnpool.launch import conf_dir, names_of
from cnnpool.launch.hydra_compose import opened
from scripts.schema import BUILT, entries, generate

GROUPS = pytest.mark.parametrize("group", schema.GROUPS)


def test_the_committed_schema_is_that_of_the_signatures():
    remedy = "run python scripts/schema.py"
    assert json.loads(schema.PATH.read_text(encoding="utf-8")) == generate(), remedy


@GROUPS
def test_an_option_has_the_type_of_its_parameter_and_a_sentence(group):
    for name, entry in entries(group).items():
        known, expected = schema.options_of(group, name), registry.options_of(entry)
        assert set(known) == set(expected) - set(BUILT.get(group, ()))
        for key, option in known.items():
            assert option.hint == expected[key].hint and option.words == expected[key].words, (name, key)
            assert option.text, (name, key)


@GROUPS
def test_every_choice_has_its_options_with_their_defaults_and_a_file_what_differs(group):
    with opened():
        store = ConfigStore.instance()
    for name, entry in entries(group).items() if group != "probe" else ():
        stem = name or "default"
        path = conf_dir() / group / f"{stem}.yaml"
        own = yaml.safe_load(path.read_text()) if path.is_file() else {}
        place = f"signature/{group}/{stem}" if own else f"{group}/{stem}"
        content = OmegaConf.to_container(store.load(f"{place}.yaml").node)
        assert not own or own.pop("defaults")[0] == f"/{place}@_here_"
        assert all(key in content and content[key] != value for key, value in own.items())
        assert content.pop("name", name) == name and set(content) == set(schema.options_of(group, name))
        for key, option in registry.options_of(entry).items():
            if key not in BUILT.get(group, ()):
                value = tuple(content[key]) if isinstance(content[key], list) else content[key]
                assert value == ("???" if option.default is Parameter.empty else option.default)
    if group not in ("fit", "trainer", "probe"):
        assert set(names_of(group)) - {"keep"} == set(schema.names(group))


def test_the_full_choice_of_probes_has_all_their_options():
    for name, entry in entries("probe").items():
        content = yaml.safe_load((conf_dir() / "probe" / "full.yaml").read_text())[name]
        assert set(content) == set(schema.options_of("probe", name)), name
        # Of more images than by default.
        registry.check(entry, name, content)


def test_an_unknown_name_has_no_options():
    with pytest.raises(KeyError, match="nosuch"):
        schema.options_of("pool", "nosuch")
    assert schema.options_of("fit", "smoke") == schema.options_of("fit", "default")


def command(*words, cwd=None):
    return subprocess.run([sys.executable, "-m", "cnnpool", *words], cwd=cwd, capture_output=True, text=True)


def test_help_names_every_choice_and_key_with_its_value_and_range(tmp_path):
    (tmp_path / "mine" / "pool").mkdir(parents=True)
    (tmp_path / "mine" / "pool" / "foreign.yaml").write_text("name: foreign\nfancy: 3\n")
    done = command("train", "pool=lp", "pool.p=3", "--help", cwd=tmp_path)
    out = done.stdout
    assert (done.returncode, done.stderr) == (0, "") and "(130: Ctrl-C, 143: SIGTERM)\n" in out[-60:]
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
    out = command("train", "--config-dir", "mine", "pool=foreign", "--help", cwd=tmp_path).stdout
    assert "\n  pool.fancy=3\n" in out and out.count("foreign") >= 2


def test_help_is_given_without_torch():
    code = (
        "import sys\nfrom cnnpool import cli\ntry: cli.main(['train', '--help'])\nexcept SystemExit: pass\n"
        "sys.exit(bool({'torch', 'numpy', 'lightning', 'pydantic'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0
