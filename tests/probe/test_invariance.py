import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from small_nets import Pixel
from torch import nn

from cnnpool import pool
from cnnpool.probe import ShiftInvariance
from cnnpool.probe.base import paddings
from cnnpool.probe.consistency import (
    PAIRS,
    PRESETS,
    by_presets,
    interval,
    over_all,
    over_drawn,
    paired_predictions,
)
from cnnpool.probe.invariance import accuracy_map, accuracy_of_shifts, relative_change, unchanged_share
from cnnpool.probe.shift import predictions

CORNER = Pixel(0, 0)


def test_all_pairs_of_a_hand_worked_image_are_counted():
    # One bright pixel of 8 x 8: the corner sees it under 1 of 49 shifts, and under 1 of 36.
    image, label = -torch.ones(1, 1, 8, 8), torch.tensor([0])
    image[0, 0, 2, 1] = 1
    ours = over_all(CORNER, image, label, PRESETS["distinct"])
    assert (ours.shifts, ours.exact) == (49, True)
    assert ours.same.item() == pytest.approx(48 * 47 / (49 * 48))
    assert ours.correct.item() == pytest.approx(48 / 49)
    assert ours.both.item() == pytest.approx(48 * 47 / (49 * 48))
    assert ours.given_correct == pytest.approx(47 / 48)
    aps = over_all(CORNER, image, label, PRESETS["aps_cifar"])
    assert aps.same.item() == pytest.approx((35 / 36) ** 2 + (1 / 36) ** 2)
    assert aps.distinct.item() == pytest.approx(35 * 34 / (36 * 35))
    assert aps.both.item() == pytest.approx((35 / 36) ** 2)


@pytest.mark.parametrize("name", ["distinct", "aps_crop"])
def test_all_shifts_give_the_mean_of_what_a_protocol_draws(name, net):
    cnn, x = net("subsample").eval(), torch.randn(6, 1, 24, 24, generator=torch.Generator().manual_seed(1))
    preset = PRESETS[name]
    exact = over_all(cnn, x, torch.zeros(6).long(), preset)
    own = replace(preset, per_image=True, distinct=True)
    pairs = [paired_predictions(cnn, x, own, seed) for seed in range(200)]
    drawn = torch.stack([first == second for first, second in pairs]).double().mean(0)
    # 200 draws of a share have a standard deviation of at most 0.036.
    assert (exact.distinct - drawn).abs().max() < 4 * 0.036


def test_larger_protocols_draw_pairs_for_each_image():
    model, x = CORNER, torch.randn(400, 1, 32, 32, generator=torch.Generator().manual_seed(0))
    found = over_drawn(model, x, torch.zeros(400).long(), PRESETS["zhang_cifar"], 0)
    assert (found.shifts, found.exact) == (1024, False)
    counts = set((found.same * PAIRS).round(decimals=6).tolist())
    assert counts <= set(range(PAIRS + 1)) and len(counts) > 5
    # Two pixels of noise agree half the time; 4,000 pairs, standard deviation 0.008.
    assert found.same.mean().item() == pytest.approx(0.5, abs=0.04)
    assert found.both.mean().item() == pytest.approx(0.25, abs=0.04)


def test_the_interval_covers_the_choice_of_images():
    shares = torch.tensor([1.0, 0.5, 0.75, 0.25], dtype=torch.float64)
    half = 1.959964 * shares.numpy().std(ddof=1) / 2
    assert interval(shares) == pytest.approx((max(0.625 - half, 0), min(0.625 + half, 1)))
    assert interval(torch.tensor([0.5])) == interval(torch.ones(1)) == (0.0, 1.0)
    for images in (2, 4, 512):
        exact = stats.binomtest(images, images).proportion_ci(0.95, "exact")
        assert interval(torch.ones(images).double()) == pytest.approx(tuple(exact))
        assert interval(torch.zeros(images).double()) == pytest.approx((0.0, 1 - exact.low))
    assert interval(torch.full((4,), 0.5)) == (0.5, 0.5)


def test_answers_are_those_of_images_shifted_one_by_one(net, batch):
    cnn, (x, _) = net(), batch()
    shifts = torch.tensor([[0, 0], [1, 2], [-1, 0], [3, 3], [0, -2], [5, 1]])
    moved = torch.stack([image.roll(tuple(s), (1, 2)) for image, s in zip(x, shifts.tolist(), strict=True)])
    assert torch.equal(predictions(cnn, x, shifts), cnn.eval()(moved).argmax(1))
    assert torch.equal(predictions(cnn, x, shifts[1]), cnn(x.roll((1, 2), (2, 3))).argmax(1))


