from cnnpool.probe import declared
from cnnpool.probe.tags import scalars


def tags(**results):
    return scalars(declared(), results)


def test_tags_are_the_documented_ones():
    gradient = {
        "s1": {
            "zero_fraction": 0.75,
            "coverage": 0.9,
            "samples": 8,
            "ties": "first",
            "winners": [0.5, 0.5],
            "before_activation": {"zero_fraction": 0.9},
            "weights_after": {"hoyer": 0.1},
        }
    }
    assert tags(gradient=gradient) == {
        "gradient/zero_fraction/s1": 0.75,
        "gradient/coverage/s1": 0.9,
        "gradient/before_activation/zero_fraction/s1": 0.9,
        "gradient/weights_after/hoyer/s1": 0.1,
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
    assert tags(invariance=invariance) == {
        "invariance/consistency/distinct": 0.5,
        "invariance/worst_shift_accuracy": 0.4,
        "invariance/accuracy_by_shift_0px": 0.8,
        "invariance/accuracy_by_shift_1px": 0.7,
        "invariance/presets/distinct/accuracy": 0.7,
        "invariance/relative_change_1px/s1": 0.1,
        "invariance/relative_change_2px/s1": 0.2,
    }
    assert tags(cost={"parameters": 3, "wall_s": 1.5}) == {"cost/parameters": 3, "cost/wall_s": 1.5}
    assert tags(noise={"noise_scale": 3.0, "stages": {"s1": {"weights_own": {"trace": 1.0}}}}) == {
        "noise/noise_scale": 3.0,
        "noise/weights_own/trace/s1": 1.0,
    }
    assert tags(test={"accuracy": 0.5, "loss": 1.5}) == {"test/accuracy": 0.5, "test/loss": 1.5}


def test_every_tag_finds_its_quantity_again():
    for one in declared():
        values = {"stage": "s1", "px": "2", "filters": "weights_own", "class": "cat"}
        key = one.filled(values | {"corruption": "jpeg", "severity": "5"})
        tag = one.tag_of(key)
        assert "<" not in tag and one.has_tag(tag)
        assert next(other for other in declared() if other.has_tag(tag)) is not None
