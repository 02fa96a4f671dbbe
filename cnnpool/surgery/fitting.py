"""Replacements with the output shape of the original module."""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn

from cnnpool import registry
from cnnpool.as_found import examined
from cnnpool.pool import Pool1d, Pool2d, Pool3d
from cnnpool.surgery.dense import DenseMerging, DenseSameConv2d, merges, pads_by_stride
from cnnpool.surgery.trace import CONVOLUTION, WINDOWED, Target, each_axis

Entry = Callable[..., Any]
"""The class of an operator or readout, or an installed package's function that makes one."""
Size = tuple[int, ...]
Pooling = Pool1d | Pool2d | Pool3d
Order = Literal["after", "before"]
"""Position of the operator relative to a convolution that had the stride."""
GEOMETRY = ("kernel_size", "padding", "dilation", "ceil_mode", "count_include_pad", "divisor_override")


def new_head(target: Target, entry: Entry, options: Mapping[str, Any]) -> nn.Module:
    """The readout in place of a global pooling, with the same output shape; ValueError if that cannot be."""
    _, channels, *size = target.inputs[0].shape
    if len(size) != 2:
        raise ValueError(f"readouts take maps (N, C, H, W), and this is given {len(size) + 2} dimensions")
    readout = entry(channels, tuple(size), **options)
    if readout.out_features != channels:
        raise ValueError(
            f"{readout.out_features} features do not fit the layer after it, made for {channels}"
        )
    flat = target.outputs[0].ndim == 2
    return readout if flat else nn.Sequential(readout, nn.Unflatten(1, (channels, 1, 1)))


def new_downsampling(
    target: Target, entry: Entry, options: Mapping[str, Any], *, order: Order = "after"
) -> nn.Module:
    """The operator in place of a pooling, after the dense convolution, or at stride 1 before it."""
    if getattr(target.module, "return_indices", False):
        raise ValueError(
            "it has return_indices=True, and no operator returns indices; leave it out by where="
        )
    if merges(target.module):
        merging = DenseMerging(target.module, nn.Identity())
        with torch.no_grad(), examined(merging):
            maps = [merging.dense(x.movedim(1, -1)) for x in target.inputs]
        merging.operator = fitting(target, maps, entry, options)
        return merging
    if not isinstance(target.module, CONVOLUTION):
        return fitting(target, target.inputs, entry, options)
    if order == "before":
        same = replace(target, module=nn.Identity(), outputs=target.inputs)
        layers = [*_parts(fitting(same, target.inputs, entry, options)), target.module]
        return InPlaceOf(*layers).show(target.module, len(layers) - 1)
    dense, maps = at_stride_1(target)
    return InPlaceOf(dense, *_parts(fitting(target, maps, entry, options))).show(target.module, 0)


def at_stride_1(target: Target) -> tuple[nn.Module, list[Tensor]]:
    """A convolution that shares its parameters at stride 1, and its maps of the target's inputs."""
    conv: Any = target.module
    # Not copy.copy, which parametrized modules do not support.
    dense = conv.__class__.__new__(conv.__class__)
    dense.__dict__.update(conv.__dict__)
    # Copy the tables, so that only their entries are shared.
    for table_of in ("_parameters", "_buffers", "_modules"):
        dense.__dict__[table_of] = dict(conv.__dict__[table_of])
    dense.stride = (1,) * len(conv.stride)
    with torch.no_grad(), examined(conv), examined(dense):
        if pads_by_stride(conv, dense, target.inputs[0]):
            dense = DenseSameConv2d(dense, conv.stride)
        return dense, [dense(x) for x in target.inputs]


class InPlaceOf(nn.Sequential):
    """Layers in place of a module, which show its settings and weights to a network that reads them."""

    place: int

    def show(self, module: nn.Module, place: int) -> Self:
        """Take on the plain attributes of ``module``; its weights are those of the layer at ``place``."""
        settings = {name: value for name, value in vars(module).items() if not name.startswith("_")}
        vars(self).update(settings | {"place": place})
        return self

    @property
    def weight(self) -> Tensor:
        """The module's."""
        weight: Tensor = self._shown.weight
        return weight

    @property
    def bias(self) -> Tensor | None:
        """The module's."""
        bias: Tensor | None = self._shown.bias
        return bias

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._shown, name, value) if name in ("weight", "bias") else super().__setattr__(name, value)

    @property
    def _shown(self) -> Any:
        layer = self[self.place]
        return layer.dense if isinstance(layer, DenseSameConv2d) else layer


def _parts(pool: nn.Module) -> list[nn.Module]:
    return list(pool) if isinstance(pool, nn.Sequential) else [pool]


