from pathlib import Path

import pytest

from cnnpool import pool, readout
from cnnpool.explain.example import example
from cnnpool.explain.text import text
from scripts.docs.operators import KINDS, catalogue, density

DOCS = Path(__file__).parents[2] / "docs" / "operators.md"


def test_the_committed_table_is_what_the_code_says():
    assert DOCS.read_text() == catalogue(), "run scripts/docs/operators.py"


def test_every_operator_is_of_one_kind():
    assert sorted(name for names in KINDS.values() for name in names.split()) == sorted(pool.OPERATORS)


def test_density_is_the_known_share():
    for name, expected in {"max": 0.25, "avg": 1.0, "subsample": 0.25}.items():
        assert density(pool.build(name, 16)) == expected


@pytest.mark.parametrize("name", [*pool.OPERATORS, *readout.READOUTS])
def test_every_operator_and_readout_can_be_explained_without_a_compiled_kernel(name, monkeypatch):
    monkeypatch.setattr(pool.dispatch, "_module", lambda *_: pytest.fail("users would wait for seconds"))
    shown = example(name)
    total = (shown.derivatives * shown.upstream.flatten(1)[..., None, None]).sum(1)
    assert (total - shown.gradients[:, 0]).abs().max() < 1e-9
    assert shown.formula in text(shown)


def test_what_a_shift_does_to_an_operator_that_draws_is_said_of_its_evaluation():
    for operator in pool.OPERATORS.values():
        assert operator.shift.startswith("in evaluation: ") or not operator.random
