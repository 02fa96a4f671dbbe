import json

from cnnpool.quantity import Quantity, fraction, from_records, ratio, records

CHANGE = ratio("probe.stages.<stage>.change.<px>", "change at <px> px", "How far it moves.", better="lower")
ZERO = fraction("gradient.<stage>.zero", "zero gradient", "Zeros divided by all entries.", stages="max")
WHOLE = Quantity("probe.scale", "scale", "A scale.", unit="images", timed=True, range=(1.0, None))


def test_a_key_is_matched_part_by_part():
    for one, key, values in (
        (CHANGE, "probe.stages.s1.change.2", {"stage": "s1", "px": "2"}),
        (CHANGE, "probe.stages.*.change.1", {"stage": "*", "px": "1"}),
        (CHANGE, "probe.stages.s1.change", None),
        (CHANGE, "other.stages.s1.change.2", None),
        (CHANGE, "probe.stages.s1.s2.change.2", None),
        (WHOLE, "probe.scale", {}),
        (WHOLE, "probexscale", None),
    ):
        assert one.values(key) == values, key


def test_title_and_tag_name_the_place():
    for one, key, title, tag in (
        (CHANGE, "probe.stages.s1.change.2", "change at 2 px, stage s1", "probe/change_2px/s1"),
        (CHANGE, "probe.stages.*.change.2", "change at 2 px, mean of stages", "probe/change_2px/*"),
        (ZERO, "gradient.*.zero", "zero gradient, max of stages", "gradient/zero/*"),
        (ZERO, "gradient.s2.zero", "zero gradient, stage s2", "gradient/zero/s2"),
        (WHOLE, "probe.scale", "scale", "probe/scale"),
    ):
        assert (one.title_of(key), one.tag_of(key), one.has_tag(tag)) == (title, tag, True)


def test_what_a_run_writes_is_read_back_the_same():
    results = {"probe": {"scale": 2, "stages": {"s1": {"change": {"1": None}}}}, "seed": 3}
    written = json.loads(json.dumps(records([CHANGE, ZERO, WHOLE], results)))
    assert written["probe.scale"] == {
        "title": "scale", "definition": "A scale.", "unit": "images", "range": [1.0, None], "timed": True
    }  # fmt: skip
    # The zero fraction was not measured.
    assert from_records(written) == [CHANGE, WHOLE]
    split = fraction("<split>.f1", "F1", "F1 of at most <most> images.")
    assert records([split], {"test": {"f1": 0.5, "most": 9}})["<split>.f1"]["definition"] == split.definition


def test_a_record_of_another_version_is_read_as_far_as_it_goes():
    written = {"a.b": {"title": "t", "definition": "d.", "colour": "red"}, "c": 3, "d": {}}
    assert from_records(written) == [Quantity("a.b", "t", "d.")]
