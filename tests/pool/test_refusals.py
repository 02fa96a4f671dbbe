"""Arguments that an annotation alone cannot refuse: in functions, together, or for a map.

``tests/test_bounds.py`` asks every option of every constructor for the bounds of its annotation.
"""

import math
from itertools import product

import pytest
import torch
from functions import CALLS

from cnnpool import pool
from cnnpool.pool import build

SMALL, FOUR, INTEGERS = torch.zeros(1, 1, 2, 2), torch.zeros(1, 1, 4, 4), torch.zeros(1, 1, 4, 4).long()
MAPS = torch.zeros(2, 3, 4, 4)
WHOLE_PADDING = {"kernel_size": 2, "stride": 1, "padding": 1, "dilation": 2}
LEAVES, PHASE = torch.zeros(3, 1, 4), torch.tensor([0])


def unpool(index, **options):
    return pool.max_unpool2d(torch.ones(1, 1, 1, 1), torch.tensor(index), 2, **options)


REFUSED = [
    # Options of a constructor that do not go together.
    (lambda: build("ada", 3, beta=1.0), "beta must"),
    (lambda: build("adaptive_blur", 4, groups=3), "groups must divide the 4 channels, got 3"),
    (lambda: build("avg", 1, padding=2), "at most half of kernel_size=2, got 2"),
    (
        lambda: build("lp", 3, p=1.0, learnable=True),
        "p must be finite and above 1 to be learnable, got 1.0; learnable=false",
    ),
    (lambda: build("max", 1, kernel_size=8, ties="split"), "at most 63 cells"),
    (
        lambda: build("mixed", 3, mix=1.0),
        "mix must be above 0 and below 1 to be learnable, got 1.0; learnable=false",
    ),
    (lambda: build("reduction", 2, kernel_size=3, padding=2), "padding"),
    (lambda: build("s3", 1, grid=5), r"grid must be a multiple of stride=\(2, 2\), got 5"),
    # Numbers given to a function.
    (lambda: pool.ada_pool2d(SMALL, 2, beta=1.5), "beta must"),
    (lambda: pool.aps_pool2d(FOUR, p=3.0), "p must be 1, 2 or inf, got 3.0"),
    (lambda: pool.aps_pool2d(FOUR, choose="most"), "choose must be one of max, min, got 'most'"),
    (lambda: pool.avg_pool2d(FOUR, 2, divisor_override=0), "divisor_override must be .* other than 0, got 0"),
    (lambda: pool.avg_pool2d(FOUR, 2, divisor_override=2.5), "divisor_override must be a whole .* got 2.5"),
    (lambda: pool.avg_pool2d(FOUR, 2, divisor_override=True), "divisor_override must be .* got True"),
    (lambda: pool.blur_pool2d(FOUR, (3, 0)), "filter_size must be a whole number .*, or two of them"),
    (lambda: pool.blur_pool2d(FOUR, stride=0), "stride must be"),
    (lambda: pool.blur_pool2d(FOUR, padding_mode="mirror"), "padding_mode must be one of .*'mirror'"),
    (lambda: pool.dpp_pool2d(SMALL, 1.0, 1.0, 2, form="odd"), "form"),
    (lambda: pool.dpp_pool2d(SMALL, 1.0, 1.0, 2, eps=0.0), "eps"),
    (lambda: build("gem", 3, p=0.001), "p must be a number, at least 0.01 and finite, got 0.001"),
    (lambda: pool.gem_pool2d(SMALL, 2, p=1e-8), "p must be at least 0.01, got 1e-08: the root of"),
    (lambda: pool.logsumexp_pool2d(SMALL, 2, r=math.inf), "r must be finite and above 0"),
    (lambda: pool.lp_pool2d(SMALL, 0, 2), "norm_type"),
    (lambda: pool.max_blur_pool2d(FOUR, ties="any"), "ties must be"),
    (lambda: pool.max_blur_pool2d(FOUR, 0), "kernel_size"),
    (lambda: pool.max_pool2d(SMALL, 2, ties="middle"), "ties"),
    (lambda: pool.max_pool2d(SMALL, 2, return_indices=True, ties="split"), "ties must be first or last"),
    (lambda: pool.mixed_pool2d(SMALL, 2, mix=1.1), "mix must"),
    (lambda: pool.soft_pool2d(SMALL, 2, beta=-1.0), "beta must be finite and above 0"),
    (lambda: pool.spectral_pool2d(torch.zeros(1, 1, 8, 6), 7), r"at most that of the map, \(8, 6\), got \(7"),
    # Tensors that do not fit.
    (lambda: pool.adaptive_blur_pool2d(MAPS, torch.zeros(2, 9, 2, 3)), r"logits must be \(N, groups\*9, 2"),
    (lambda: pool.adaptive_blur_pool2d(MAPS, torch.zeros(2, 18, 2, 2)), "groups a divisor of C = 3"),
    (lambda: pool.aps_pool2d(MAPS, phase=torch.zeros(3).long()), r"phase must be \(2,\), got \(3,\)"),
    (lambda: pool.aps_pool2d(MAPS, phase=torch.zeros(2)), r"phase must be \(2, 4\) or \(2, 4, 3\), got"),
    (lambda: pool.aps_pool2d(MAPS, phase=torch.ones(2) > 0), "phase must be whole .* got torch.bool"),
    (lambda: pool.gated_pool2d(FOUR, torch.zeros(1, 9), 2), r"weight must be \(C or 1, 4\)"),
    (lambda: build("lift", 2).inverse([torch.zeros(1, 2, 2, 2)]), r"four maps of one shape, got \[\(1, 2"),
    (lambda: pool.lip_pool2d(MAPS, torch.zeros(2, 1, 4, 4), 2), "logits"),
    (lambda: pool.ordinal_pool2d(FOUR, torch.zeros(4), 2), r"weight must be \(C or 1, 4\)"),
    (lambda: pool.tree_pool2d(FOUR, LEAVES, LEAVES[:2], 2), "3 leaves"),
    (lambda: pool.tree_pool2d(FOUR, LEAVES[:2], LEAVES[:2], 2), "2 gates"),
    (lambda: unpool([[[[16]]]]), "0 to 3 in a 2x2 map, got 16 to 16"),
    (lambda: unpool([[[[0, 1]]]]), "same shape"),
    (lambda: unpool([[[[0.0]]]]), "integers"),
    (lambda: unpool([[[[0]]]], output_size=(4, 2)), "less than a stride"),
    (lambda: unpool([[[[0]]]], padding=2), "padding"),
    (lambda: pool.polyphase_unpool2d(MAPS[0], PHASE), r"takes floating-point \(N, C, H, W\)"),
    (lambda: pool.polyphase_unpool2d(MAPS, PHASE), r"phase must be \(2,\), got \(1,\)"),
    (lambda: pool.polyphase_unpool2d(MAPS, torch.ones(2, 3)), r"phase must be \(2, 4\) or \(2, 4, 3\), got"),
    (lambda: pool.polyphase_unpool2d(SMALL, PHASE, output_size=(4, 2)), r"output_size=\(4, 2\) is not"),
    (lambda: pool.polyphase_unpool2d(SMALL, PHASE, 0), "stride"),
    (lambda: pool.adaptive_blur_pool2d(MAPS, torch.zeros(1, 9, 2, 2)), r"for N = 2"),
    # Maps of a wrong kind, or too small.
    (lambda: pool.avg_pool2d(torch.zeros(4, 4), 2), "takes"),
    (lambda: pool.avg_pool2d(torch.zeros(1, 1, 1, 3), 2), "1x3 map"),
    (lambda: pool.blur_pool2d(INTEGERS), "floating-point .* got torch.int64"),
    (lambda: pool.blur_pool2d(torch.zeros(4, 4)), r"got torch.float32 of shape \(4, 4\)"),
    (lambda: pool.blur_pool2d(torch.zeros(1, 1, 0, 4)), r"got torch.float32 of shape \(1, 1, 0, 4\)"),
    (lambda: build("fractional_max", 1)(torch.zeros(1, 1, 1, 8)), r"empty for a 1x8 map: stride=\(2, 2\)"),
    (
        lambda: pool.ideal_lowpass_pool2d(INTEGERS),
        r"floating-point \(N, C, H, W\) of 16 to 64 bits, got torch.int64",
    ),
    (lambda: build("max", 3, **WHOLE_PADDING)(torch.zeros(1, 3, 1, 5)), "wholly in the padding"),
    (lambda: pool.max_pool2d(torch.zeros(2, 3, 2, 1), 2, 1, 1, 2), "wholly in the padding"),
    (lambda: pool.max_pool2d(torch.zeros(2, 3, 0, 4), 2), "max_pool2d"),
    (lambda: pool.max_pool2d(torch.zeros(2, 0, 4, 4), 2), "max_pool2d"),
    (lambda: build("patchify", 1)(torch.zeros(1, 1, 1, 8)), "1x8 map"),
    (lambda: pool.spectral_pool2d(torch.zeros(1, 8, 6), 4), r"got torch.float32 of shape \(1, 8, 6\)"),
    (lambda: build("strided", 1, padding=0)(torch.zeros(1, 1, 2, 8)), r"2x8 map: kernel_size=\(3, 3\), stri"),
]


