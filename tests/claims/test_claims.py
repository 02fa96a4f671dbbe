"""Every claim judged on runs whose outcome is known, both ways."""

import csv
import inspect
import json

import pytest

from cnnpool import cli
from cnnpool.claims import CLAIMS, Evidence, finding, judge, settle
from cnnpool.report import find, main

FEW, ENOUGH = range(3), range(10)


def operator(name, kernel=2, stride=2, **options):
    return {"name": name, "kernel_size": kernel, "stride": stride, **options}


@pytest.fixture
def put(shelf):
    """Finished runs of one choice; what is measured is given as a function of the seed."""

    def put(
        pool, seeds=ENOUGH, *, accuracy=lambda seed: 0.9, train=None, consistency=None, alias=None, **rest
    ):
        gradient, change = rest.pop("gradient", {}), rest.pop("change", None)
        unchanged, bias = rest.pop("unchanged", {}), rest.pop("bias", None)
        presets = {"distinct": consistency, "one_px": rest.pop("one_px", None)}
        corruptions = rest.pop("corruptions", {})
        home = rest.pop("home", None) or f"home{len(list(shelf.root.glob('*')))}"
        for seed in seeds:
            stage = {"unchanged_outputs": unchanged}
            if change:
                stage["relative_change"] = {"1": change(seed)}
            if bias:
                stage["maximum_sampling_bias"] = bias(seed)
            shelf.put(
                f"{home}/seed{seed}",
                pool=pool,
                seed=seed,
                stages={"s1": pool},
                accuracy=accuracy(seed),
                train={"accuracy": train(seed)} if train else {},
                gradient={"s1": {key: value(seed) for key, value in gradient.items()}},
                invariance={
                    "stages": {"s1": stage},
                    "consistency": {name: value(seed) for name, value in presets.items() if value},
                },
                corruptions={name: value(seed) for name, value in corruptions.items()},
                aliasing={"stages": {"s1": {"alias_energy_ratio": alias(seed)}}} if alias else {},
                **rest,
            )

    return put


@pytest.fixture
def told(shelf):
    def told(name, allow=()):
        return finding(name, Evidence(find([shelf.root]), allow))

    return told


def about(middle, width=0.001):
    """A number by seed that wavers around ``middle``."""
    return lambda seed: middle + width * (-1) ** seed * (1 + seed / 10)


def words(found):
    return {case.when: case.word for case in found.cases}


def test_max_is_sparse_where_windows_lie_edge_to_edge_and_not_where_they_overlap(put, told):
    put(operator("max"), gradient={"zero_fraction": about(0.75)})
    assert told("max_is_sparse").verdict == "holds (1 of 1 cases)"
    # 1 - 1/9 = .889; measured for 3 x 3 windows at stride 2: .838.
    put(operator("max", 3), gradient={"zero_fraction": about(0.838)})
    found = told("max_is_sparse")
    assert found.verdict == "holds only when windows lie edge to edge (1 of 2 cases)"
    assert words(found) == {"windows lie edge to edge": "yes", "windows overlap": "no"}
    assert [case.expected for case in found.cases] == ["75.00 %", "88.89 %"]


def test_a_network_that_pools_before_its_relu_is_judged_apart(put, told):
    put(operator("max"), gradient={"zero_fraction": about(0.75)})
    put(operator("max"), gradient={"zero_fraction": about(0.88)}, model={"name": "airbench"})
    put(
        operator("max"),
        gradient={"zero_fraction": about(0.75)},
        model={"name": "sprint", "activation": "silu"},
    )
    put(
        {"name": "subsample", "stride": 2},
        gradient={"zero_fraction": about(0.88)},
        model={"name": "airbench"},
    )
    found = told("max_is_sparse")
    assert words(found) == {
        "windows lie edge to edge": "yes",
        "windows lie edge to edge, a ReLU follows": "no",
    }
    assert len(found.cases) == 3
    assert words(told("strided_is_sparse")) == {
        "the kernel is smaller than the stride, a ReLU follows": "yes"
    }


