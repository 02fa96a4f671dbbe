"""Functional pooling outside of modules: calls of torch.nn.functional, counted during a dry run."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

NAMES = ("max_pool", "avg_pool", "lp_pool", "fractional_max_pool", "adaptive_max_pool", "adaptive_avg_pool")
FUNCTIONS = {f"{name}{axes}d{end}" for name in NAMES for axes in (1, 2, 3) for end in ("", "_with_indices")}


class FunctionalPooling(TorchFunctionMode):
    """Counts calls that shrink a map, to more than one pixel, outside the modules that ``pools`` knows."""

    def __init__(self, model: nn.Module, pools: Callable[[nn.Module], bool]):
        super().__init__()
        self.names = {module: name for name, module in model.named_modules()}
        self.pools = pools
        self.running: list[nn.Module] = []
        self.calls: Counter[tuple[str, str]] = Counter()

    def enter(self, module: nn.Module, _: Any) -> None:
        """Forward pre-hook of every module."""
        self.running.append(module)

    def leave(self, *_: Any) -> None:
        """Forward hook of every module."""
        self.running.pop()

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "").lstrip("_")
        x = args[0] if args else (kwargs or {}).get("input")
        if name in FUNCTIONS and isinstance(x, Tensor) and not any(map(self.pools, self.running)):
            output = result[0] if isinstance(result, tuple) else result
            if 1 < output.shape[2:].numel() < x.shape[2:].numel():
                where = self.names[self.running[-1]] if self.running else ""
                self.calls[name, where] += 1
        return result

    def __str__(self) -> str:
        """2 calls of max_pool2d in features; empty without any."""
        return ", ".join(
            f"{count} call{'s' * (count > 1)} of {name} in {where or 'the model itself'}"
            for (name, where), count in self.calls.items()
        )
