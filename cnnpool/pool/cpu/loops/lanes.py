"""Sixteen numbers of a map at once, the one type that kernels compute with, and their way to memory and back.

A kernel takes addresses, and a ``like`` of the element's type: float32, float64, or the bits of half
precision, uint16 for bfloat16 and int16 for float16. Half precision is widened to float32 as it is loaded and
rounded once as it is stored. ``Lanes`` need not be one register: the compiler splits them.
"""

import operator
from collections.abc import Callable
from typing import Any

from numba import types
from numba.core import cgutils, typing
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import lower_builtin, models, register_model

from cnnpool.pool.cpu.loops.half import BFLOAT16, converted, vector, widened
from cnnpool.pool.cpu.loops.signatures import intrinsic

ir = cgutils.ir
LANES = 16
LINE = 64
"""Bytes of a cache line."""


class Lanes(types.Type):
    """The type of ``count`` numbers of type ``element``, or of as many answers to a comparison."""

    def __init__(self, element: Any, count: int = LANES):
        self.element, self.count = element, count
        super().__init__(name=f"Lanes({element}, {count})")


class _Model(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Lanes):
        one = (
            ir.IntType(1) if kind.element == types.boolean else manager.lookup(kind.element).get_value_type()
        )
        super().__init__(manager, kind, ir.VectorType(one, kind.count))  # type: ignore[no-untyped-call]


register_model(Lanes)(_Model)


def wide_type(like: Any) -> Any:
    """The type of arithmetic with numbers of type ``like``."""
    return like if isinstance(like, types.Float) else types.float32


def _pointer(builder: Any, address: Any, index: Any, kind: Any, lanes: int = 0) -> Any:
    pointer = builder.gep(builder.inttoptr(address, kind.as_pointer()), [index])
    return builder.bitcast(pointer, ir.VectorType(kind, lanes).as_pointer()) if lanes else pointer


@intrinsic
def read(typing: Any, address: Any, index: Any, like: Any) -> Any:
    """One element as it is in memory."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_pointer(builder, args[0], args[1], context.get_data_type(like)))

    return like(types.int64, types.int64, like), generate


@intrinsic
def write(typing: Any, address: Any, index: Any, value: Any) -> Any:
    """One element as it is in memory."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], _pointer(builder, args[0], args[1], context.get_data_type(value)))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, value), generate


def copying(lanes: int) -> Any:
    """A function that copies ``lanes`` elements of ``source`` from ``i`` on to ``target`` from ``k`` on, from
    the type of ``like`` to that of ``to``.
    """

    def copy(typing: Any, source: Any, i: Any, target: Any, k: Any, like: Any, to: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            # At any multiple of one element.
            value = _some(context, builder, args[0], args[1], like, lanes)
            _put(context, builder, args[2], args[3], converted(builder, value, like, to), to)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 4, like, to), generate

    return intrinsic(copy)


def parting(lanes: int) -> Any:
    """A function that copies ``lanes`` pairs of ``source`` from ``i`` on to ``even`` and ``odd``."""

    def part(typing: Any, source: Any, i: Any, even: Any, odd: Any, target: Any, like: Any, to: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            halves = _pairs(context, builder, args[0], args[1], like, to, lanes)
            for place, half in zip(args[2:4], halves, strict=True):
                _put(context, builder, args[4], place, half, to)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 5, like, to), generate

    return intrinsic(part)


def joining(lanes: int) -> Any:
    """The inverse of ``parting``."""

    def join(typing: Any, source: Any, even: Any, odd: Any, target: Any, k: Any, like: Any, to: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            halves = [_some(context, builder, args[0], at, like, lanes) for at in args[1:3]]
            halves = [converted(builder, half, like, to) for half in halves]
            _put(context, builder, args[3], args[4], _joined(builder, *halves), to)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 5, like, to), generate

    return intrinsic(join)


def _some(context: Any, builder: Any, address: Any, index: Any, like: Any, lanes: int) -> Any:
    kind = context.get_data_type(like)
    place = _pointer(builder, address, index, kind, lanes)
    return builder.load(place, align=context.get_abi_sizeof(kind))