def test_a_convolution_with_a_relu_of_its_own_is_judged_apart(put, told):
    put(operator("depthwise", 3, activation="relu"), gradient={"zero_fraction": lambda seed: 0.4})
    put(operator("depthwise", 3, activation="none"), gradient={"zero_fraction": lambda seed: 0.0})
    assert words(told("strided_is_sparse")) == {
        "the kernel is no smaller than the stride, a ReLU follows": "yes",
        "the kernel is no smaller than the stride": "no",
    }


def test_max_is_not_sparse_where_no_zero_is(put, told):
    put(operator("max"), gradient={"zero_fraction": about(0.1)})
    assert told("max_is_sparse").verdict == "does not hold (0 of 1 cases)"


def test_strided_convolution_is_sparse_only_below_the_stride(put, told):
    put(operator("strided", 3), gradient={"zero_fraction": lambda seed: 0.0})
    assert told("strided_is_sparse").verdict == "does not hold (0 of 1 cases)"
    put({"name": "subsample", "stride": 2}, gradient={"zero_fraction": lambda seed: 0.75})
    assert told("strided_is_sparse").verdict == (
        "holds only when the kernel is smaller than the stride (1 of 2 cases)"
    )


@pytest.mark.parametrize(("share", "verdict"), [(0.995, "holds"), (0.5, "does not hold")])
def test_small_shifts_go_unnoticed_or_do_not(put, told, share, verdict):
    put(operator("max"), FEW, unchanged={"1": share, "2": 0.1})
    found = told("small_shifts")
    assert found.verdict.startswith(verdict)
    # A shift by 2 is not below a window of 2; q = 2, 2 / (8 - 2).
    assert [case.expected for case in found.cases] == ["100 %; independent values: 33.3 %"]


@pytest.mark.parametrize(("gain", "word"), [(0.1, "yes"), (-0.1, "no"), (0.0, "cannot be told")])
def test_max_is_more_invariant_than_average_or_less_or_nothing_is_shown(put, told, gain, word):
    put(operator("max"), change=about(0.3 - gain), consistency=about(0.8 + gain))
    put(operator("avg"), change=about(0.3, 0.003), consistency=about(0.8, 0.003))
    # Another window is no partner.
    put(operator("avg", 3), change=about(0.9), consistency=about(0.1))
    found = told("max_over_average")
    assert words(found) == {"measured at stage s1": word, "measured at the answer": word}
    assert [round(case.summary.mean, 2) for case in found.cases] == [-gain, gain]


def test_a_difference_of_few_seeds_decides_nothing(put, told):
    for name, value in (("max", 0.9), ("avg", 0.5)):
        put(operator(name), range(2), accuracy=about(value))
    found = told("max_wins")
    assert found.verdict == "cannot be told from these runs: too few seeds"
    assert found.open and "pool=max,avg" in found.needs


@pytest.mark.parametrize(("accuracy", "verdict"), [(0.95, "holds"), (0.85, "does not hold")])
def test_max_wins_or_loses(put, told, accuracy, verdict):
    put(operator("max"), accuracy=about(accuracy))
    put(operator("avg"), accuracy=about(0.9, 0.002))
    assert told("max_wins").verdict == f"{verdict} ({int(accuracy > 0.9)} of 1 cases)"


@pytest.mark.parametrize(("parameters", "verdict"), [(20_000, "holds"), (90_000, "cannot be told")])
def test_global_average_saves_at_least_the_difference(put, told, parameters, verdict):
    put(operator("max"), FEW, cost={"parameters": 100_000})
    later = {"commit": "later", "cnnpool": "0.1.0"}
    put(operator("max"), FEW, readout={"name": "gap"}, cost={"parameters": parameters}, environment=later)
    found = told("global_average")
    assert found.verdict.startswith(verdict)
    assert found.cases[0].summary.mean == pytest.approx(1 - parameters / 100_000)


