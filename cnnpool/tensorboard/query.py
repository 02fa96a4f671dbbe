"""The controls of the tab, as they stand in an address."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

METRIC = "test.accuracy"


class Arguments(Protocol):
    """Those of an address: a name may occur more than once."""

    def get(self, name: str) -> str | None:
        """The first value."""

    def getlist(self, name: str) -> list[str]:
        """All values."""


@dataclass(frozen=True)
class Query:
    """Which runs are compared, and how.

    Args:
        folder: below the log folder, whose runs are compared; empty for all.
        by, where, metric, baseline, allow: as of ``cnnpool compare``; empty for its defaults.
    """

    folder: str = ""
    by: tuple[str, ...] = ()
    where: tuple[str, ...] = ()
    metric: str = METRIC
    baseline: str = ""
    allow: tuple[str, ...] = ()


def query(arguments: Arguments) -> Query:
    """The query that the arguments of an address ask."""
    return Query(
        folder=(arguments.get("folder") or "").strip("/"),
        by=_keys(arguments.get("by")),
        where=tuple(filter(None, arguments.getlist("where"))),
        metric=arguments.get("metric") or METRIC,
        baseline=arguments.get("baseline") or "",
        allow=_keys(arguments.get("allow")),
    )


def chosen(arguments: Arguments, name: str, among: Mapping[str, object]) -> str:
    """The value of ``name``, if it is one of ``among``, else the first of these."""
    value = arguments.get(name) or ""
    return value if value in among else next(iter(among))


def _keys(text: str | None) -> tuple[str, ...]:
    return tuple(key.strip() for key in (text or "").split(",") if key.strip())
