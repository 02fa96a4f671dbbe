from typing import Literal

import pytest

from cnnpool import registry


class Thing:
    def __init__(
        self,
        channels: int,
        *,
        kernel_size: int | tuple[int, int] = 2,
        scale: float = 1.0,
        mode: Literal["a", "b"] = "a",
        planes: Literal[1, 3] = 3,
        title: str | None = None,
        levels: tuple[int, ...] = (1,),
        flag: bool = False,
    ):
        self.options = {
            "kernel_size": kernel_size,
            "scale": scale,
            "mode": mode,
            "planes": planes,
            "title": title,
            "levels": levels,
            "flag": flag,
        }


TABLE = {"thing": Thing, "other": Thing}


@pytest.mark.parametrize(
    ("key", "value", "kept"),
    [
        ("kernel_size", 3, 3), ("kernel_size", [3, 2], (3, 2)), ("scale", 2, 2), ("scale", 0.5, 0.5),
        ("scale", float("inf"), float("inf")), ("mode", "b", "b"), ("planes", 1, 1), ("title", None, None),
        ("title", "x", "x"), ("levels", [1, 2, 4], (1, 2, 4)), ("flag", True, True),
    ],
)  # fmt: skip
def test_values_that_fit_their_annotation_are_taken(key, value, kept):
    assert registry.construct(TABLE, "things", "thing", 3, **{key: value}).options[key] == kept


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("kernel_size", "3", "'3' is not a whole number or a list of 2"),
        ("kernel_size", 2.0, "2.0 is not a whole number"),
        ("kernel_size", True, "True is not"),
        ("kernel_size", [1, 2, 3], r"\(1, 2, 3\) is not"),
        ("kernel_size", [1, "2"], "is not"),
        ("scale", "x", "'x' is not a number"),
        ("scale", float("nan"), "nan is not a number"),
        ("mode", "c", "'c' is not one of 'a', 'b'"),
        ("planes", True, "True is not one of 1, 3"),
        ("planes", 1.0, "1.0 is not one of 1, 3"),
        ("title", 3, "3 is not a text or null"),
        ("levels", [1, "x"], "is not a list of numbers"),
        ("levels", 3, "3 is not a list"),
        ("flag", 1, "1 is not true or false"),
    ],
)
def test_values_of_another_type_are_refused_by_key_and_value(key, value, said):
    with pytest.raises(ValueError, match=f"thing: {key}=.*{said}" if "=" not in said else said):
        registry.construct(TABLE, "things", "thing", 3, **{key: value})


def test_unknown_names_and_options_are_refused_with_a_suggestion():
    with pytest.raises(ValueError, match="no thing named 'thng'; did you mean 'thing'"):
        registry.lookup(TABLE, "things", "thng")
    with pytest.raises(ValueError, match="no thing named 'zzz'; choose from other, thing"):
        registry.lookup(TABLE, "things", "zzz")
    with pytest.raises(ValueError, match="thing has no option 'kernal_size'; did you mean 'kernel_size'"):
        registry.construct(TABLE, "things", "thing", 3, kernal_size=3)


def test_positional_arguments_are_no_options():
    assert "channels" not in registry.options_of(Thing)
    with pytest.raises(ValueError, match="no option 'channels'"):
        registry.check(Thing, "thing", {"channels": 3})


class Point:
    name = "foreign"

    def __init__(self, loaded):
        self.loaded = loaded

    def load(self):
        return self.loaded


def test_installed_packages_add_names_and_cannot_replace_ours(monkeypatch):
    foreign = Point("theirs")
    own = Point("never")
    own.name = "thing"
    monkeypatch.setattr(
        registry, "entry_points", lambda group: [foreign, own] if group == "cnnpool.things" else []
    )
    registry._foreign.cache_clear()
    try:
        assert registry.lookup(TABLE, "things", "foreign") == "theirs"
        assert registry.lookup(TABLE, "things", "thing") is Thing
    finally:
        registry._foreign.cache_clear()