@pytest.mark.parametrize(("dense", "word"), [(12_000, "yes"), (50_000, "no")])
def test_global_average_is_judged_by_the_dense_parameters_where_they_are_known(put, told, dense, word):
    put(operator("max"), FEW, cost={"parameters": 100_000, "classifier_parameters": dense})
    put(operator("max"), FEW, readout={"name": "gap"}, cost={"parameters": 90_000})
    assert [case.word for case in told("global_average").cases] == [word]


@pytest.mark.parametrize(("gap", "word"), [(0.01, "yes"), (0.09, "no"), (0.05, "cannot be told")])
def test_overlap_narrows_the_gap_or_widens_it_or_nothing_is_shown(put, told, gap, word):
    put(operator("max"), accuracy=lambda seed: 0.9, train=about(0.95, 0.002))
    put(operator("max", 3), accuracy=lambda seed: 0.9, train=about(0.9 + gap))
    # Windows edge to edge at stride 3 make another map.
    put(operator("max", 3, 3), accuracy=lambda seed: 0.9, train=about(0.9))
    assert words(told("overlap_regularises")) == {"max pooling": word}


@pytest.mark.parametrize(
    ("accuracy", "word"), [(0.95, "yes"), (0.8995, "yes"), (0.88, "no")], ids=["better", "alike", "worse"]
)
def test_a_stride_instead_of_pooling_costs_nothing_or_something(put, told, accuracy, word):
    put(operator("max", 3), accuracy=about(0.9, 0.002))
    put(operator("strided", 3), accuracy=about(accuracy))
    found = told("strided_instead")
    assert [(case.when, case.word) for case in found.cases] == [
        ("a strided convolution takes the place of pooling (All-CNN)", word)
    ]


def test_no_loss_is_not_shown_where_one_could_hide(put, told):
    put(operator("max", 3), accuracy=about(0.9, 0.03))
    put(operator("strided", 3), accuracy=lambda seed: 0.9)
    assert told("strided_instead").verdict == "cannot be told from these runs: nothing is shown either way"


@pytest.mark.parametrize(("coverage", "verdict"), [(0.999, "holds"), (0.7, "does not hold")])
def test_a_batch_covers_all_inputs_or_does_not(put, told, coverage, verdict):
    seen = {"coverage": about(coverage, 1e-5), "coverage_iid": lambda seed: 1.0, "samples": lambda seed: 128}
    put(operator("max"), gradient={"zero_fraction": lambda seed: 0.75, **seen})
    # The claim is about maxima.
    put(operator("avg"), gradient={"zero_fraction": lambda seed: 0.0, **seen})
    found = told("batch_covers")
    assert found.verdict == f"{verdict} ({int(coverage > 0.9)} of 1 cases)"
    assert found.cases[0].what == "inputs reached by 128 images"
    put(operator("max", ties="split"), gradient={"zero_fraction": lambda seed: 0.5, **seen})
    assert [case.when for case in told("batch_covers").cases] == [
        "max 2/2 works on digits",
        "max 2/2 ties=split works on digits",
    ]


@pytest.mark.parametrize(("ratio", "verdict"), [(0.0002, "holds"), (0.02, "does not hold")])
def test_average_aliases_or_does_not(put, told, ratio, verdict):
    put(operator("avg"), alias=about(ratio, ratio / 10))
    assert told("average_is_clean").verdict == f"{verdict} ({int(ratio < 0.001)} of 1 cases)"


def test_blur_is_invariant_only_where_nothing_sees_positions(put, told):
    put(operator("blur"), consistency=about(0.9))
    assert told("blur_is_invariant").verdict == "does not hold (0 of 1 cases)"
    circular = {"name": "convnet", "padding_mode": "circular"}
    put(operator("blur"), model=circular, readout={"name": "gap"}, consistency=lambda seed: 1.0)
    assert told("blur_is_invariant").verdict == (
        "holds only when padding is circular and the readout knows no positions (1 of 2 cases)"
    )


