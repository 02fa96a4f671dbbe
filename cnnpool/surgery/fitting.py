"""Replacements that keep the shape of what they replace."""

import copy
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from cnnpool import table
from cnnpool.pool import Pool2d
from cnnpool.surgery.trace import Target

GEOMETRY = ("kernel_size", "padding", "dilation", "ceil_mode", "count_include_pad", "divisor_override")


def new_head(target: Target, entry: Callable, options: Mapping[str, Any]) -> nn.Module:
    """The readout in place of a global pooling, shaped as what it replaces.

    Raises:
        ValueError: if its vector has another length than the map has channels.
    """
    _, channels, *size = target.inputs[0].shape
    readout = entry(channels, tuple(size), **options)
    if readout.out_features != channels:
        raise ValueError(
            f"{readout.out_features} features do not fit the layer after it, made for {channels}"
        )
    flat = target.outputs[0].ndim == 2
    return readout if flat else nn.Sequential(readout, nn.Unflatten(1, (channels, 1, 1)))


def new_downsampling(target: Target, entry: Callable, options: Mapping[str, Any]) -> nn.Module:
    """The operator in place of a pooling, or behind the convolution made dense.

    Raises:
        ValueError: if no setting of the operator keeps the size.
    """
    maps = target.inputs
    dense = None
    if isinstance(target.module, nn.Conv2d):
        dense = copy.copy(target.module)
        # A shallow copy shares the table of parameters too; only the parameters shall be shared.
        dense._parameters = dict(target.module._parameters)
        dense.stride = (1, 1)
        with torch.no_grad():
            maps = [dense(x) for x in target.inputs]
    pool = fitting(target, maps, entry, options)
    if dense is None:
        return pool
    return nn.Sequential(dense, *(pool if isinstance(pool, nn.Sequential) else [pool]))


def fitting(target: Target, maps: Sequence[Tensor], entry: Callable, options: Mapping[str, Any]) -> nn.Module:
    """The first variant of the operator that turns ``maps`` into maps of the target's output sizes.

    Raises:
        ValueError: if there is none.
    """
    sizes = [tuple(x.shape[2:]) for x in maps]
    wanted = [tuple(y.shape[2:]) for y in target.outputs]
    missing = {
        tuple(s * after - before for s, after, before in zip(target.stride, new, old, strict=True))
        for new, old in zip(wanted, sizes, strict=True)
    }
    reasons = []
    for bottom, right in [(0, 0), *(missing if len(missing) == 1 else ())]:
        for variant in variants(target, entry, options):
            try:
                pool = entry(maps[0].shape[1], **table.check(entry, entry.__name__, variant))
                got = [pool.output_size(height + bottom, width + right) for height, width in sizes]
            except ValueError as error:
                reasons.append(str(error))
                continue
            if got == wanted:
                return nn.Sequential(nn.ZeroPad2d((0, right, 0, bottom)), pool) if bottom or right else pool
            reasons.append(f"makes {got} of {sizes} where the original made {wanted}")
    raise ValueError(reasons[0])


def variants(target: Target, entry: Callable, options: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Settings of the operator to try, the one most like the original first."""
    known = table.options_of(entry)
    down, across = target.stride
    stride = down if down == across else (down, across)
    base: dict[str, Any] = {"stride": stride} if "stride" in known else {}
    if "kernel_size" in known and known["kernel_size"].default == known["stride"].default:
        # Padding counts where it did in the original, so never in place of a maximum.
        original = {"kernel_size": stride, "count_include_pad": False}
        if isinstance(target.module, nn.MaxPool2d | nn.AvgPool2d | Pool2d):
            original |= {key: getattr(target.module, key) for key in GEOMETRY if hasattr(target.module, key)}
        base |= {key: value for key, value in original.items() if key in known}
    yield base | options
    free = [key for key in ("ceil_mode", "padding") if key in known and key not in options]
    choices = {"ceil_mode": (False, True), "padding": (0, 1, 2, 3)}
    for values in itertools.product(*(choices[key] for key in reversed(free))):
        yield base | options | dict(zip(reversed(free), values, strict=True))
