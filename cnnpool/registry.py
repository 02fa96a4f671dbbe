"""From a name to an object: one explicit table per group; the signature is the schema of the options."""

import difflib
import logging
import math
import operator
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, wraps
from importlib.metadata import EntryPoint, entry_points
from inspect import Parameter, isclass, signature
from typing import Any, TypeVar, get_type_hints

from cnnpool.bounds import choices, describe

log = logging.getLogger(__name__)

Class = TypeVar("Class", bound=type)
Entry = TypeVar("Entry", bound=Callable[..., Any])
Made = TypeVar("Made")
_given: dict[str, dict[str, Any]] = {}  # By group and name, of this process
PLAIN = (str, int, float, tuple, list, dict, types.NoneType)  # Types of values in a configuration
GIVEN = {"networks": "model", "operators": "pool", "readouts": "readout"}  # A script's own by keyword
KEEP = "keep"  # Keeps the operator or readout of a published network


@dataclass(frozen=True)
class Option:
    """An option of an entry that a configuration may set: type and bounds, default, and a sentence on it."""

    hint: Any
    default: Any = Parameter.empty
    text: str = ""

    @cached_property
    def words(self) -> str:
        return describe(self.hint)

    @cached_property
    def choices(self) -> tuple[str, ...]:
        """The legal values as written on the command line, if they can be listed."""
        return choices(self.hint)

    def validate(self, key: str, value: Any) -> Any:
        """``value``, checked, lists as tuples; a ValueError of one line names ``key`` and both.

        Booleans are no numbers, NaN is refused; a float may be a whole number, or the text ``inf`` of JSON.
        """
        from pydantic import ValidationError

        plain = _plain(value)
        # A list of one is its number, as in torch.
        alone = plain if isinstance(plain, tuple) and len(plain) == 1 else ()
        for candidate in (plain, math.inf) if plain == "inf" else (plain, *alone, value):
            try:
                taken = self._adapter.validate_python(candidate)
            except ValidationError:
                continue
            # pydantic compares choices by ==, and True == 1.
            if type(taken) in (type(candidate), float) and taken == taken:
                return taken
        shown = repr(value)
        shown = shown if len(shown) <= 100 else f"{shown[:97]}..."
        raise ValueError(f"{key} must be {self.words}, got {shown}")

    @cached_property
    def _adapter(self) -> Any:
        # Imported here: importing pydantic takes as long as printing a command's help.
        from pydantic import ConfigDict, TypeAdapter

        return TypeAdapter(self.hint, config=ConfigDict(strict=True, arbitrary_types_allowed=True))


def offer(table: Mapping[str, Entry], group: str, entry: Entry, taken: Iterable[str] = ()) -> str:
    """Make a class or function known in this process, as if a package brought it, and return its name.

    That is its own name, or that of the same entry in ``table``; a ValueError if another there, or one of
    ``taken``, has that name.
    """
    for name, one in table.items():
        if one is entry:
            return name
    name = getattr(entry, "__name__", "")
    if not name.isidentifier():
        kind = type(entry).__name__
        raise ValueError(f"this {kind} has no name: give a class, or a function defined by def")
    if name in (*table, *taken):
        raise ValueError(f"{name} is the name of another of the {group}: give yours another name")
    _given.setdefault(group, {})[name] = entry
    return name


def lookup(table: Mapping[str, Entry], group: str, name: str) -> Entry:
    """The class or function called ``name``: a built-in one, else an installed package's entry point.

    Of that the value, ``package.module:function``, is a name too.
    """
    if name in table:
        return table[name]
    if name in _given.get(group, {}):
        given: Entry = _given[group][name]
        return given
    foreign = _foreign(f"cnnpool.{group}")
    if point := foreign.get(name) or next((one for one in foreign.values() if one.value == name), None):
        entry: Entry = _loaded(point)
        return entry
    known = names(table, group)
    near = did_you_mean(name, known) if table or known else "no installed package brings any"
    raise ValueError(f"no {group[:-1]} named {name!r}; {near}{of_ones_own(group, name, known)}")


def of_ones_own(group: str, name: str, known: Iterable[str]) -> str:
    """How code of one's own gets a name, unless ``name`` resembles one that is ``known``."""
    if group not in GIVEN or nearest(name, known):
        return ""
    place = name.replace(".py:", ":") if ":" in name else "MODULE:NAME"
    return (
        f' (your own needs an installed package with [project.entry-points."cnnpool.{group}"] '
        f'mine = "{place}"; in Python cnnpool.train and cnnpool.load take {GIVEN[group]}=)'
    )


def entries(table: Mapping[str, Entry], group: str) -> dict[str, Entry]:
    """Every class or function of a group by name; those of packages that cannot be imported only warn."""
    found: dict[str, Entry] = {}
    for name, point in _foreign(f"cnnpool.{group}").items():
        try:
            found[name] = _loaded(point)
        except ValueError as error:
            log.warning("%s", error)
    return found | _given.get(group, {}) | dict(table)


def names(table: Mapping[str, Callable[..., Any]], group: str) -> list[str]:
    return list(dict.fromkeys([*table, *_given.get(group, ()), *_foreign(f"cnnpool.{group}")]))