@pytest.mark.parametrize(("consistency", "verdict"), [(0.9, "holds"), (0.7, "does not hold")])
def test_blur_improves_or_worsens(put, told, consistency, verdict):
    put(operator("max"), consistency=about(0.8, 0.002))
    put(operator("max_blur"), consistency=about(consistency))
    # Not a partner of max, but of avg and subsample.
    put(operator("blur"), consistency=about(0.2))
    assert told("blur_improves").verdict == f"{verdict} ({int(consistency > 0.8)} of 1 cases)"


@pytest.mark.parametrize(("accuracy", "verdict"), [(0.92, "holds"), (0.85, "does not hold")])
def test_blur_gains_accuracy_or_loses_it(put, told, accuracy, verdict):
    put(operator("max"), accuracy=about(0.9, 0.002))
    put(operator("max_blur"), accuracy=about(accuracy, 0.002))
    found = told("blur_accurate")
    assert found.verdict == f"{verdict} ({int(accuracy > 0.9)} of 1 cases)"
    assert found.cases[0].number.startswith(f"{100 * (accuracy - 0.9):+.2f} [")


def test_each_blur_is_compared_with_the_same_without_it(put, told):
    for name, value in (
        ("conv_blur", 0.9),
        ("strided", 0.8),
        ("blur", 0.7),
        ("avg", 0.6),
        ("subsample", 0.5),
    ):
        put(operator(name), consistency=about(value, 0.001 + value / 1000))
    found = told("blur_improves")
    assert words(found) == {
        "conv_blur takes the place of strided": "yes",
        "blur takes the place of avg": "yes",
        "blur takes the place of subsample": "yes",
    }


@pytest.mark.parametrize(("consistency", "verdict"), [(0.9, "holds"), (0.7, "does not hold")])
def test_blur_helps_under_real_shifts_by_a_pixel_or_harms(put, told, consistency, verdict):
    # Under circular shifts it is the other way round, which is another claim.
    put(operator("max"), consistency=about(consistency), one_px=about(0.8, 0.002))
    put(operator("max_blur"), consistency=about(0.8, 0.002), one_px=about(consistency))
    found = told("blur_one_px")
    assert found.verdict == f"{verdict} ({int(consistency > 0.8)} of 1 cases)"
    assert words(found).keys() == {"max_blur takes the place of max"}


def test_real_shifts_are_not_judged_where_images_are_too_small_for_them(put, told):
    for name in ("max", "max_blur"):
        put(operator(name), consistency=about(0.8))
    assert told("blur_one_px").verdict == "cannot be told from these runs: none of them tests it"


def test_robustness_is_judged_by_consistency_and_by_accuracy_apart(put, told):
    put(operator("avg"), corruptions={"consistency": about(0.8, 0.002), "accuracy": about(0.7, 0.002)})
    put(operator("blur"), corruptions={"consistency": about(0.9), "accuracy": about(0.6)})
    found = told("blur_robust")
    assert words(found) == {
        "blur takes the place of avg, judged by consistency": "yes",
        "blur takes the place of avg, judged by accuracy": "no",
    }
    assert found.verdict == (
        "holds only when blur takes the place of avg, judged by consistency (1 of 2 cases)"
    )


FOUR = ("max", "subsample", "aps", "blur")


def biased(put, sense=-1, names=FOUR, **rest):
    """Operators of bias 1, 0.75, 0.5 and so on, whose consistencies stand in the same or opposite order."""
    for place, name in enumerate(names):
        put(
            operator(name),
            bias=about(1 - place / 4, 0.01),
            consistency=about(0.8 - sense * place / 20, 0.01),
            **rest,
        )


