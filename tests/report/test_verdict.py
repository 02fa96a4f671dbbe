import re
from dataclasses import replace

import numpy as np
import pytest
from shelf import finished

from cnnpool.report import comparison as module
from cnnpool.report import main, render
from cnnpool.report.columns import main_columns, pair_columns
from cnnpool.report.comparison import compare
from cnnpool.report.document import headline, remarks, single_pairs

BASE = [0.90, 0.91, 0.92, 0.93, 0.94, 0.95]
LONG = [0.9, 0.91, 0.92, 0.93, 0.94, 0.95, 0.96, 0.97]


def runs_of(**pools):
    return [
        finished(pool, seed, {"test": {"accuracy": value, "loss": -value}})
        for pool, values in pools.items()
        for seed, value in enumerate(values)
    ]


def test_same_values_under_two_names_differ_by_exactly_nothing():
    row = compare(runs_of(max=LONG, other=LONG)).rows[1]
    assert row.versus.differences == [0.0] * 8
    assert (row.versus.summary.mean, row.versus.summary.sd, row.versus.pair.p) == (0.0, 0.0, 1.0)
    assert row.verdict == "no difference shown at n=8: all pairs are equal"


def test_what_is_the_same_in_all_seeds_differs_by_exactly_that():
    comparison = compare(runs_of(max=[1.0] * 4, avg=[0.25] * 4))
    assert comparison.rows[1].verdict == "differs by exactly -75.00 points at n=4"
    assert headline(comparison)[0].endswith(": differs by exactly -75.00 points for avg.")


def test_runs_without_common_seeds_are_compared_if_asked():
    runs = [
        *runs_of(max=BASE),
        *(replace(run, found=replace(run.found, seed=run.seed + 6)) for run in runs_of(avg=BASE)),
    ]
    paired, apart = compare(runs), compare(runs, independent=True)
    assert paired.rows[1].verdict == "too few seeds (0, at least 3 are needed)"
    assert paired.notes[0].endswith("; --seed none compares runs without pairs, from 5 of each")
    assert apart.rows[1].verdict.startswith("no difference shown at n=6; the small") and not apart.notes
    assert "interval, over the seeds alone." in render.pages(apart, [], [])["report.md"]
    assert "not paired" in headline(apart)[0] and "not paired" not in headline(paired)[0]
    same = compare(runs_of(max=[1.0] * 5, avg=[1.0] * 5), independent=True)
    assert same.rows[1].verdict == "no difference shown at n=5: all runs are equal"


def test_no_difference_beyond_what_is_possible_is_named_nor_taken_as_margin():
    runs = runs_of(max=[0.1, 0.9, 0.4], wild=[0.8, 0.1, 0.7])
    row = compare(runs).rows[1]
    assert row.verdict == "no difference shown at n=3; the smallest it could show is more than is possible"
    assert "–" in [column.cells[0] for column in pair_columns(compare(runs))]
    assert compare(runs, margin=0.99).rows and compare(runs, metric="test.loss", margin=1).rows
    with pytest.raises(ValueError, match="margin 1: test accuracy cannot differ by more than 1; one perc"):
        compare(runs, margin=1)


def test_where_less_is_better_a_smaller_value_is_superior():
    better = [value + 0.1 for value in LONG]
    for metric in ("test.accuracy", "test.loss"):
        versus = compare(runs_of(max=LONG, better=better), metric=metric).rows[1].versus
        assert versus.superiority == 1.0 and versus.superiority_interval[0] > 0.5


def test_two_seeds_decide_nothing_and_leave_every_test_empty():
    comparison = compare(runs_of(max=LONG[:2], bad=[0.7, 0.72]))
    assert comparison.rows[1].verdict == "too few seeds (2, at least 3 are needed)"
    cells = {column.header: column.cells[0] for column in pair_columns(comparison)}
    shown = next(cells.pop(name) for name in list(cells) if name.startswith("smallest difference"))
    assert cells.pop("pairs") == "2" and cells.pop("choice") == "bad"
    assert cells.pop("probability of being better with another seed [95 % CI]") == "0.00 [0.00, 0.84]"
    assert shown == "–" and cells == {"p, not corrected": "–"}


def test_six_seeds_show_three_differences():
    worse = [value - 0.1 - 0.001 * k for k, value in enumerate(LONG[:6])]
    five = compare(runs_of(max=LONG[:5], bad=worse[:5])).rows[1]
    assert five.verdict == "worse" and five.rank is None
    three = compare(runs_of(max=LONG[:6], a=worse, b=worse, c=worse))
    assert [row.verdict for row in three.rows] == ["baseline", "worse", "worse", "worse"]
    assert [(row.rank.low, row.rank.high) for row in three.rows] == [(1, 1), (2, 4), (2, 4), (2, 4)]


