"""From nested results to flat TensorBoard tags."""

from collections.abc import Iterable, Mapping
from typing import Any

from cnnpool.quantity import Quantity, find, numbers


def scalars(quantities: Iterable[Quantity], results: Mapping[str, Any]) -> dict[str, float]:
    """Every number of ``results`` that one of ``quantities`` describes, by tag, ``section/quantity/where``.

    ``gradient/zero_fraction/<stage>``, ``gradient/before_activation/zero_fraction/<stage>``,
    ``invariance/relative_change_1px/<stage>``, ``invariance/consistency/<preset>``, ``cost/parameters``, and
    so on. Numbers that were set rather than measured have no quantity, so no tag.

    Args:
        quantities: with keys from the top of ``results``.
        results: section -> the result of a probe.
    """
    quantities = list(quantities)
    tags = {}
    for key, value in numbers(results):
        one = find(quantities, key)
        if one is not None and value is not None:
            tags[one.tag_of(key)] = value
    return tags
