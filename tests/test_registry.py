import inspect
from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import Annotated

import pytest
from annotated_types import Ge
from omegaconf import OmegaConf

from cnnpool import registry

Side = Annotated[int, Ge(1)]


class Thing:
    def __init__(self, channels: int, *, kernel_size: int = 2):
        self.kernel_size = kernel_size


TABLE = {"thing": Thing, "other": Thing}


def test_a_checked_class_refuses_in_its_constructor_and_hands_on_what_fits():
    @registry.checked
    class Strict(Thing):
        def __init__(self, channels: int, *, size: Side | tuple[Side, Side] = 1):
            super().__init__(channels, kernel_size=size)

    for size in ([2, 4], range(2, 6, 2), OmegaConf.create([2, 4])):
        assert Strict(3, size=size).kernel_size == (2, 4)
    assert list(inspect.signature(Strict).parameters) == ["channels", "size"]
    with pytest.raises(ValueError, match=r"^size must be a whole number, at least 1, or two of them, got 0$"):
        Strict(3, size=0)
    for text in ("24", b"24"):
        with pytest.raises(ValueError, match="or two of them, got"):
            Strict(3, size=text)
    with pytest.raises(TypeError, match="'sise'"):
        Strict(3, sise=1)


def test_a_long_list_of_names_is_cut():
    names = [f"name{number}" for number in range(1000)]
    # Nothing is near: the first by the alphabet.
    assert registry.did_you_mean("zzz", names).startswith("choose from name0, name1, name10, ")
    assert registry.did_you_mean("zzz", names).endswith("... (1000 in all)")
    assert registry.did_you_mean("zzz", names[:2]) == "choose from name0, name1"
    assert registry.did_you_mean("zzz", []) == "it takes none"
    assert registry.did_you_mean("MaxPool2d", ["ada", "max", "max_blur"]) == "did you mean 'max'?"
    assert registry.did_you_mean("width", ["model.width.a", "seed"]) == "did you mean 'model.width.a'?"


def test_unknown_names_and_options_are_refused_with_a_suggestion():
    with pytest.raises(ValueError, match="no thing named 'thng'; did you mean 'thing'"):
        registry.lookup(TABLE, "things", "thng")
    with pytest.raises(ValueError, match="no thing named 'zzz'; choose from other, thing"):
        registry.lookup(TABLE, "things", "zzz")
    # A script's own, asked for in another process.
    for group, table, key in (("networks", {}, "model"), ("operators", TABLE, "pool")):
        with pytest.raises(ValueError, match=rf"named 'Sequential'; .* \(.* cnnpool.load take {key}=\)$"):
            registry.lookup(table, group, "Sequential")
    with pytest.raises(ValueError, match=r"no operator named 'thng'; did you mean 'thing'\?$"):
        registry.lookup(TABLE, "operators", "thng")
    with pytest.raises(ValueError, match="thing has no option 'kernal_size'; did you mean 'kernel_size'"):
        registry.construct(TABLE, "things", "thing", 3, kernal_size=3)


def test_installed_packages_add_names_and_cannot_replace_ours(monkeypatch):
    foreign = SimpleNamespace(name="foreign", load=lambda: "theirs")
    own = SimpleNamespace(name="thing", load=lambda: "never")
    installed = {"cnnpool.things": [foreign, own]}
    monkeypatch.setattr(registry, "entry_points", lambda group: installed.get(group, []))
    registry._foreign.cache_clear()
    try:
        assert registry.lookup(TABLE, "things", "foreign") == "theirs"
        assert registry.lookup(TABLE, "things", "thing") is Thing
    finally:
        registry._foreign.cache_clear()


def test_an_entry_point_that_cannot_be_imported_is_one_line_that_names_its_package(monkeypatch, caplog):
    broken = EntryPoint("mine", "no.such.module:MyPool2d", "cnnpool.operators")
    monkeypatch.setattr(registry, "_foreign", lambda group: {"mine": broken})
    said = r"^mine \(no.such.module:MyPool2d\) cannot be imported: ModuleNotF"
    with pytest.raises(ValueError, match=said) as no:
        registry.construct({}, "operators", "mine")
    assert "\n" not in str(no.value)
    # Others go on without it.
    assert registry.entries({"ours": dict}, "operators") == {"ours": dict}
    assert "mine (no.such.module:MyPool2d) cannot be imported" in caplog.text