def test_what_passes_alone_need_not_pass_among_five():
    # Mean .01, sd .01: t = 2.83 of 7 degrees of freedom, p = .0255.
    shifts = np.array([1, -1, 1, -1, 1, -1, 1, -1]) * 0.01 * np.sqrt(7 / 8) + 0.01
    up = [value + shift for value, shift in zip(LONG, shifts, strict=True)]
    alone = compare(runs_of(max=LONG, up=up)).rows[1]
    assert (alone.versus.pair.p, alone.verdict) == (pytest.approx(0.0255, abs=5e-4), "better")
    many = compare(runs_of(max=LONG, a=up, b=up, c=up, d=up)).rows[1]
    # Ten pairs, of which six are of equal choices.
    assert many.versus.pair.adjusted == pytest.approx(10 * alone.versus.pair.p)
    assert many.versus.summary.low > 0
    size = f"{100 * many.versus.detectable:.2f} points"
    assert many.verdict == f"no difference shown at n=8; the smallest it could show: {size}"
    assert (many.rank.low, many.rank.high) == (1, 5)


def test_a_run_without_a_number_is_shown_and_forbids_a_verdict():
    comparison = compare(runs_of(max=LONG, broken=[float("nan"), *LONG[1:]]))
    row = comparison.rows[1]
    assert row.broken == [0]
    assert row.summary.n == 7
    assert row.summary.mean == pytest.approx(np.mean(LONG[1:]))
    assert row.verdict == "not judged: 1 seed without a number"
    said = "broken: test accuracy is NaN for seed 0; left out of all means"
    assert said in comparison.notes
    # Other tables have the same means, and a further metric has its own sentences.
    for run in comparison.compared:
        run.measured["test"]["loss"] = 1.0
    other = compare(comparison.runs, metric="test.loss,test.accuracy")
    assert other.rows[1].others["test.accuracy"].mean == row.summary.mean and said in other.notes
    assert remarks(other)[-1].startswith("No places") and remarks(other.each[1])[-1].startswith("No ranking")
    [_, below] = render.text(other, width=200, colour=False).split("test accuracy (%)")
    page = render.pages(other, [], [])["report.md"]
    assert all("No ranking: a value is not a number." in one for one in (below, page))
    assert [f"Against max: {one}" in page for one in (other.metric.title, "test accuracy")] == [True, True]


def test_a_copy_of_a_comparison_judges_no_metric_again(monkeypatch):
    calls = []
    decide = module.decide
    monkeypatch.setattr(module, "decide", lambda *some, **more: calls.append(1) or decide(*some, **more))
    found = compare(runs_of(max=LONG, avg=[0.5] * 8), metric="test.loss,test.accuracy")
    copied = replace(found, notes=[*found.notes, "one more"])
    assert [one.metric.key for one in copied.each] == ["test.loss", "test.accuracy"]
    assert [one.rows for one in copied.each] == [one.rows for one in found.each]
    assert len(headline(copied)) == len(calls) == 2


def test_a_seed_that_diverged_forbids_a_verdict_and_a_choice_that_did_has_a_row():
    runs = runs_of(max=LONG, avg=[0.5 + 0.01 * k for k in range(8)], wild=LONG[:3])
    for place, run in enumerate(runs):
        if run.folder.parts[1:] == ("avg", "4") or run.folder.parts[1] == "wild":
            found = replace(run.found, measured={}, epochs=None)
            runs[place] = replace(run, state="failed", reason="the loss became nan", found=found)
    comparison = compare(runs)
    assert [row.verdict for row in comparison.rows[1:]] == [
        "not judged: 1 seed without a number", "not judged: 3 seeds without a number",
    ]  # fmt: skip
    assert main_columns(comparison)[1].cells == ["8", "7 (1 diverged)", "0 (3 diverged)"]
    assert "avg: diverged for seed 4; left out of all means" in comparison.notes
    assert "runs/avg/4: failed: the loss became nan" in comparison.notes
    assert "15 compared, 19 found" in render.pages(comparison, [], [])["report.md"]
    with pytest.raises(ValueError, match="'wild' is not among the choices: 'avg', 'max'"):
        compare(runs, against="wild")
    for some, where in ((runs[-3:], []), (runs, ["pool=wild"])):
        with pytest.raises(ValueError, match=r"no finished run among 3 \(3 failed\)"):
            compare(some, where=where)
    # A seed of the baseline that diverged is no lack of a partner; results of probes need not wait for it.
    assert not any("partner" in note for note in compare(runs[:16], against="avg").notes)
    probed = replace(runs[0], found=replace(runs[0].found, examined={"data": "digits"}))
    assert compare([probed, *runs[-3:]]).compared == [probed]


