import base64
import dataclasses
import hashlib
import json
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cnnpool.run_folder import results
from cnnpool.run_folder.errors import DamagedError
from cnnpool.run_folder.results import Results, packed, unpacked

ONE = Results(
    pool={"name": "max", "kernel_size": 2},
    readout={"name": "gap"},
    model={"name": "convnet"},
    data={"name": "digits", "size": [28, 28]},
    seed=3,
    run="digits/max/seed3",
    stages={"s1": {"name": "max"}},
    overrides=["pool=max"],
    asked={"fit": {"lr": 0.01}},
    deterministic=True,
    data_sha256="0" * 64,
    fit={"epochs": 2},
    precision="32-true",
    epochs=2,
    steps=10,
    measured={
        "test": {"accuracy": 0.9, "loss": 0.25},
        "val": {},
        "gradient": {"s1": {"zero_fraction": 0.75, "winners": [0.5, 0.5]}},
    },
    quantities={"gradient.<stage>.zero_fraction": {"title": "zero gradient"}},
    environment={"torch": "2", "dirty": None},
    finished="2026-01-01T00:00:00+00:00",
)


def path_of(folder):
    return folder / "results.json"


def content_of(folder):
    return json.loads(path_of(folder).read_text())


def test_what_is_written_is_read(tmp_path):
    assert results.read(tmp_path) is None
    assert results.write(tmp_path, ONE) == path_of(tmp_path)
    assert results.read(tmp_path) == ONE
    assert ONE.accuracy == 0.9


def test_printed_they_are_a_line():
    assert repr(ONE) == "<Results of digits/max/seed3, test accuracy 90.00 %; measured: test, val, gradient>"
    assert repr(dataclasses.replace(ONE, run="", measured={})) == "<Results of a run; measured: >"


def test_images_of_ones_own_are_named_by_their_folder():
    for name, root, shown in (
        ("mnist", "data", "mnist"),
        ("image_folder", "photos/cats and dogs/", "image_folder cats and dogs"),
        ("image_folder", ".", "image_folder"),
        ("image_folder", None, "image_folder"),
    ):
        assert dataclasses.replace(ONE, data={"name": name, "root": root}).images_of == shown


def test_infinite_settings_are_words_and_numbers_that_are_not_finite_are_null(tmp_path):
    pool = {"name": "lp", "p": math.inf, "range": (-math.inf, 1.0)}
    measured = {"noise": {"scale": math.nan, "by": {"1": math.inf, "2": [1.0, math.nan]}}}
    results.write(tmp_path, dataclasses.replace(ONE, pool=pool, measured=measured))
    found = results.read(tmp_path)
    assert found.pool == {"name": "lp", "p": "inf", "range": ["-inf", 1.0]}
    assert found.measured == {"noise": {"scale": None, "by": {"1": None, "2": [1.0, None]}}}


def test_a_probe_cannot_take_the_name_of_a_fact(tmp_path):
    for section in ("seed", "schema", "content_sha256", "measured"):
        with pytest.raises(ValueError, match=f"cannot have the section '{section}'"):
            results.write(tmp_path, dataclasses.replace(ONE, measured={section: {}}))
    assert not path_of(tmp_path).exists()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"schema": 2}, "schema 2 where this version reads 1"),
        ({"pool": {}}, "pool has no name"),
        ({"seed": True}, "seed: Input should be a valid integer"),
        ({"seed": 2**32}, "seed: Input should be less than 4294967296"),
        ({"epochs": 1.5}, "epochs: Input should be a valid integer"),
        ({"overrides": [1]}, r"overrides\.0: Input should be a valid string"),
        ({"stages": {"s1": {}}}, "s1 has no name"),
        ({"asked": None}, "asked: Input should be a valid dictionary"),
        ({"correct": {"images": 9, "bits": "gA=="}}, "8 bits for 9 images"),
        ({"test": {"accuracy": None}}, "test.accuracy is None"),
        ({"test": {"accuracy": 7.5}}, "test.accuracy is 7.5, not a number of 0 to 1"),
        ({"val": {"accuracy": -0.1}}, "val.accuracy is -0.1"),
        ({"train": {"loss": "low"}}, "train.loss is 'low'"),
        ({"cost": {"flops": math.inf}}, "a number is not finite"),
        *(({name: ...}, f"{name}: Field required") for name in ("pool", "readout", "model", "data", "seed")),
    ],
)
def test_values_that_cannot_be_are_damage(tmp_path, change, reason):
    results.write(tmp_path, ONE)
    content = {key: value for key, value in (content_of(tmp_path) | change).items() if value is not ...}
    # Also where there is no checksum that would tell.
    for kept in (content, {key: value for key, value in content.items() if key != "content_sha256"}):
        path_of(tmp_path).write_text(json.dumps(kept))
        with pytest.raises(DamagedError, match=rf"results\.json is damaged: .*{reason}"):
            results.read(tmp_path)


def test_another_layout_and_an_earlier_version_s_facts_are_no_damage(tmp_path):
    results.write(tmp_path, ONE)
    content = content_of(tmp_path)
    path_of(tmp_path).write_text(json.dumps(content, indent=7))
    assert results.read(tmp_path) == ONE
    path_of(tmp_path).write_text(json.dumps(content | {"seed": 1}, indent=7))
    with pytest.raises(DamagedError, match="it was altered after it was written"):
        results.read(tmp_path)
    del content["content_sha256"]
    path_of(tmp_path).write_text(json.dumps(content | {"checksum": "0" * 64, "metrics_sha256": "0" * 64}))
    assert results.read(tmp_path) == ONE


def test_the_checksum_is_that_of_all_other_lines(tmp_path):
    results.write(tmp_path, ONE)
    *lines, last, end = path_of(tmp_path).read_text().splitlines()
    body = "\n".join([*lines, end]).replace(",\n}", "\n}")
    assert last == f'  "content_sha256": "{hashlib.sha256(body.encode()).hexdigest()}"'


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_no_altered_byte_is_read_as_something_else(tmp_path, data):
    results.write(tmp_path, ONE)
    content = bytearray(path_of(tmp_path).read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    path_of(tmp_path).write_bytes(content)
    try:
        found = results.read(tmp_path)
    except DamagedError:
        return
    # A space between words, or the name of the checksum itself.
    assert found == ONE


def test_bits_by_hand_and_their_size():
    record = packed(np.array([1, 0, 0, 0, 0, 0, 0, 1, 1], dtype=bool))
    assert record == {"images": 9, "bits": base64.b64encode(bytes([0b10000001, 0b10000000])).decode()}
    assert len(packed(np.ones(10_000, dtype=bool))["bits"]) == 1668


@given(st.lists(st.booleans(), max_size=40))
def test_bits_that_are_packed_are_unpacked(correct):
    found = unpacked(packed(np.array(correct, dtype=bool)))
    assert found.dtype == bool and found.tolist() == correct