@pytest.mark.parametrize(("sense", "word"), [(-1, "yes"), (1, "no")])
def test_the_bias_to_maxima_goes_against_consistency_or_with_it(put, told, sense, word):
    biased(put, sense)
    # A convolution has no bias, and a choice at another stride another network.
    put(operator("strided"), consistency=about(0.1))
    put(operator("max", 3, 3), bias=about(1.0), consistency=about(0.9))
    [case] = told("maximum_bias").cases
    assert (case.word, case.summary.n, case.summary.mean) == (word, 10, pytest.approx(sense))
    assert case.when == "the network is convnet, with stride 2 x 2"
    assert case.where.endswith("max 2/2, subsample 2/2, aps 2/2, blur 2/2")
    assert len(case.runs) == 40 and case.number == f"{sense} [{sense}, {sense}]"


def test_the_correlation_is_that_of_ranks_seed_by_seed(put, told):
    # Ranks of consistency by falling bias: in even seeds 1 3 2 4, so 0.8 by hand, in odd ones 4 2 3 1.
    values = {"max": 1, "subsample": 3, "aps": 2, "blur": 4}
    for place, (name, rank) in enumerate(values.items()):
        put(
            operator(name),
            bias=lambda seed, place=place: 1 - place / 4,
            consistency=lambda seed, rank=rank: 0.5 + (rank if seed % 2 == 0 else 5 - rank) ** 3 / 500,
        )
    [case] = told("maximum_bias").cases
    assert case.word == "cannot be told"
    # Ten seeds: five times -0.8, five times 0.8.
    assert case.summary.mean == pytest.approx(0)
    assert case.summary.sd == pytest.approx(0.8 * (10 / 9) ** 0.5)


def test_three_operators_are_too_few_for_a_correlation_however_many_sizes_they_have(put, told):
    biased(put, names=FOUR[:3])
    put(operator("max", 3), bias=about(1.0), consistency=about(0.7))
    assert told("maximum_bias").verdict == "cannot be told from these runs: none of them tests it"


def test_operators_that_all_measure_the_same_correlate_with_nothing(put, told):
    for name in FOUR:
        put(operator(name), bias=lambda seed: 0.0, consistency=about(0.8))
    assert not told("maximum_bias").cases


def test_the_bias_is_the_mean_over_the_stages_that_have_one(shelf, told):
    biases = {"max": (1, 1), "subsample": (0.6, None), "aps": (0.1, 0.7), "blur": (0.2, 0.2)}
    for place, (name, (first, second)) in enumerate(biases.items()):
        stages = {"s1": {"maximum_sampling_bias": first}}
        stages["s2"] = {"constant_windows": 1.0} if second is None else {"maximum_sampling_bias": second}
        # By the first stage alone aps and blur would change places, with 0 for none aps and subsample.
        for seed in FEW:
            shelf.put(
                pool=operator(name),
                seed=seed,
                stages={stage: operator(name) for stage in stages},
                invariance={"stages": stages, "consistency": {"distinct": 0.5 + place / 10}},
            )
    [case] = told("maximum_bias").cases
    assert (case.word, case.summary.mean) == ("yes", pytest.approx(-1))


@pytest.mark.parametrize(
    ("coverage", "zeros", "expected"), [(0.8, 0.0, ["yes", "yes"]), (0.25, 0.6, ["no", "no"])]
)
def test_examples_are_routed_by_themselves_and_the_mean_is_dense_or_neither(
    put, told, shelf, coverage, zeros, expected
):
    measured = {"zero_fraction": lambda seed: 0.75, "coverage": lambda seed: coverage}
    put(operator("max"), FEW, gradient=measured)
    for path in shelf.root.rglob("results.json"):
        content = json.loads(path.read_text())
        content["gradient"]["s1"]["weights_before"] = {"zero_fraction": zeros}
        path.write_text(json.dumps(content))
    found = told("routed_then_averaged")
    assert [case.word for case in found.cases] == expected
    assert found.cases[0].number == f"{100 * (coverage - 0.25):+.2f} [{100 * (coverage - 0.25):+.2f}, " + (
        f"{100 * (coverage - 0.25):+.2f}] points"
    )


