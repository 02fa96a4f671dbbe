"""``cnnpool train --help`` says of every key what the signatures and docstrings of the classes say."""

import re
import subprocess
import sys
from typing import Literal

import pytest
import yaml

from cnnpool import data, model, pool, probe, published, readout, registry
from cnnpool.bounds import Count
from cnnpool.launch import conf_dir
from cnnpool.launch.help import CLOSING
from cnnpool.launch.runners import RUNNERS
from cnnpool.launch.signatures import choices, options_of
from cnnpool.recipe import Recipe

TABLES = {
    "data": data.DATASETS,
    "model": {**model.MODELS, **published.PUBLISHED},
    "pool": pool.OPERATORS,
    "readout": readout.READOUTS,
    "probe": probe.PROBES,
    "launch": RUNNERS,
    "fit": {"default": Recipe},
}
ENTRIES = [(room, name) for room, table in TABLES.items() for name in table]


@pytest.mark.parametrize(("room", "name"), ENTRIES)
def test_the_source_is_read_as_python_reads_it(room, name):
    found = options_of(room, name)
    expected = registry.options_of(TABLES[room][name])
    given = {key for key in expected if room != "model" or key not in ("pool", "readout")}
    assert given <= set(found)
    assert {key: found[key].values for key in given} == {key: expected[key].words for key in given}


@pytest.mark.parametrize(("room", "name"), ENTRIES)
def test_there_is_a_sentence_on_every_key(room, name):
    path = conf_dir() / ("probe/full.yaml" if room == "probe" else f"{room}/{name}.yaml")
    keys = yaml.safe_load(path.read_text()) or {}
    keys = keys[name] if room == "probe" else {key: keys[key] for key in keys if key != "defaults"}
    found = options_of(room, name)
    assert [key for key in keys if key != "name" and not found[key].text] == []


def test_help_names_every_choice_and_key_with_its_value_and_range(call):
    status, out, err = call("train", "pool=lp", "pool.p=3", "--help")
    assert (status, err) == (0, "") and out.endswith(CLOSING)
    assert re.search(r"^  pool\.p=3 +power, > 0 .*\n.*\(a number above 0, or inf\)$", out, re.MULTILINE)
    assert re.search(r"^  fit\.optimizer=adamw +adamw, sgd", out, re.MULTILINE)
    assert re.search(
        r"^  seed=0 .*\(whole from 0 to 4,294,967,295\)", out.replace("\n" + " " * 34, " "), re.M
    )
    assert re.search(r"^  data\.root=\S+ +folder of the data", out, re.MULTILINE) and "${" not in out
    assert "pool.dilation" not in out and max(map(len, out.splitlines())) <= 100
    assert "\nsettings (KEY=VALUE) with\n  data=digits model=convnet pool=lp " in out
    keys = re.findall(r"^  ([\w.]+)=", out, re.MULTILINE)
    for name in ("data.root", "model.width", "probe.invariance.presets", "out", "readout.hidden"):
        assert keys.count(name) == 1


def test_help_is_given_without_torch():
    code = (
        "import sys\nfrom cnnpool import cli\ntry: cli.main(['train', '--help'])\nexcept SystemExit: pass\n"
        "sys.exit(bool({'torch', 'numpy', 'lightning', 'pydantic'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_an_installed_choice_has_its_keys_without_a_sentence(call, tmp_path):
    (tmp_path / "mine" / "pool").mkdir(parents=True)
    (tmp_path / "mine" / "pool" / "foreign.yaml").write_text("name: foreign\nfancy: 3\n")
    status, out, _ = call("train", "--config-dir", "mine", "pool=foreign", "--help")
    assert status == 0 and "\n  pool.fancy=3\n" in out and "foreign" in out


@pytest.mark.parametrize(
    ("hint", "listed"),
    [
        (bool, ("true", "false")),
        (Literal["a", "b"], ("a", "b")),
        (Literal["auto"] | bool, ("auto", "true", "false")),
        (Count | None, ("null",)),
        (int, ()),
    ],
)
def test_values_are_listed_where_they_are_few(hint, listed):
    assert choices(hint) == listed


def test_an_example_of_the_bench_stands_on_a_line_of_its_own(call):
    _, out, _ = call("bench", "--help")
    examples = out.partition("examples:\n")[2].splitlines()
    assert len(examples) >= 2 and all(line.startswith("  cnnpool bench") for line in examples)