def test_the_corner_sees_what_each_preset_lets_in():
    model, x = CORNER, torch.ones(300, 1, 16, 16)
    for name, preset in PRESETS.items():
        if preset.refusal((16, 16)):
            continue
        shifts = preset.draw(300, (16, 16), torch.Generator().manual_seed(4))
        got = paired_predictions(model, x, preset, 4)
        for moved, top in zip(shifts, got, strict=True):
            # Only a shift down or right brings zero to the corner, and only where zeros enter.
            let_in = (moved > 0).any(1) & (preset.border == "zeros")
            assert torch.equal(top == 0, let_in), name


def test_a_preset_says_what_it_is_and_what_it_gave():
    model, x = CORNER, torch.randn(512, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    result = by_presets(model, x, torch.zeros(512).long(), {"d": PRESETS["distinct"]}, 0)
    # The corner and another pixel of noise agree half the time.
    assert result["consistency"]["d"] == pytest.approx(0.5, abs=0.02)
    assert result["consistency"] == result["consistency_distinct"]
    own = result["presets"]["d"]
    assert (own["exact"], own["shifts"], own["per_image"], own["low"]) == (True, 49, True, -3)
    assert own["consistency_low"] < result["consistency"]["d"] < own["consistency_high"]
    assert result["consistency_given_correct"] == own["given_correct"]


def test_a_preset_that_does_not_fit_is_skipped_with_its_reason(net, batch):
    cnn, (x, labels) = net(), batch()
    presets = {name: PRESETS[name] for name in ("zhang_imagenet", "distinct")}
    result = by_presets(cnn, x, labels, presets, 0)
    assert result["consistency"].keys() == {"distinct"}
    assert result["skipped"] == {"zhang_imagenet": "needs images of at least 256x256, got 12x12"}
    fixed, x = nn.Sequential(nn.Flatten(), nn.Linear(256 * 256, 2)), torch.zeros(1, 1, 256, 256)
    result = by_presets(fixed, x, labels[:1], presets, 0)
    assert result["skipped"] == {"zhang_imagenet": "the model does not accept crops of 224x224"}


def test_relative_change_is_the_slow_obvious_number(net, batch):
    cnn, (x, _) = net(), batch()
    cnn, x = cnn.double().eval(), x.double()

    def s1(images):
        return cnn.features[1](cnn.features[0](images)).flatten(1)

    still = s1(x)
    apart = np.mean([(still[n] - still[n - 1]).norm().item() for n in range(len(x))])
    for d in (1, 2):
        ways = [(d, 0), (-d, 0), (0, d), (0, -d)]
        moved = [
            (s1(x[n : n + 1].roll(way, (2, 3)))[0] - still[n]).norm().item()
            for way in ways
            for n in range(len(x))
        ]
        got = relative_change(cnn, cnn.stages, x, 2)["s1"][str(d)]
        assert got == pytest.approx(np.mean(moved) / apart, rel=1e-12)
    # Of images that are alike nothing can be told, unless nothing moves.
    assert np.isnan(relative_change(cnn, cnn.stages, x[:1].repeat(2, 1, 1, 1), 1)["s1"]["1"])
    assert relative_change(cnn, cnn.stages, torch.ones_like(x), 1)["s1"]["1"] == 0


def test_max_pooling_of_noise_is_unchanged_as_the_law_says():
    # Of q = (k - down)(k - right) cells shared by a window and the shifted one, 2 k^2 - q are in their union:
    # the maxima are the same if the union's maximum is among the shared, q / (2 k^2 - q).
    maps = torch.rand(8, 4, 72, 72, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for k, way, share in [(2, (0, 1), 1 / 3), (2, (1, 1), 1 / 7), (3, (2, 1), 2 / 16), (2, (2, 0), 0.0)]:
        operator = pool.build("max", 4, kernel_size=k, stride=k)
        # At least 18,432 windows: standard deviation at most 0.0037.
        assert unchanged_share(operator, maps, [way]) == pytest.approx(share, abs=0.018)


def test_accuracy_under_shifts_is_counted_over_all_of_them(net):
    x = torch.randn(20, 1, 12, 12, generator=torch.Generator().manual_seed(0))
    cnn = net("subsample").eval()
    labels = cnn(x).argmax(1)
    ways = itertools.product(range(-2, 3), repeat=2)
    right = {way: cnn(x.roll(way, (2, 3))).argmax(1) == labels for way in ways}
    near = torch.stack([r for (down, across), r in right.items() if max(abs(down), abs(across)) < 2])
    result = accuracy_of_shifts(cnn, x, labels, 1, 2)
    assert result["worst_shift_accuracy"] == near.all(0).double().mean().item()
    assert result["mean_shift_accuracy"] == near.double().mean().item()
    assert result["accuracy_by_shift"]["0"] == 1.0
    ways = [right[way] for way in ((2, 0), (-2, 0), (0, 2), (0, -2))]
    assert result["accuracy_by_shift"]["2"] == torch.stack(ways).double().mean().item()
    assert accuracy_map(cnn, x, labels, 1)[0, 2] == right[-1, 1].double().mean()


def test_the_worst_shift_and_the_mean_over_shifts_of_a_hand_worked_image():
    # The corner sees the bright pixel where nothing is shifted alone, 1 of 9.
    image = -torch.ones(1, 1, 5, 5)
    image[0, 0, 0, 0] = 1
    bright, dark = (accuracy_of_shifts(CORNER, image, torch.tensor([label]), 1, 1) for label in (1, 0))
    assert (bright["worst_shift_accuracy"], dark["worst_shift_accuracy"]) == (0, 0)
    assert bright["mean_shift_accuracy"] == pytest.approx(1 / 9)
    always = accuracy_of_shifts(CORNER, -image.abs(), torch.tensor([0]), 1, 1)
    assert always["worst_shift_accuracy"] == always["mean_shift_accuracy"] == 1
    # Up and left by one it comes to the corner.
    found = accuracy_map(CORNER, image.roll((1, 1), (2, 3)), torch.tensor([1]), 1)
    assert found[0, 0] == found.sum() == 1


def test_the_probe_reports_every_stage_distance_and_preset(net, batch):
    cnn, (x, labels) = net(), batch()
    few = {"samples": 5, "stage_samples": 4, "map_samples": 3}
    probe = ShiftInvariance(presets=("distinct", "tips"), max_shift_px=2, **few)
    result = probe.measure(cnn, cnn.stages, x, labels)
    assert result["consistency"].keys() == {"distinct", "tips"}
    for quantity in ("relative_change", "unchanged_outputs"):
        assert result["stages"]["s1"][quantity].keys() == {"1", "2"}
    assert result["stages"]["s1"]["maximum_sampling_bias"] == 1.0
    used = [result[f"{kind}samples"] for kind in ("", "shift_", "map_", "stage_")]
    assert used == [5, 6, 3, 4]
    assert result["accuracy_over_shifts"] == accuracy_map(cnn, x[:3], labels[:3], 2).tolist()
    assert result["presets"]["distinct"]["model_padding"] == result["model_padding"] == ["zeros"]
    without = ShiftInvariance(samples=2, shift_samples=2, map_samples=0).measure(cnn, cnn.stages, x, labels)
    assert "accuracy_over_shifts" not in without


def test_the_border_that_is_reported_counts_the_convolutions_of_the_pooling(net):
    for edges, reported in (("zeros", ["circular", "zeros"]), ("circular", ["circular"])):
        assert paddings(net("strided", border="circular", padding_mode=edges)) == reported


def test_measurements_share_the_predictions_of_a_shift():
    x = torch.randn(6, 1, 16, 16, generator=torch.Generator().manual_seed(2))
    cnn, labels, passes = Pixel(0, 0), torch.arange(6) % 2, []
    cnn.register_forward_hook(lambda _, args, output: passes.append(len(output)))
    options = {"samples": 6, "shift_samples": 5, "map_samples": 4, "stage_samples": 2, "max_shift_px": 4}
    found = ShiftInvariance(**options).measure(cnn, {}, x, labels)
    # The square of up to 4 px has 81 shifts, each predicted once; passes for stages have 2 images.
    assert sum(images > 2 for images in passes) == 81
    apart = accuracy_of_shifts(cnn, x[:5], labels[:5], 1, 4)
    assert {key: found[key] for key in apart} == apart
    assert found["accuracy_over_shifts"] == accuracy_map(cnn, x[:4], labels[:4], 4).tolist()
