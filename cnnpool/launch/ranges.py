"""What the options of every room may be, known without torch, whose import takes longer than all the rest.

The constructors stay the authority: they refuse what depends on a model, its images, or several options at
once, and whatever an installed package brings. A test holds both to the same types and limits.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

Size = int | tuple[int, int]


@dataclass(frozen=True)
class Range:
    """Type of an option, and the range of its numbers.

    Args:
        hint: the type, as the constructor declares it.
        words: the range, as a message names it.
        holds: whether a number lies in it.
    """

    hint: Any
    words: str = ""
    holds: Callable[[float], bool] = lambda number: True

    def check(self, key: str, value: Any) -> None:
        """Refuse numbers out of range.

        Raises:
            ValueError: naming the key, the range and the value.
        """
        values = value if isinstance(value, tuple) else (value,)
        if not all(self.holds(v) for v in values if isinstance(v, int | float)):
            raise ValueError(f"{key} must be {self.words}, got {value}")


def least(bound: int, hint: Any) -> Range:
    """Numbers from ``bound`` on."""
    return Range(hint, f"at least {bound}", lambda number: number >= bound)


def odd(hint: Any) -> Range:
    """Odd numbers from 1 on: a window with a middle."""
    return Range(hint, "at least 1 and odd", lambda number: number >= 1 and number % 2 == 1)


SIZE = least(1, Size)
SIZE_OR_NONE = least(1, Size | None)
COUNT = least(1, int)
COUNT_OR_NONE = least(1, int | None)
NATURAL = least(0, int)
TWO = least(2, int)
PADDING_OR_NONE = least(0, Size | None)
STRIDE = Range(float | tuple[float, float], "at least 1 and finite", lambda number: 1 <= number < math.inf)
POSITIVE = Range(float, "above 0 and finite", lambda number: 0 < number < math.inf)
SHARE = Range(float, "in 0..1", lambda number: 0 <= number <= 1)
DROPPED = Range(float, "in 0..1 (1 excluded)", lambda number: 0 <= number < 1)
FLAG = Range(bool)
PADDING_MODE = Range(Literal["reflect", "replicate", "circular", "zeros"])
PER = Range(Literal["layer", "channel"])

# By option; what one choice has differently stands below choice.option.
POOL = {
    "kernel_size": SIZE,
    "stride": SIZE,
    "padding": least(0, Size),
    "dilation": SIZE,
    "ceil_mode": FLAG,
    "filter_size": SIZE,
    "learnable": FLAG,
    "per": PER,
    "padding_mode": PADDING_MODE,
    "norm": Range(Literal["none", "batch"]),
    "activation": Range(Literal["none", "relu", "gelu", "silu"]),
    "ties": Range(Literal["first", "last", "split"]),
    "aps.p": Range(float, "1, 2 or inf", lambda number: number in (1, 2, math.inf)),
    "gem.p": POSITIVE,
    "lp.p": Range(float, "above 0", lambda number: number > 0),
    "ada.beta": SHARE,
    "ada.size": least(1, tuple[int, int] | None),
    "adaptive_avg.output_size": SIZE_OR_NONE,
    "adaptive_max.output_size": SIZE_OR_NONE,
    "adaptive_blur.filter_size": odd(Size),
    "adaptive_blur.groups": COUNT_OR_NONE,
    "aps.choose": Range(Literal["max", "min"]),
    "avg.count_include_pad": FLAG,
    "avg.divisor_override": Range(int | None, "other than 0", lambda number: number != 0),
    "avg_conv.kernel_size": SIZE_OR_NONE,
    "conv_blur.kernel_size": odd(Size),
    "conv_blur.order": Range(Literal["conv_blur", "blur_conv"]),
    "conv_blur.conv_padding_mode": PADDING_MODE,
    "conv_pool.conv_size": odd(Size),
    "conv_pool.padding": PADDING_OR_NONE,
    "depthwise.padding": PADDING_OR_NONE,
    "diffstride.stride": STRIDE,
    "diffstride.bandwidth": Range(float, "above 0 and below 1", lambda number: 0 < number < 1),
    "diffstride.smoothness": POSITIVE,
    "dpp.form": Range(Literal["symmetric", "asymmetric"]),
    "dpp.full": FLAG,
    "fractional_max.stride": Range(STRIDE.hint, "above 1 and finite", lambda number: 1 < number < math.inf),
    "fractional_max.mode": Range(Literal["random", "pseudorandom"]),
    "fractional_max.overlapping": FLAG,
    "gem.eps": POSITIVE,
    "haar.stride": Range(Literal[2]),
    "haar.orthonormal": FLAG,
    "lip.scale": POSITIVE,
    "lip.bottleneck": NATURAL,
    "logsumexp.r": POSITIVE,
    "lp.form": Range(Literal["mean", "sum"]),
    "lps.kernel_size": odd(Size),
    "lps.hidden": COUNT_OR_NONE,
    "lps.tau": POSITIVE,
    "mixed.mix": SHARE,
    "none.stride": COUNT,
    "ordinal.weights": Range(Literal["softmax", "free"]),
    "patchify.norm": Range(Literal["none", "batch", "layer"]),
    "random_mixed.probability": SHARE,
    "random_mixed.evaluate": Range(Literal["expected", "majority"]),
    "reduction.padding": PADDING_OR_NONE,
    "resize.mode": Range(Literal["bilinear", "bicubic"]),
    "resize.antialias": FLAG,
    "s3.grid": SIZE_OR_NONE,
    "soft.beta": POSITIVE,
    "spectral.stride": STRIDE,
    "spectral.nyquist": Range(Literal["mean", "sum", "zero"]),
    "strided.padding": PADDING_OR_NONE,
    "tips.kernel_size": odd(Size),
    "tree.levels": Range(int, "1 to 8", lambda number: 1 <= number <= 8),
    "unshuffle.kernel_size": odd(Size),
    "unshuffle.ragged": Range(Literal["pad", "refuse"]),
    "wavelet.stride": Range(Literal[2]),
    "wavelet.order": Range(int, "1 to 10", lambda number: 1 <= number <= 10),
    "wavelet.bands": Range(Literal["ll", "all"]),
    "wavelet.edges": Range(Literal["circular", "symmetric"]),
}
READOUT = {
    "heads": COUNT_OR_NONE,
    "simpool.heads": COUNT,
    "ties": Range(Literal["first", "split"]),
    "hidden": NATURAL,
    "p": POSITIVE,
    "r": POSITIVE,
    "eps": POSITIVE,
    "learnable": FLAG,
    "per": PER,
    "levels": least(1, tuple[int, ...]),
    "gamma": Range(float | None, "above 0", lambda number: number > 0),
}
MODEL = {
    "width": COUNT,
    "depth": COUNT,
    "blocks": COUNT,
    "dropout": DROPPED,
    "input_dropout": DROPPED,
    "norm": FLAG,
    "pad_ends": FLAG,
    "variant": Range(Literal["A", "B", "C"]),
    "shortcut": Range(Literal["A", "B"]),
    "padding_mode": Range(Literal["zeros", "circular"]),
    "airbench.activation": Range(Literal["relu", "gelu"]),
}
DATA = {
    "root": Range(str),
    "download": FLAG,
    "batch_size": COUNT,
    "eval_batch_size": COUNT,
    "val_size": Range(
        int | float,
        "a number of images or a fraction below 1",
        lambda number: number >= 0 and (isinstance(number, int) or number < 1),
    ),
    "limit": COUNT_OR_NONE,
    "crop": NATURAL,
    "shift": NATURAL,
    "flip": FLAG,
    "digits.size": least(8, int),
    "image_folder.size": SIZE_OR_NONE,
    "image_folder.channels": Range(Literal[1, 3]),
}
PRESETS = Literal[
    "distinct", "zhang_imagenet", "zhang_cifar", "aps_cifar", "aps_crop", "aps_imagenet", "lps_cifar",
    "lps_crop", "tips", "tips_fill", "flc_cifar",
]  # fmt: skip
PROBE = {
    "samples": COUNT,
    "equivariance.samples": TWO,
    "lie.samples": TWO,
    "noise.samples": TWO,
    "sensitivity.samples": TWO,
    "timed_samples": COUNT,
    "shift_samples": COUNT,
    "stage_samples": TWO,
    "map_samples": NATURAL,
    "every_epochs": NATURAL,
    "repeats": COUNT,
    "steps": COUNT,
    "per_px": COUNT,
    "radius_px": COUNT,
    "max_shift_px": COUNT,
    "adversarial.max_shift_px": NATURAL,
    "worst_px": NATURAL,
    "seed": NATURAL,
    "epsilon": SHARE,
    "presets": Range(tuple[PRESETS, ...]),
    "distinct_pairs": FLAG,
}
ROOMS = {"pool": POOL, "readout": READOUT, "model": MODEL, "data": DATA, "probe": PROBE}


def range_of(room: str, name: str, option: str) -> Range:
    """What ``option`` of the choice ``name`` may be; anything, where that is not known here."""
    ranges = ROOMS[room]
    return ranges.get(f"{name}.{option}") or ranges.get(option) or Range(Any)