def fitting(target: Target, maps: Sequence[Tensor], entry: Entry, options: Mapping[str, Any]) -> nn.Module:
    """The first variant of the operator that turns ``maps`` into maps of the target's sizes, else ValueError.

    First the original's window, with ceil_mode and padding, then with zeros behind; then the operator's own.
    """
    sizes = [tuple(x.shape[2:]) for x in maps]
    wanted = [tuple(y.shape[2:]) for y in target.outputs]
    reasons = []
    for settings in bases(target, entry, wanted):
        made = []
        for variant in variants(entry, settings, options):
            try:
                pool = pooling_of(target.axes, entry, maps[0].shape[1], variant)
                got = [output_size(pool, size) for size in sizes]
            except ValueError as error:
                reasons.append(str(error))
                continue
            if got == wanted:
                return pool
            reasons.append(f"makes {got} of {sizes} where the original made {wanted}")
            made.append(pool)
        for more, pool in itertools.product(zeros(target, made, sizes, wanted), made):
            try:
                got = [output_size(pool, [n + m for n, m in zip(size, more, strict=True)]) for size in sizes]
            except ValueError:
                continue
            if got == wanted:
                ends = [end for m in reversed(more) for end in (0, m)]
                return nn.Sequential(getattr(nn, f"ZeroPad{target.axes}d")(tuple(ends)), pool)
    raise ValueError(reasons[0])


def pooling_of(axes: int, entry: Entry, channels: int, options: Mapping[str, Any]) -> Pooling:
    """The operator for maps, or its version for sequences or volumes; ValueError if none exists."""
    if axes == 2:
        pool: Pool2d = entry(channels, **registry.check(entry, entry.__name__, options))
        return pool
    kind: Any = Pool1d if axes == 1 else Pool3d
    made: Pool1d | Pool3d = kind(entry, channels, **options)
    return made


def output_size(pool: Pooling, size: Sequence[int]) -> Size:
    """The size of the output for an input of ``size``, a number for each axis; ValueError if it is empty."""
    after: Any = pool.output_size(*size)
    return after if isinstance(after, tuple) else (after,)


def zeros(
    target: Target, pools: Sequence[Pooling], sizes: Sequence[Size], wanted: Sequence[Size]
) -> list[Size]:
    """Zeros to add behind each axis (negative: to drop), fewest first: s H' - H to k - s more than that."""
    missing = {
        tuple(math.floor(s * y) - x for s, y, x in zip(target.stride, new, old, strict=True))
        for new, old in zip(wanted, sizes, strict=True)
    }
    if len(missing) != 1:
        return []
    (least,) = missing
    reaches = [_reach(pool, len(least)) for pool in pools]
    more = [max((0, *each)) for each in zip(*reaches, strict=True)] or [0] * len(least)
    spans = [range(first, first + extra + 1) for first, extra in zip(least, more, strict=True)]
    return sorted(zeros for zeros in itertools.product(*spans) if any(zeros))


def _reach(pool: Pooling, axes: int) -> list[int]:
    """How far a window reaches beyond its stride along each axis."""
    if not hasattr(pool, "kernel_size"):
        return [0] * axes
    sides = zip(*(each_axis(each, axes) for each in (pool.kernel_size, pool.stride)), strict=True)
    return [int(kernel - stride) for kernel, stride in sides]


def bases(target: Target, entry: Entry, wanted: Sequence[Size]) -> Iterator[dict[str, Any]]:
    """Settings that make the operator like the original: with its window, and with the operator's own."""
    known = registry.options_of(entry)
    if not hasattr(target.module, "stride") and "output_size" in known:
        yield {"output_size": (1, *wanted[0]) if target.axes == 1 else wanted[0]}
        return
    stride = _plain(target.stride)
    base: dict[str, Any] = {"stride": stride} if "stride" in known else {}
    if target.axes == 3 and isinstance(stride, tuple) and "filter_size" in known:
        # No filter along axes that are not subsampled, such as time.
        taps = known["filter_size"].default
        base["filter_size"] = tuple(taps if step > 1 else 1 for step in stride)
    side_by_side = "kernel_size" in known and known["kernel_size"].default == known["stride"].default
    windowed = isinstance(target.module, WINDOWED) and hasattr(target.module, "kernel_size")
    # Without a window of the original, adjacent cells at stride 1 would be single pixels.
    if side_by_side and (windowed or stride != 1):
        # As in the original, only averages count padding.
        original = {"kernel_size": stride, "count_include_pad": False}
        if windowed:
            held = {key: getattr(target.module, key) for key in GEOMETRY if hasattr(target.module, key)}
            original |= {key: _plain(value) for key, value in held.items()}
        yield base | {key: value for key, value in original.items() if key in known}
    yield base


def _plain(setting: Any) -> Any:
    """A setting with the same value for all axes as one number."""
    return setting[0] if isinstance(setting, tuple) and len(set(setting)) == 1 else setting


def variants(entry: Entry, base: dict[str, Any], options: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Settings of the operator to try, the most similar to the original first."""
    known = registry.options_of(entry)
    base = {**base, **options}
    yield base
    free = [key for key in ("ceil_mode", "padding") if key in known and key not in options]
    choices = {"ceil_mode": (False, True), "padding": (0, 1, 2, 3)}
    for values in itertools.product(*(choices[key] for key in reversed(free))):
        yield base | dict(zip(reversed(free), values, strict=True))