def test_runs_under_other_circumstances_are_no_partners(put, told):
    put(operator("max"), accuracy=about(0.95))
    put(operator("avg"), accuracy=about(0.9), data={"name": "digits", "batch_size": 7})
    assert told("max_wins").verdict == "cannot be told from these runs: none of them tests it"
    assert told("max_wins", ["data.batch_size"]).verdict == "holds (1 of 1 cases)"


def test_options_that_a_name_does_not_show_tell_choices_apart(put, told):
    put(operator("max", padding=0), home="a", accuracy=about(0.95))
    put(operator("max", padding=1), home="b", accuracy=about(0.85))
    put(operator("avg"), home="c", accuracy=about(0.9, 0.002))
    found = told("max_wins")
    assert [case.word for case in found.cases] == ["yes", "no"]
    assert '"padding": 1' in found.cases[1].where


def test_stages_with_operators_of_their_own_are_judged_by_these(shelf, told):
    for seed in FEW:
        shelf.put(
            pool=operator("avg"),
            seed=seed,
            stages={"s1": operator("max"), "s2": operator("avg")},
            gradient={"s1": {"zero_fraction": 0.75}, "s2": {"zero_fraction": 0.0}},
        )
    assert [case.where for case in told("max_is_sparse").cases] == [
        "digits, convnet, flatten: max 2/2, stage s1"
    ]


def test_bare_runs_settle_nothing_and_break_nothing(shelf):
    shelf.put(stages={}, gradient={}, invariance={}, cost={}, environment={}, val={}, overrides=[])
    findings = settle(find([shelf.root]))
    assert [one.name for one in findings] == list(CLAIMS)
    assert {one.verdict for one in findings} == {"cannot be told from these runs: none of them tests it"}


@pytest.mark.parametrize("name", CLAIMS)
def test_a_claim_says_what_is_measured_judged_and_needed(name):
    parts = inspect.getdoc(CLAIMS[name]).split("\n\n")
    assert [part.split(":")[0] for part in parts[1:]] == ["Measured", "Rule", "Needs"]
    assert "cnnpool train -m experiment=claims" in parts[-1]


def test_the_command_prints_and_writes_verdicts_with_number_seeds_data_machine_and_command(
    put, shelf, tmp_path, capsys
):
    put(operator("max"), FEW, gradient={"zero_fraction": lambda seed: 0.75})
    assert main([str(shelf.root), "--claims", "--out", str(tmp_path / "r")], judge) == 0
    out = capsys.readouterr().out
    assert "  holds (1 of 1 cases)\n" in out
    assert "  run: cnnpool train -m experiment=claims pool=max,avg" in out
    assert "  more seeds: " not in out
    page = (tmp_path / "r" / "claims.md").read_text()
    [row] = [line for line in page.splitlines() if "max 2/2, stage s1 |" in line]
    assert row.endswith(r"| 75.00 \[75.00, 75.00\] % | 0 | 3 | 75.00 % |")
    assert "digits (0123456789ab)" in page and "device cpu" in page
    assert "cnnpool train -m pool=max seed=0,1,2" in page
    content = json.loads((tmp_path / "r" / "claims.json").read_text())
    [case] = content["claims"][0]["cases"]
    assert (case["n"], case["mean"], case["holds"], len(case["runs"])) == (3, 0.75, True, 3)
    assert "<h1>" in (tmp_path / "r" / "claims.html").read_text()
    [row] = csv.DictReader((tmp_path / "r" / "claims.csv").read_text().splitlines())
    assert row["claim"] == "max_is_sparse" and row["says"] == "yes"
    assert [float(row[f"seed {seed}"]) for seed in FEW] == [0.75] * 3


def test_more_seeds_are_asked_for_where_runs_that_test_a_claim_decide_nothing(put, shelf, tmp_path, capsys):
    put(operator("max"), accuracy=about(0.9, 0.02))
    put(operator("avg"), accuracy=lambda seed: 0.9)
    assert main([str(shelf.root), "--claims", "--out", str(tmp_path)], judge) == 0
    claim = capsys.readouterr().out.split("\n\n")[-2]
    assert claim.startswith("Networks with max pooling are more accurate")
    assert "  more seeds: cnnpool train -m experiment=claims pool=max,avg" in claim
    assert "more seeds may decide the rest:" in (tmp_path / "claims.md").read_text()


