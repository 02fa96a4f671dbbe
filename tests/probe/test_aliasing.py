import numpy as np
import pytest
import torch
from random_maps import noise

from cnnpool import pool
from cnnpool.probe import Aliasing, aliasing


def shares(dense):
    """Alias energy ratio and high-frequency share of a map that is subsampled by two."""
    return list(aliasing.spectral_shares(aliasing.spectral_energies(dense, (2, 2))).values())


def wave(rows, columns, size=16):
    """cos of so many periods down and across."""
    place = 2 * torch.pi * torch.arange(size, dtype=torch.float64) / size
    return torch.cos(rows * place[:, None] + columns * place).expand(1, 1, size, size)


def test_a_map_without_numbers_is_not_free_of_aliasing():
    nothing = torch.full((1, 1, 4, 4), torch.nan)
    assert np.isnan(shares(nothing)).all()


def test_the_dense_output_is_that_at_stride_one():
    x = noise(2, 3, 8, 10)
    got = aliasing.dense_output(pool.build("max", 3), x, (2, 2))
    expected = torch.stack([x.roll((-i, -j), (2, 3)) for i in (0, 1) for j in (0, 1)]).amax(0)
    assert torch.equal(got, expected)
    assert torch.equal(aliasing.dense_output(pool.build("subsample", 3), x, (2, 2)), x)


def test_odd_rows_are_cut_off_and_other_sizes_have_no_dense_output():
    assert aliasing.dense_output(pool.build("max", 1), noise(1, 1, 9, 7), (2, 2)).shape == (1, 1, 8, 6)
    unpadded = pool.build("max", 1, kernel_size=3)
    assert aliasing.dense_output(unpadded, noise(1, 1, 8, 8), (2, 2)) is None
    assert aliasing.stage_aliasing(unpadded, noise(1, 1, 8, 8)) == {}
    # Smaller than the stride.
    for size in [(1, 1), (1, 8), (8, 1)]:
        assert aliasing.stage_aliasing(pool.build("blur", 3), noise(1, 3, *size)) == {}


def test_a_low_wave_does_not_alias_and_a_high_one_is_nothing_but_alias():
    assert shares(wave(1, 2)) == pytest.approx([0, 0], abs=1e-24)
    assert shares(wave(7, 0)) == pytest.approx([1, 1])


def test_shares_of_a_sum_of_waves_go_by_their_energies_and_zeros_have_none():
    # Subsampled, the second is a wave of one period down: orthogonal to the first.
    assert shares(3 * wave(2, 0) + wave(7, 0)) == pytest.approx([1 / 10, 1 / 10])
    zeros = torch.zeros(1, 1, 4, 4)
    assert shares(zeros) == [0, 0]
    assert aliasing.alias_classes(zeros, (2, 2))["nopass"] == 1.0


def test_the_ratio_of_operators_orders_as_their_filters():
    x = noise(4, 2, 16, 16)
    found = {}
    for name in ("ideal_lowpass", "blur", "avg", "subsample"):
        options = {"padding_mode": "circular"} if name == "blur" else {}
        operator = pool.build(name, 2, **options).double()
        found[name] = aliasing.stage_aliasing(operator, x)["alias_energy_ratio"]
    assert found["ideal_lowpass"] < 1e-24
    assert found["blur"] < found["avg"] < found["subsample"]
    # White noise: of the bins of a 16x16 map 7 x 7 lie below the new Nyquist frequency.
    assert found["subsample"] == pytest.approx(1 - 49 / 256, abs=0.05)
    assert shares(x)[1] == pytest.approx(1 - 49 / 256, abs=0.02)


def classes_slowly(u, stride):
    """One map, bin by bin."""
    spectrum = np.fft.fft2(u)
    (height, width), (s, t) = u.shape, stride
    h, w = height // s, width // t
    sampled = np.abs(np.fft.fft2(u[::s, ::t])) ** 2
    counts = dict.fromkeys(("nonaliased", "aliased", "tangled", "nopass"), 0)
    for k in range(h):
        for m in range(w):
            passing = []
            for i in range(s):
                for j in range(t):
                    row, column = k + i * h, m + j * w
                    # The sampled spectrum is the mean of its aliases.
                    if abs(spectrum[row, column]) ** 2 > 0.01 * sampled.max():
                        rf, cf = min(row, height - row) / height, min(column, width - column) / width
                        passing.append(rf < 1 / (2 * s) - 1e-12 and cf < 1 / (2 * t) - 1e-12)
            if not passing:
                counts["nopass"] += 1
            elif len(passing) > 1:
                counts["tangled"] += 1
            else:
                counts["nonaliased" if passing[0] else "aliased"] += 1
    return {name: count / (h * w) for name, count in counts.items()}


@pytest.mark.parametrize(("size", "stride"), [((8, 8), (2, 2)), ((9, 6), (3, 2)), ((12, 8), (2, 4))])
def test_classes_are_those_of_a_count_bin_by_bin(size, stride):
    u = noise(3, 2, *size).cumsum(2).cumsum(3)
    slow = [classes_slowly(image.numpy(), stride) for image in u.flatten(0, 1)]
    expected = {name: np.mean([one[name] for one in slow]) for name in slow[0]}
    got = aliasing.alias_classes(u, stride)
    assert got == pytest.approx(expected)
    assert sum(got.values()) == pytest.approx(1)


def test_waves_are_classed_by_hand():
    # Of 8 x 8 bins, the wave and its mirror image pass: two.
    two = 2 / 64
    found = aliasing.alias_classes(wave(1, 0), (2, 2))
    assert found == {"nonaliased": two, "aliased": 0, "tangled": 0, "nopass": 1 - two}
    assert aliasing.alias_classes(wave(7, 0), (2, 2))["aliased"] == two
    assert aliasing.alias_classes(wave(1, 0) + wave(7, 0), (2, 2))["tangled"] == two
    # Of two waves the weaker counts down to 32 dB below the stronger.
    for db, counted in ((31, two), (33, 0)):
        weak = 10 ** (-db / 20) * wave(0, 6)
        assert aliasing.alias_classes(wave(1, 0) + weak, (2, 2))["aliased"] == counted


def test_the_probe_looks_at_the_maps_that_stages_see(net, batch):
    cnn, (images, labels) = net("subsample"), batch()
    result = Aliasing(samples=6).measure(cnn, cnn.stages, images, labels)
    share = shares(cnn.eval().features[0](images))[1]
    assert result["stages"]["s1"]["high_frequency_share"] == pytest.approx(share, rel=1e-6)