def _put(context: Any, builder: Any, address: Any, index: Any, value: Any, like: Any) -> None:
    kind = context.get_data_type(like)
    place = _pointer(builder, address, index, kind, value.type.count)
    builder.store(value, place, align=context.get_abi_sizeof(kind))


def _pairs(context: Any, builder: Any, address: Any, index: Any, like: Any, to: Any, lanes: int) -> list[Any]:
    """The first of ``lanes`` pairs from ``index`` on, and the second."""
    both = _some(context, builder, address, index, like, 2 * lanes)
    if like == BFLOAT16 and to == types.float32:
        # A pair is a float32's number of bits.
        whole = ir.VectorType(ir.IntType(32), lanes)
        pairs, single = builder.bitcast(both, whole), ir.VectorType(ir.FloatType(), lanes)
        halves = builder.shl(pairs, whole(16)), builder.and_(pairs, whole(0xFFFF0000))
        return [builder.bitcast(half, single) for half in halves]
    parts = (_places(range(first, 2 * lanes, 2)) for first in (0, 1))
    return [converted(builder, builder.shuffle_vector(both, both, part), like, to) for part in parts]


def _joined(builder: Any, first: Any, second: Any) -> Any:
    lanes = first.type.count
    turns = [place for lane in range(lanes) for place in (lane, lanes + lane)]
    return builder.shuffle_vector(first, second, _places(turns))


def _places(numbers: Any) -> Any:
    numbers = list(numbers)
    return ir.Constant(ir.VectorType(ir.IntType(32), len(numbers)), numbers)