def test_a_claim_brings_its_own_measure(put, shelf, capsys):
    put(operator("max"), FEW)
    assert main([str(shelf.root), "--claims", "--by", "pool"], judge) == 2
    assert capsys.readouterr().err == "error: --claims does not go with --by: each claim has its own\n"


def test_notes_say_what_is_missing_and_that_code_differs(put, shelf, tmp_path, capsys):
    put(operator("max"), FEW, accuracy=about(0.95))
    put(operator("avg"), FEW, environment={"commit": "another", "dirty": True})
    (shelf.root / "bad").mkdir()
    (shelf.root / "bad" / "status.json").write_text('{"state": "failed", "error": "loss became NaN"}')
    assert main([str(shelf.root), "--claims", "--out", str(tmp_path)], judge) == 0
    out = capsys.readouterr().out
    assert "of 7 runs found, 1 failed: they say nothing here" in out
    assert "the runs come from 2 commits" in out and "uncommitted changes" in out
    assert "of 7 runs found" in (tmp_path / "claims.md").read_text()
    assert main([str(shelf.root), "--claims", "--out", str(tmp_path), "--allow", "environment"], judge) == 0
    out = capsys.readouterr().out
    assert "test accuracy +5.0" in out and "commits" not in out


def test_the_terminal_shows_cases_of_every_word_and_counts_the_rest(put, shelf, tmp_path, capsys):
    for kernel in range(2, 10):
        put(operator("max", kernel, kernel), FEW, gradient={"zero_fraction": about(1 - kernel**-2, 0)})
    put(operator("max", 10, 2), FEW, gradient={"zero_fraction": lambda seed: 0.5})
    assert main([str(shelf.root), "--claims", "--out", str(tmp_path)], judge) == 0
    section = capsys.readouterr().out.partition("\n\n")[0]
    assert section.count(" yes: ") == 5 and section.count(" no: ") == 1
    assert "    and 3 more, all of them in the report" in section
    assert (tmp_path / "claims.md").read_text().count("| yes | windows") == 8


def test_the_command_line_hands_the_judge_to_compare(put, shelf, tmp_path, capsys):
    put(operator("max"), FEW, gradient={"zero_fraction": lambda seed: 0.75})
    assert cli.compare([str(shelf.root), "--claims", "--out", str(tmp_path)]) == 0
    assert "  holds (1 of 1 cases)\n" in capsys.readouterr().out
    assert main([str(shelf.root), "--claims"]) == 2
    assert "unrecognized arguments: --claims" in capsys.readouterr().err


def test_runs_that_differ_are_told_apart_by_their_recipe(shelf, put):
    narrow, wide = ({"name": "airbench", "width": width} for width in (16, 24))
    small = {"name": "mnist", "batch_size": 128, "limit": 1000}
    put(operator("max"), model=narrow, environment={"commit": "abc"})
    put(operator("max"), model=wide, environment={"commit": "def"})
    put(operator("max"), data=small)
    assert labels(shelf) == [
        "digits, airbench, flatten, model.width=16",
        "digits, airbench, flatten, model.width=24",
        "mnist, convnet, flatten, data.limit=1000",
    ]
    put(operator("max"), model=wide, environment={"commit": "abc"})
    assert labels(shelf) == [
        "digits, airbench, flatten, environment.commit=abc, model.width=16",
        "digits, airbench, flatten, environment.commit=abc, model.width=24",
        "digits, airbench, flatten, environment.commit=def, model.width=24",
        "mnist, convnet, flatten, data.limit=1000",
    ]


def labels(shelf):
    return sorted(setting.label for setting in Evidence(find([shelf.root])).settings())
