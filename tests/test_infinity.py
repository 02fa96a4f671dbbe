"""One infinite or missing number in a map, and maps of 1e30: what every operator and readout gives."""

import copy
import math

import pytest
import torch
from torch.testing import assert_close

from cnnpool import pool, readout
from cnnpool.registry import KEEP

MAXIMUM = {
    *("max", "adaptive_max", "fractional_max", "max_aps", "max_blur"),
    *("soft", "logsumexp", "gem", "stochastic", "s3"),
}
"""Infinity comes out; minus infinity never wins."""
SUM = {
    *("avg", "sum", "adaptive_avg", "haar", "mixed", "random_mixed", "dpp", "ordinal"),
    *("resize", "blur", "none", "aps", "lps", "subsample"),
}
"""Both come out with their signs."""
MISSING = {"ada", "gated", "tree", "lip", "adaptive_blur", "tips", "lift", "flc", "asap"}
"""Infinity enters weights that the map decides, or meets itself with another sign: NaN."""
OTHERS = set(pool.OPERATORS) - MAXIMUM - SUM - MISSING - {KEEP, "inherit"}
"""Filters of both signs, a median, a norm: infinities of either sign, never NaN."""


def signs(y):
    """Which of NaN, infinity and minus infinity are in ``y``."""
    found = {"nan": y.isnan(), "inf": y == math.inf, "-inf": y == -math.inf}
    return {name for name, here in found.items() if here.any()}


def around(op, value):
    """The output for noise with ``value`` in one place of the first channel of the first image."""
    x = torch.randn(2, 8, 8, 8, generator=torch.Generator().manual_seed(0))
    x[0, 0, 2, 2] = value
    torch.manual_seed(0)
    y = op(x)
    assert y[1].isfinite().all()
    return signs(y)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("stem", sorted(MAXIMUM | SUM | MISSING | OTHERS))
def test_an_infinite_pixel_gives_the_limit_of_the_formula(stem, training):
    torch.manual_seed(0)
    op = pool.build(stem, 8).train(training)
    if training and stem in ("s3", "random_mixed"):
        pytest.skip("drawn, below")
    up, down = around(op, math.inf), around(op, -math.inf)
    if stem in MISSING or (stem == "lps" and training):
        assert "nan" in up and "nan" in down
    elif stem in MAXIMUM:
        assert (up, down) == ({"inf"}, set())
    elif stem in SUM:
        assert (up, down) == ({"inf"}, {"-inf"})
    else:
        assert "nan" not in up | down
    assert "nan" in around(op, math.nan)


def test_a_draw_between_maximum_and_average_keeps_the_other_out():
    op, x = pool.build("random_mixed", 64), torch.rand(64, 64, 2, 2)
    for value in (math.inf, -math.inf):
        x[..., 0, 0] = value
        drawn = {y.item() for y in op(x).flatten().clamp(-2, 2)}
        assert not any(map(math.isnan, drawn))
        assert (2.0 in drawn, -2.0 in drawn, len(drawn) > 1) == (value > 0, value < 0, value < 0)
    for share in (0.0, 1.0):
        x[..., 0, 0] = -math.inf
        y = pool.build("random_mixed", 64, probability=share).eval()(x)
        assert torch.equal(y, x.amax((2, 3), keepdim=True) if share else torch.full_like(y, -math.inf))


def test_random_rows_keep_what_is_missing_in_their_windows():
    x = torch.full((1, 2, 8, 8), math.nan)
    x[0, 0, 3, 3] = 1.0
    for seed in range(20):
        torch.manual_seed(seed)
        assert pool.build("s3", 2)(x).isnan().all()


READ = {
    **dict.fromkeys(("gmp", "gem", "logsumexp", "pyramid"), ({"inf"}, set())),
    **dict.fromkeys(("gap", "avgmax"), ({"inf"}, {"-inf"})),
    "catavgmax": ({"inf"}, {"-inf"}),
    "flatten": ({"inf"}, {"inf"}),
    **dict.fromkeys(("attention", "clip_attention", "simpool"), ({"nan"}, {"nan"})),
}


@pytest.mark.parametrize("name", readout.READOUTS)
def test_an_infinite_pixel_is_read_out_as_the_limit_of_the_formula(name):
    torch.manual_seed(0)
    op = readout.build(name, 8, (8, 8)).eval()
    assert (around(op, math.inf), around(op, -math.inf)) == READ[name]
    assert around(op, math.nan) == {"nan"}


def test_attention_to_infinity_is_missing_as_in_torchs_own():
    tokens = torch.randn(1, 9, 8)
    tokens[0, 4, 2] = math.inf
    torchs, _ = torch.nn.MultiheadAttention(8, 1, batch_first=True)(tokens[:, :1], tokens, tokens)
    assert torchs.isnan().all()


LARGEST = {
    "clip_attention": 1e18,
    "simpool": 1e18,
    "logsumexp": 1e38,
    "gmp": 1e38,
    "gem": 1e38,
    "pyramid": 1e38,
}


@pytest.mark.parametrize("name", readout.READOUTS)
def test_large_maps_are_read_out_as_in_float64(name):
    torch.manual_seed(0)
    op = readout.build(name, 8, (4, 4)).eval()
    x = torch.randn(2, 8, 4, 4).clamp(-3, 3) * LARGEST.get(name, 1e30)
    y, exact = op(x), copy.deepcopy(op).double()(x.double())
    assert_close(y.double(), exact, rtol=0, atol=1e-5 * exact.abs().max().item())
