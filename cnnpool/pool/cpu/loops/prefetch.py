"""Prefetching: processors predict one long stretch of memory, not short stretches of two rows."""

from typing import Any

from numba import types
from numba.core import cgutils

from cnnpool.pool.cpu.compiling import compiled
from cnnpool.pool.cpu.loops.signatures import Address, intrinsic

# Bytes of a cache line.
LINE = 64


def _asking(writing: int) -> Any:
    def ask(typing: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            byte, whole = cgutils.ir.IntType(8).as_pointer(), cgutils.ir.IntType(32)
            kind = cgutils.ir.FunctionType(cgutils.ir.VoidType(), [byte, whole, whole, whole])
            prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
            builder.call(prefetch, [builder.inttoptr(args[0], byte), *map(whole, (writing, 3, 1))])
            return context.get_dummy_value()

        return types.void(types.int64), generate

    return ask


_read, _written = intrinsic(_asking(0)), intrinsic(_asking(1))


@compiled
def to_read(address: Address, count: int) -> None:
    """Prefetch ``count`` bytes for reading; they need not exist."""
    for t in range(0, count, LINE):
        _read(address + t)


@compiled
def to_write(address: Address, count: int) -> None:
    """Prefetch ``count`` bytes for writing; they need not exist."""
    for t in range(0, count, LINE):
        _written(address + t)