def construct(
    table: Mapping[str, Callable[..., Made]], group: str, name: str, /, *args: Any, **options: Any
) -> Made:
    """Call the entry ``name`` with ``options``, checked against its keyword-only parameters, once."""
    entry = lookup(table, group, name)
    return entry(*args, **for_call(entry, name, options))


def for_call(entry: Callable[..., Any], name: str, options: Mapping[str, Any]) -> Mapping[str, Any]:
    """``options`` with which to call ``entry``, checked once: here, or their values by its constructor."""
    if not getattr(entry, "checks_options", False):
        return check(entry, name, options)
    for key in options:
        refuse_unknown(key, options_of(entry), name)
    return options


def options_of(entry: Callable[..., Any]) -> Mapping[str, Option]:
    """The keyword-only parameters of ``entry`` by name: the options that a configuration may set."""
    return _options_of(entry)


def options_after(entry: Callable[..., Any], first: int) -> Mapping[str, Option]:
    """The parameters of somebody's function after the ``first`` ones that have a plain default, or none."""
    found = _options_of(entry, (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY))
    rest = list(found.items())[first:]
    return {key: one for key, one in rest if one.default is Parameter.empty or isinstance(one.default, PLAIN)}


@cache
def _options_of(
    entry: Callable[..., Any], kinds: tuple[Any, ...] = (Parameter.KEYWORD_ONLY,)
) -> Mapping[str, Option]:
    hints = get_type_hints(entry.__init__ if isclass(entry) else entry, include_extras=True)
    parameters = signature(entry).parameters.values()
    found = {p.name: Option(hints.get(p.name, Any), p.default) for p in parameters if p.kind in kinds}
    return types.MappingProxyType(found)


def check(
    entry: Callable[..., Any], name: str, options: Mapping[str, Any], path: str | None = None
) -> dict[str, Any]:
    """``options`` with lists turned into tuples, each checked by the signature; ``path`` is for messages."""
    return check_options(options_of(entry), name, options, path)


def check_options(
    known: Mapping[str, Option], name: str, options: Mapping[str, Any], path: str | None = None
) -> dict[str, Any]:
    checked = {}
    for key, value in options.items():
        refuse_unknown(key, known, name, "" if path is None else f"{path}.{key}: ")
        where = f"{name}: {key}" if path is None else f"{path}.{key}"
        checked[key] = known[key].validate(where, value)
    return checked


def refuse_unknown(key: str, known: Collection[str], name: str, where: str = "") -> None:
    if key not in known:
        raise ValueError(f"{where}{name} has no option {key!r}; {did_you_mean(key, known)}")


def check_fields(instance: Any, path: str) -> None:
    """Check the fields of a dataclass that says ``checks_options``; to be called in ``__post_init__``."""
    for key, value in check(type(instance), path, vars(instance), path).items():
        object.__setattr__(instance, key, value)


def checked(entry: Class) -> Class:
    """Make the constructor of a class check its keyword-only arguments by type and bounds."""
    construct_unchecked = vars(entry).get("__init__")
    if construct_unchecked is None:
        return entry

    @wraps(construct_unchecked)
    def __init__(self: Any, *args: Any, **options: Any) -> None:
        known = options_of(entry)
        taken = {
            key: known[key].validate(key, value) if key in known else value for key, value in options.items()
        }
        construct_unchecked(self, *args, **taken)

    entry.__init__, entry.checks_options = __init__, True  # type: ignore[misc,attr-defined]
    return entry


MOST = 8  # Largest number of suggestions for an unknown word


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The nearest ``known`` word, also by a part of a dotted key, else all, or the first eight of many."""
    known = sorted(known)
    near = nearest(word, known) or [key for key in known if word in key.split(".")]
    # MaxPool2d is max.
    near = near or [key for key in known if len(key) > 2 and word.lower().startswith(key)]
    if near:
        return f"did you mean {near[0]!r}?"
    if len(known) > MOST:
        first = dict.fromkeys([*difflib.get_close_matches(word, known, n=MOST, cutoff=0.4), *known])
        return f"choose from {', '.join(list(first)[:MOST])}, ... ({len(known)} in all)"
    return f"choose from {', '.join(known)}" if known else "it takes none"


def nearest(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> list[str]:
    """The closest match of ``word`` in ``known``, if there is one, ignoring case."""
    lowered = {one.lower(): one for one in known}
    return [lowered[one] for one in difflib.get_close_matches(word.lower(), lowered, n=1, cutoff=cutoff)]


def _plain(value: Any) -> Any:
    """Sequences, such as OmegaConf's lists, as tuples; what stands for an integer, as numpy's do, as one."""
    if value is None or isinstance(value, str | bytes | int | float):
        return value
    if isinstance(value, Sequence):
        return tuple(map(_plain, value))
    try:
        return operator.index(value)
    except (TypeError, RuntimeError):
        return value


def _loaded(point: EntryPoint) -> Any:
    """The class or function of an entry point; a ValueError names the package if it cannot be imported."""
    try:
        return point.load()
    except Exception as error:
        package = f" of the package {point.dist.name}" if point.dist else ""
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise ValueError(
            f"{point.name} ({point.value}){package} cannot be imported: {reason}; fix or remove that package"
        ) from error


@cache
def _foreign(group: str) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=group)}
