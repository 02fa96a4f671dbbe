from cnnpool.probe.tags import scalars


def test_tags_are_the_documented_ones():
    gradient = {"s1": {"zero_fraction": 0.75, "coverage": 0.9, "samples": 8}}
    assert scalars("gradient", gradient) == {
        "gradient/zero_fraction/s1": 0.75,
        "gradient/coverage/s1": 0.9,
    }
    invariance = {
        "consistency": {"distinct": 0.5},
        "worst_shift_accuracy": 0.4,
        "samples": 7,
        "seed": 0,
        "stages": {"s1": {"relative_change": {"1": 0.1, "2": 0.2}}},
    }
    assert scalars("invariance", invariance) == {
        "invariance/consistency/distinct": 0.5,
        "invariance/worst_shift_accuracy": 0.4,
        "invariance/relative_change_1px/s1": 0.1,
        "invariance/relative_change_2px/s1": 0.2,
    }
    assert scalars("cost", {"parameters": 3, "wall_s": 1.5}) == {"cost/parameters": 3, "cost/wall_s": 1.5}