def test_arguments_are_refused_with_their_names_and_values():
    for call, message in REFUSED:
        with pytest.raises(ValueError, match=message) as refused:
            call()
        assert "\n" not in str(refused.value)


def test_a_map_that_does_not_fit_is_refused_in_a_line_by_every_operator_and_function():
    x = torch.rand(2, 4, 8, 8)
    misfits = {
        "complex": x.to(torch.complex64), "bool": x > 0.5, "float8": x.to(torch.float8_e4m3fn),
        "uint16": x.to(torch.uint16), "vector": x[0, 0, 0], "plane": x[0, 0],
        "volume": x[None], "no channels": x[:, :0], "no rows": x[:, :, :0], "no columns": x[..., :0],
    }  # fmt: skip
    any_dtype = {"none", "subsample", "pixel_unshuffle2d"}
    takers = CALLS | {stem: build(stem, 4).eval() for stem in pool.OPERATORS}
    for name, call in takers.items():
        for kind, misfit in misfits.items():
            if misfit.dtype != x.dtype and name in any_dtype:
                continue
            # torch raises a RuntimeError: code that catches it goes on.
            with pytest.raises(RuntimeError) as refused:
                call(misfit)
            assert isinstance(refused.value, ValueError) and "\n" not in str(refused.value), (name, kind)
            assert misfit.dtype == x.dtype or str(misfit.dtype) in str(refused.value), (name, kind)


def test_a_phase_that_is_not_there_is_no_index():
    calls = (lambda p: pool.aps_pool2d(MAPS, phase=p), lambda p: pool.polyphase_unpool2d(MAPS, p))
    dtypes = (torch.int64, torch.int8)
    for phase, dtype, kernels, call in product((-5, -1, 4, 9), dtypes, (None, False), calls):
        message = f"phase must be 0 to 3, got {min(phase, 0)} to {max(phase, 0)}"
        with pool.dispatch.use(kernels), pytest.raises(IndexError, match=message):
            call(torch.tensor([0, phase], dtype=dtype))


def test_the_ends_that_are_allowed_are_taken():
    assert build("ada", 3, beta=1.0, learnable=False).beta(torch.zeros(1)) == 1
    assert pool.max_pool2d(torch.ones(1, 1, 9, 9), (7, 9), ties="split").item() == 1
    assert pool.max_pool2d(torch.zeros(0, 3, 4, 4), 2).shape == (0, 3, 2, 2)
    assert pool.max_pool2d(SMALL, 2, return_indices=True, ties="last")[1].item() == 3
