"""An operator as results.json repeats it: its window, and a short name."""

from collections.abc import Callable, Mapping
from typing import Any

from cnnpool.report.runs import Run, is_number

Operator = Mapping[str, Any]


def square(operator: Operator, key: str, default: int = 2) -> tuple[int, int]:
    """An operator's kernel_size or stride as (height, width)."""
    value = operator.get(key) or default
    return (value[0], value[1]) if isinstance(value, list | tuple) else (value, value)


def kernel_and_stride(operator: Operator) -> tuple[tuple[int, int], tuple[int, int]]:
    """Of a windowed operator; a stride that is not set is the kernel's size."""
    kernel = square(operator, "kernel_size")
    return kernel, square(operator, "stride") if operator.get("stride") else kernel


def described(operator: Operator) -> str:
    """Name, kernel size and stride where it has them: ``max 3/2``, ``blur /2``."""
    kernel, stride = (_size(operator.get(key)) for key in ("kernel_size", "stride"))
    ties = operator.get("ties", "first")
    sizes = f"{kernel}/{stride}".rstrip("/")
    return f"{operator['name']} {sizes}".strip() + (f" ties={ties}" if ties != "first" else "")


def everywhere(run: Run) -> Operator | None:
    """The operator that stands in all stages of a run; None if stages differ."""
    operators = list(run.results.stages.values()) or [run.results.pool]
    return operators[0] if all(one == operators[0] for one in operators) else None


def named(*names: str) -> Callable[[Run], str]:
    """For ``Evidence.pairs``: the choice of a run with one of these operators in all stages."""

    def side(run: Run) -> str:
        operator = everywhere(run)
        return described(operator) if operator and operator["name"] in names else ""

    return side


def _size(value: Any) -> str:
    return "" if value is None else str(value) if is_number(value) else "x".join(map(str, value))
