from cnnpool.probe.tags import scalars


def test_tags_are_the_documented_ones():
    gradient = {
        "s1": {
            "zero_fraction": 0.75,
            "coverage": 0.9,
            "samples": 8,
            "ties": "first",
            "winners": [0.5, 0.5],
            "before_activation": {"zero_fraction": 0.9},
        }
    }
    assert scalars("gradient", gradient) == {
        "gradient/zero_fraction/s1": 0.75,
        "gradient/coverage/s1": 0.9,
        "gradient/before_activation/zero_fraction/s1": 0.9,
    }
    invariance = {
        "consistency": {"distinct": 0.5},
        "consistency_given_correct": None,
        "worst_shift_accuracy": 0.4,
        "accuracy_by_shift": {"0": 0.8, "1": 0.7},
        "presets": {"distinct": {"border": "circular", "accuracy": 0.7, "low": -3, "per_image": True}},
        "accuracy_over_shifts": [[0.8]],
        "samples": 7,
        "seed": 0,
        "stages": {"s1": {"relative_change": {"1": 0.1, "2": 0.2}}},
    }
    assert scalars("invariance", invariance) == {
        "invariance/consistency/distinct": 0.5,
        "invariance/worst_shift_accuracy": 0.4,
        "invariance/accuracy_by_shift/0": 0.8,
        "invariance/accuracy_by_shift/1": 0.7,
        "invariance/presets/distinct/accuracy": 0.7,
        "invariance/relative_change_1px/s1": 0.1,
        "invariance/relative_change_2px/s1": 0.2,
    }
    assert scalars("cost", {"parameters": 3, "wall_s": 1.5}) == {"cost/parameters": 3, "cost/wall_s": 1.5}
    assert scalars("noise", {"noise_scale": 3.0, "stages": {"s1": {"weights_own": {"trace": 1.0}}}}) == {
        "noise/noise_scale": 3.0,
        "noise/weights_own/trace/s1": 1.0,
    }
