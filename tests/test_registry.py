import inspect
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Annotated, Literal

import pytest
from annotated_types import Ge

from cnnpool import registry

Side = Annotated[int, Ge(1)]


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
        self.options = {"kernel_size": kernel_size, "scale": scale, "mode": mode, "planes": planes}
        self.options |= {"title": title, "levels": levels, "flag": flag}


TABLE = {"thing": Thing, "other": Thing}


def test_values_that_fit_their_annotation_are_taken():
    for key, value, kept in (
        *(("kernel_size", [3, 2], (3, 2)), ("scale", 2, 2), ("scale", float("inf"), float("inf"))),
        *(("mode", "b", "b"), ("planes", 1, 1), ("title", None, None), ("levels", [1, 2], (1, 2))),
    ):
        assert registry.construct(TABLE, "things", "thing", 3, **{key: value}).options[key] == kept


def test_values_of_another_type_are_refused_by_key_and_value():
    for key, value, said in (
        ("kernel_size", "3", "a whole number, or two of them, got '3'"),
        ("kernel_size", [1, True], r"a whole number, or two of them, got \[1, True\]"),
        ("scale", float("nan"), "a number, got nan"),
        ("scale", 10**400, r"a number, got 10{96}\.\.\."),
        ("mode", "c", "one of a, b, got 'c'"),
        ("planes", True, "one of 1, 3, got True"),
        ("title", 3, "a text, or null, got 3"),
        ("levels", [1, "x"], r"a list, each a whole number, got \[1, 'x'\]"),
        ("flag", 1, "true or false, got 1"),
    ):
        with pytest.raises(ValueError, match=rf"^thing: {key} must be {said}$"):
            registry.construct(TABLE, "things", "thing", 3, **{key: value})
        with pytest.raises(ValueError, match=rf"^pool\.{key} must be {said}$"):
            registry.check(Thing, "thing", {key: value}, "pool")


def test_a_checked_class_refuses_in_its_constructor_and_hands_on_what_fits():
    @registry.checked
    class Strict(Thing):
        def __init__(self, channels: int, *, size: Side | tuple[Side, Side] = 1):
            super().__init__(channels, levels=(size,))

    assert Strict(3, size=[2, 4]).options["levels"] == ((2, 4),)
    assert list(inspect.signature(Strict).parameters) == ["channels", "size"]
    with pytest.raises(ValueError, match=r"^size must be a whole number, at least 1, or two of them, got 0$"):
        Strict(3, size=0)
    with pytest.raises(TypeError, match="'sise'"):
        Strict(3, sise=1)


def test_fields_of_a_dataclass_are_checked_and_their_lists_made_tuples():
    @dataclass(frozen=True, kw_only=True)
    class Fields:
        size: tuple[int, int] = (1, 1)

        def __post_init__(self):
            registry.check_fields(self, "data")

    assert Fields(size=[2, 3]).size == (2, 3)
    with pytest.raises(ValueError, match=r"^data\.size must be a list of 2, each a whole number, got \[2\]$"):
        Fields(size=[2])


def test_a_long_list_of_names_is_cut():
    names = [f"name{number}" for number in range(1000)]
    # Nothing is near: the first by the alphabet.
    assert registry.did_you_mean("zzz", names).startswith("choose from name0, name1, name10, ")
    assert registry.did_you_mean("zzz", names).endswith("... (1000 in all)")
    assert registry.did_you_mean("zzz", names[:2]) == "choose from name0, name1"
    assert registry.did_you_mean("zzz", []) == "it takes none"
    assert registry.did_you_mean("width", ["model.width.a", "seed"]) == "did you mean 'model.width.a'?"


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


def test_an_entry_point_that_cannot_be_imported_is_one_line_that_names_its_package(monkeypatch, caplog):
    broken = EntryPoint("mine", "no.such.module:MyPool2d", "cnnpool.operators")
    monkeypatch.setattr(registry, "_foreign", lambda group: {"mine": broken})
    with pytest.raises(
        ValueError, match=r"^mine \(no.such.module:MyPool2d\) cannot be imported: ModuleNotF"
    ) as no:
        registry.construct({}, "operators", "mine")
    assert "\n" not in str(no.value)
    # Others go on without it.
    assert registry.entries({"ours": dict}, "operators") == {"ours": dict}
    assert "mine (no.such.module:MyPool2d) cannot be imported" in caplog.text