def loading(lanes: int) -> Any:
    """A function that loads so many elements from ``index`` on, half precision in float32."""

    def load(typing: Any, address: Any, index: Any, like: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return widened(builder, _some(context, builder, args[0], args[1], like, lanes), like)

        return Lanes(wide_type(like), lanes)(types.int64, types.int64, like), generate

    return intrinsic(load)


load = loading(LANES)


def loading_bits(lanes: int) -> Any:
    """A function that loads so many elements from ``index`` on as they are in memory."""

    def load_bits(typing: Any, address: Any, index: Any, like: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return _some(context, builder, args[0], args[1], like, lanes)

        return Lanes(like, lanes)(types.int64, types.int64, like), generate

    return intrinsic(load_bits)


load_bits = loading_bits(LANES)


@intrinsic
def store(typing: Any, address: Any, index: Any, value: Any, like: Any) -> Any:
    """Write ``value``, rounded to nearest, ties to even, to the type of ``like``, or as it is."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _put(context, builder, args[0], args[1], converted(builder, args[2], value.element, like), like)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, value, like), generate


@intrinsic
def fetch(typing: Any, address: Any, index: Any, like: Any) -> Any:
    """Ask for the cache line of an element, which need not exist; the number of elements in a line."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte, whole = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, whole, whole, whole])
        prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        kind = context.get_data_type(like)
        place = builder.bitcast(_pointer(builder, args[0], args[1], kind), byte)
        builder.call(prefetch, [place, *map(whole, (0, 3, 1))])
        return context.get_constant(types.int64, LINE // context.get_abi_sizeof(kind))

    return types.int64(types.int64, types.int64, like), generate


def loading_pairs(lanes: int) -> Any:
    """A function that loads ``lanes`` pairs of elements from ``index`` on: the first of each, the second."""

    def load_pairs(typing: Any, address: Any, index: Any, like: Any) -> Any:
        kinds = types.UniTuple(Lanes(wide_type(like), lanes), 2)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            found = _pairs(context, builder, args[0], args[1], like, wide_type(like), lanes)
            return context.make_tuple(builder, kinds, found)

        return kinds(types.int64, types.int64, like), generate

    return intrinsic(load_pairs)


@intrinsic
def store_pairs(typing: Any, address: Any, index: Any, first: Any, second: Any, like: Any) -> Any:
    """Write elements of ``first`` and ``second`` in turn."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        halves = [converted(builder, half, first.element, like) for half in args[2:4]]
        _put(context, builder, args[0], args[1], _joined(builder, *halves), like)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, first, first, like), generate


def splat(builder: Any, number: Any, count: int) -> Any:
    """``number`` in every lane."""
    kind = ir.VectorType(number.type, count)
    one = builder.insert_element(kind(ir.Undefined), number, ir.IntType(32)(0))
    return builder.shuffle_vector(one, kind(ir.Undefined), _places([0] * count))


def spreading(lanes: int) -> Any:
    """A function that puts a value into each of so many lanes."""

    def spread(typing: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return splat(builder, args[0], lanes)

        return Lanes(value, lanes)(value), generate

    return intrinsic(spread)


spread = spreading(LANES)


@intrinsic
def select(typing: Any, mask: Any, a: Any, b: Any) -> Any:
    """``a`` where ``mask`` holds, else ``b``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(*args)

    return a(mask, a, a), generate


@intrinsic
def truncated(typing: Any, value: Any) -> Any:
    """The whole parts, int64."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fptosi(args[0], vector(64, args[0]))

    return Lanes(types.int64, value.count)(value), generate


@intrinsic
def everywhere(typing: Any, mask: Any) -> Any:
    """Whether ``mask`` holds in all lanes."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bits = ir.IntType(mask.count)
        return builder.icmp_unsigned("==", builder.bitcast(args[0], bits), bits(-1))

    return types.boolean(mask), generate


@intrinsic
def beats(typing: Any, value: Any, best: Any) -> Any:
    """Whether ``value`` is a larger maximum than ``best``: torch's rule, by which the last NaN wins."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        nan = builder.fcmp_unordered("uno", args[0], args[0])
        return builder.or_(builder.fcmp_ordered(">", *args), nan)

    return Lanes(types.boolean, value.count)(value, value), generate


def _operation(function: Any, build: Callable[..., Any], kinds: Any, asks: bool = False) -> None:
    """``function`` of two ``Lanes``, or of one and a number for all of its lanes."""

    class Template(AbstractTemplate):
        def generic(self, args: Any, _: Any) -> Any:
            several = next((t for t in args if isinstance(t, Lanes) and isinstance(t.element, kinds)), None)
            if several is None or len(args) != 2 or any(t not in (several, several.element) for t in args):
                return None
            answer = Lanes(types.boolean, several.count) if asks else several
            return typing.signature(answer, *args)

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pairs, (count,) = (
            zip(signature.args, args, strict=True),
            {t.count for t in signature.args if isinstance(t, Lanes)},
        )
        return build(builder, *(a if isinstance(t, Lanes) else splat(builder, a, count) for t, a in pairs))

    infer_global(function)(Template)
    for pair in ((Lanes, Lanes), (Lanes, kinds), (kinds, Lanes)):
        lower_builtin(function, *pair)(lower)


def _is_whole(a: Any) -> bool:
    return isinstance(a.type.element, ir.IntType)


def _sum(builder: Any, a: Any, b: Any) -> Any:
    return builder.add(a, b) if _is_whole(a) else builder.fadd(a, b, flags=FAST)


def _equal(builder: Any, a: Any, b: Any) -> Any:
    return builder.icmp_signed("==", a, b) if _is_whole(a) else builder.fcmp_ordered("==", a, b)


# A product and the sum it enters may be rounded once.
FAST = ("contract",)
_operation(operator.add, _sum, types.Number)
_operation(operator.sub, lambda builder, a, b: builder.fsub(a, b, flags=FAST), types.Float)
_operation(operator.mul, lambda builder, a, b: builder.fmul(a, b, flags=FAST), types.Float)
_operation(operator.truediv, lambda builder, a, b: builder.fdiv(a, b), types.Float)
_operation(operator.gt, lambda builder, a, b: builder.fcmp_ordered(">", a, b), types.Float, True)
_operation(operator.lt, lambda builder, a, b: builder.fcmp_ordered("<", a, b), types.Float, True)
_operation(operator.le, lambda builder, a, b: builder.fcmp_ordered("<=", a, b), types.Float, True)
_operation(operator.ne, lambda builder, a, b: builder.fcmp_unordered("!=", a, b), types.Float, True)
_operation(operator.eq, _equal, types.Number, True)
_operation(operator.or_, lambda builder, a, b: builder.or_(a, b), types.Boolean)
_operation(operator.and_, lambda builder, a, b: builder.and_(a, b), types.Boolean)