def moved(by, spread):
    """Values that differ from BASE by ``by`` on average, not always by the same."""
    return [value + by + sign * spread for value, sign in zip(BASE, [1, -1, 1, -1, 1, -1], strict=True)]


def test_a_named_baseline_alone_decides_how_many_comparisons_are_corrected():
    pools = {f"other{n}": moved(0.001 * n, 0.01) for n in range(4)}
    runs = runs_of(max=BASE, near=moved(0.013, 0.01), **pools)
    named, every = compare(runs, against="max"), compare(runs)
    of = {row.choice.label: row for row in named.rows}, {row.choice.label: row for row in every.rows}
    assert {row["near"].versus.family for row in of} == {5, 15}
    assert of[0]["near"].versus.pair.p == of[1]["near"].versus.pair.p
    assert of[0]["near"].versus.pair.adjusted == pytest.approx(5 * of[0]["near"].versus.pair.p)
    assert of[1]["near"].versus.pair.adjusted > of[0]["near"].versus.pair.adjusted
    assert not any(row.rank for row in named.rows) and all(row.rank for row in every.rows)
    pages = [render.pages(one, [], [])["report.md"] for one in (named, every)]
    said = [re.search(r"^- \*\*Differences\*\*: (.*)$", page, re.MULTILINE)[1] for page in pages]
    assert "the comparisons with the baseline" in said[0] and "all pairs of choices" in said[1]
    assert of[1]["near"].versus.summary.low > 0 and of[1]["near"].verdict.startswith("no difference shown")
    assert single_pairs(every) == [
        "The interval of the pair alone excludes 0 for near (p = 0.034), but of 15 comparisons some would do "
        "so by chance: corrected for them, no difference is shown."
    ]
    assert remarks(every)[-1] == "No places: no two choices are shown to differ."
    # A choice of two seeds is compared with none.
    three = compare(runs_of(max=BASE, near=moved(0.1, 0.01), far=moved(0.2, 0.01), few=[0.9, 0.91]))
    said = "3 comparisons, all pairs of choices with enough runs; with a named baseline there are 2."
    assert any(line.endswith(said) for line in remarks(three))
    # Of six choices one is far below all others.
    crowd = compare(runs_of(max=BASE, low=moved(-0.5, 0.02), **pools))
    assert remarks(crowd)[-1] == "Place among 6, simultaneous 95 % intervals: low 6; all others 1–5."


def test_the_first_sentence_says_what_differs_and_what_is_not_shown():
    runs = runs_of(max=BASE, low=moved(-0.05, 0.002), same=moved(0, 0.01))
    [sentence] = headline(compare(runs, against="max"))
    assert sentence == (
        "Test accuracy (6 seeds; max 92.50 %): low is 5.00 points below [-5.23, -4.77]; "
        "no difference shown for same."
    )


def test_too_few_seeds_and_a_single_choice_have_sentences():
    few = compare(runs_of(max=BASE[:2], low=[0.1, 0.2]))
    assert headline(few) == ["Test accuracy (2 seeds; max 90.50 %): too few seeds for low."]
    assert headline(compare(runs_of(max=BASE))) == ["Test accuracy: 92.50 % (6 seeds)."]


def test_consistency_and_cost_follow_accuracy_and_the_terminal_shows_the_rest_on_request(
    shelf, capsys, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "200")
    for seed in range(6):
        for pool, share, flops in (("max", 0.9, 100), ("low", 0.8 + 0.001 * seed, 150)):
            own = {"invariance": {"consistency": {"distinct": share + 0.01 * (seed % 2)}}}
            own |= {"accuracy": 0.9 - 0.001 * seed, "cost": {"flops": flops, "parameters": 7}}
            shelf.put(f"{pool}/seed{seed}", pool=pool, seed=seed, **own)
    assert main([str(shelf.root), "--baseline", "max"]) == 0
    first, second, third, *rest = capsys.readouterr().out.splitlines()
    assert first == "Test accuracy (6 seeds; max 89.75 %): no difference shown for low."
    assert second.startswith("Consistency (distinct) (6 seeds; max 90.50 %): low is 9.75 points below")
    assert third == "Cost: 100 FLOPs for max; 50 % more for low."
    assert not any("parameters" in line for line in rest)
    assert main([str(shelf.root), "--baseline", "max", "--all", "--metric", "consistency"]) == 0
    found = capsys.readouterr().out
    assert "parameters" in found and found.startswith("Consistency (distinct) (6 seeds")
