import base64

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnnpool.run_folder.correct_bits import packed, unpacked


def test_bits_by_hand():
    record = packed(np.array([1, 0, 0, 0, 0, 0, 0, 1, 1], dtype=bool))
    assert record == {"images": 9, "bits": base64.b64encode(bytes([0b10000001, 0b10000000])).decode()}


@given(st.lists(st.booleans(), max_size=40))
def test_what_is_packed_is_unpacked(correct):
    found = unpacked(packed(np.array(correct, dtype=bool)))
    assert found.dtype == bool and found.tolist() == correct


def test_ten_thousand_images_take_less_than_two_kilobytes():
    assert len(packed(np.ones(10_000, dtype=bool))["bits"]) == 1668


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({}, "no images and bits"),
        ({"images": -1, "bits": ""}, "no images and bits"),
        ({"images": True, "bits": ""}, "no images and bits"),
        ({"images": 8, "bits": 1}, "no images and bits"),
        ({"images": 8, "bits": "?"}, "not base64"),
        ({"images": 8, "bits": "gé=="}, "not base64"),
        ({"images": 9, "bits": "gA=="}, "8 bits for 9 images"),
        ({"images": 8, "bits": "gIA="}, "16 bits for 8 images"),
        ({"images": 7, "bits": "gQ=="}, "counts more than 7 images"),
    ],
)
def test_a_record_that_is_none_is_refused(record, reason):
    with pytest.raises(ValueError, match=reason):
        unpacked(record)
