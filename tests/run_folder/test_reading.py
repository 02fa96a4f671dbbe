"""The one reader of files that anybody may have put below a folder of runs."""

from dataclasses import dataclass
from typing import Annotated

import pytest
from annotated_types import Ge

from cnnpool.json_text import validated
from cnnpool.run_folder.errors import DamagedError
from cnnpool.run_folder.reading import read_bytes, read_json, read_yaml


def as_it_is(content):
    return content


def test_a_file_that_is_missing_is_none_and_one_that_cannot_be_read_is_named(tmp_path):
    for read in (read_bytes, read_yaml, lambda path: read_json(path, as_it_is)):
        assert read(tmp_path / "file") is None
        with pytest.raises(DamagedError, match=f"{tmp_path} cannot be read: Is a directory"):
            read(tmp_path)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "Expecting value"),
        (b"\xff", "utf-8"),
        (b"[" * 100_000, "recursion"),
        (b"[NaN]", "a number is not finite: NaN"),
        (b"[1e999]", "a number is not finite: 1e999"),
        (b"[1" + b"0" * 400 + b"]", "an integer has more than 19 digits: 1000"),
    ],
)
def test_json_holds_finite_numbers_of_64_bits_alone(tmp_path, content, why):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(DamagedError, match=r"a\.json is damaged: ") as caught:
        read_json(tmp_path / "a.json", as_it_is)
    assert why in str(caught.value) and len(str(caught.value)) < 300
    (tmp_path / "a.json").write_bytes(b"[1, -9223372036854775808, 2.5]")
    assert read_json(tmp_path / "a.json", as_it_is) == [1, -(2**63), 2.5]


@pytest.mark.parametrize("content", ["[" * 1500, "a: !!python/name:os.system", "a: b: c", "\0"])
def test_yaml_is_plain(tmp_path, content):
    (tmp_path / "a.yaml").write_text(content)
    with pytest.raises(DamagedError, match=r"a\.yaml is damaged: ") as caught:
        read_yaml(tmp_path / "a.yaml")
    assert "\n" not in str(caught.value)
    (tmp_path / "a.yaml").write_text("pool: {name: lp, p: .inf}")
    assert read_yaml(tmp_path / "a.yaml") == {"pool": {"name": "lp", "p": float("inf")}}


@dataclass
class One:
    count: Annotated[int, Ge(0)]
    words: list[str]
    share: float | None = None


def test_a_dataclass_is_made_of_what_its_annotations_allow():
    assert validated(One, {"count": 1, "words": ["a"], "other": 3}) == One(1, ["a"])
    assert validated(One, {"count": 1, "words": [], "share": 2}).share == 2.0


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"count": -1}, "count: Input should be greater than or equal to 0, got '-1'"),
        ({"count": True}, "count: Input should be a valid integer, got 'True'"),
        ({"words": ["a", 1]}, r"words\.1: Input should be a valid string, got '1'"),
        ({"share": "x"}, "share: Input should be a valid number"),
    ],
)
def test_the_first_wrong_field_is_named(change, why):
    with pytest.raises(ValueError, match=why):
        validated(One, {"count": 1, "words": ["a"]} | change)
    with pytest.raises(ValueError, match=r"count: Field required$"):
        validated(One, {"words": []})
    with pytest.raises(ValueError, match="content: Input should be a valid dictionary"):
        validated(One, [1])
