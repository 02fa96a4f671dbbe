"""The suite of published networks: ours and timm's must do the same in the same places."""

import pytest
import torch

from scripts.benchmarks import front, networks

timm = pytest.importorskip("timm")
RATIO = {"median": 2.0, "q1": 1.9, "q3": 2.1, "n": 3}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(networks, "SIZE", 64)
    monkeypatch.setattr(networks, "BATCH", 2)


@pytest.mark.parametrize("case", networks.CASES, ids=lambda case: case.title)
def test_with_filters_of_ours_and_of_timm_a_network_answers_alike(case):
    ours, theirs = (networks.network(case, side).eval() for side in ("ours", "timm"))
    replaced = [m for m in ours.modules() if isinstance(m, networks.FILTERS)]
    assert replaced and not [m for m in theirs.modules() if isinstance(m, networks.FILTERS)]
    images, _ = networks._batch()
    with torch.no_grad():
        torch.testing.assert_close(ours(images), theirs(images), rtol=1e-4, atol=1e-5)


def test_rows_hold_both_phases_beside_the_network_as_published(monkeypatch):
    monkeypatch.setattr(networks, "CASES", networks.CASES[:1])
    monkeypatch.setattr(
        networks, "peak", lambda case, side: {"published": 100, "ours": 120, "timm": 150}[side]
    )
    rows = list(networks.rows(3))
    step = rows[0]
    assert step["case"].endswith("training step") and step["wanted"] == "at most 1.05"
    assert step["ratio"]["median"] > 0 and step["against"] == "as published"
    assert [row["ratio"]["median"] for row in rows[-2:]] == [1.2, 1.5]
    assert len(rows) == 6


def test_the_first_table_takes_a_plain_script_apart_from_training():
    def results(suite, *rows, threads=1):
        machine = {"threads": threads, "date": "2026-01-01", "commit": "abc"}
        return {"suite": suite, "machine": machine, "rows": list(rows)}

    def operator(speed, **more):
        case = {"operator": "max 2/2", "layout": "contiguous", "dtype": "float32", "shape": [128, 64, 32, 32]}
        return case | {"rival": "F.max_pool2d", "speedup": RATIO | {"median": speed}} | more

    step = {"against": "as published", "ratio": RATIO | {"median": 1.04}}
    step["case"] = "ResNet-18, max_blur in place of its max pooling: training step"
    trained = {"case": "images/s, convnet, batch 128, max, 1 thread", "against": "torch's", "ratio": RATIO}
    single = {"median_ms": 8.0, "p90_ms": 9.0, "page_faults": 12.0}
    files = [
        results("kernels", trained, threads=2),
        results("pool", operator(99.0, scaling=RATIO | {"median": 1.7}), threads=2),
        results("pool", operator(14.0)),
        results("pool", operator(6.0, plain=True, single={"ours": single})),
        results("networks", step),
    ]
    lines = front.table(files).splitlines()[2:]
    figures = ["**2x**", "**14x**", "**99x**", "**1.7x**", "**6x**", "**1.04** (1.9 to 2.1, 3) of its time"]
    assert len(lines) == 6 and all(figure in line for figure, line in zip(figures, lines, strict=True))
    assert "| 1, 2026" in lines[0] and "| 2, 2026" in lines[2] and "one thread" in lines[3]
    assert "on 1 thread: ours 8.0 ms (90th percentile 9.0), 12 page faults." in front.singles(files)
