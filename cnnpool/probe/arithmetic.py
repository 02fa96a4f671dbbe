"""Arithmetic by torch's own formulas, counted without loading torch's compiler."""

from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode


class Arithmetic(TorchDispatchMode):
    """Within this context, ``total`` adds up what convolutions and matrix products take.

    Counts the same as ``torch.utils.flop_counter.FlopCounterMode``, which could stand in its place. Its base
    class has a private name in torch; it saves loading torch's compiler, which takes as long as a small
    training.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        # Imported late, since it imports Triton.
        from torch.utils.flop_counter import flop_registry

        self.formulas = flop_registry
        self.total = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        formula = self.formulas.get(func._overloadpacket)
        if formula is None:
            with self:
                parts = func.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
        result = func(*args, **kwargs)
        if formula is not None:
            self.total += formula(*args, **kwargs, out_val=result)
        return result
