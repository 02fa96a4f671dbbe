"""``maximum_bias``: are operators that pass on maxima the less invariant ones?"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from cnnpool.claims.case import Case
from cnnpool.claims.evidence import Evidence, value_at
from cnnpool.claims.judge import over
from cnnpool.claims.operators import described, everywhere, kernel_and_stride
from cnnpool.claims.rules import at_most
from cnnpool.report.runs import Run
from cnnpool.report.statistics import rank_correlation

LEAST = 4
Choices = Mapping[str, Mapping[int, Run]]


def maximum_bias(evidence: Evidence) -> list[Case]:
    """Networks that pass on a window's maximum more often are less shift invariant (Saha & Gokhale 2024).

    Measured: for each seed Spearman's rank correlation, over the operators of one network at one stride, of
    maximum-sampling bias and consistency (preset distinct). The bias is the mean over stages of the share of
    outputs that are the maximum of their window, windows of equal values left out. Operators that convolve
    have none.

    Rule: yes if the 95 % interval over seeds lies below 0, no if above; from four operators on. The interval
    is over seeds: other operators may have another order.

    Needs: cnnpool train -m experiment=claims pool=max,avg,blur,max_blur,subsample,median,aps,lps,tips
    seed=0,1,2,3,4,5,6,7,8,9
    """
    cases = []
    for stride, label, choices in _at_one_stride(evidence):
        correlations = _correlations(choices)
        if not correlations:
            continue
        summary = over(correlations)
        # A t interval can reach beyond the values that a correlation can have.
        summary = replace(summary, low=max(summary.low, -1.0), high=min(summary.high, 1.0))
        runs = [run for by_seed in choices.values() for seed, run in by_seed.items() if seed in correlations]
        cases.append(
            Case(
                when=f"the network is {runs[0].results.model['name']}, with stride {stride[0]} x {stride[1]}",
                where=f"{label}: {', '.join(choices)}",
                what="rank correlation of maximum-sampling bias and consistency (distinct)",
                summary=summary,
                values=correlations,
                holds=at_most(summary, 0.0),
                runs=tuple(runs),
                unit="",
                expected="below 0",
            )
        )
    return cases


def _at_one_stride(evidence: Evidence) -> Iterator[tuple[tuple[int, int], str, Choices]]:
    """Stride, label, and by choice the runs that have both numbers and one operator in all stages."""
    for label, choices in evidence.choices(_operator, ["pool"]):
        groups: dict[tuple[int, int], dict[str, dict[int, Run]]] = {}
        for choice, runs in choices.items():
            if measured := {seed: run for seed, run in runs.items() if _measured(run)}:
                _, stride = kernel_and_stride(everywhere(next(iter(measured.values()))) or {})
                groups.setdefault(stride, {})[choice] = measured
        for stride, group in groups.items():
            yield stride, label, group


def _operator(run: Run) -> str:
    operator = everywhere(run)
    return described(operator) if operator else ""


def _correlations(choices: Choices) -> dict[int, float]:
    """Seed -> the correlation, where there are enough operators and they do not all measure the same."""
    found = {}
    for seed in sorted({seed for runs in choices.values() for seed in runs}):
        runs = [by_seed[seed] for by_seed in choices.values() if seed in by_seed]
        if len({(everywhere(run) or {})["name"] for run in runs}) < LEAST:
            continue
        biases, consistencies = zip(*filter(None, map(_measured, runs)), strict=True)
        correlation = rank_correlation(biases, consistencies)
        if not math.isnan(correlation):
            found[seed] = correlation
    return found


def _measured(run: Run) -> tuple[float, float] | None:
    """Bias, mean over the stages that have one, and consistency; None without either."""
    inside = ("invariance", "stages")
    biases = [value_at(run, *inside, stage, "maximum_sampling_bias") for stage in run.results.stages]
    known = [bias for bias in biases if bias is not None]
    consistency = value_at(run, "invariance", "consistency", "distinct")
    return (sum(known) / len(known), consistency) if known and consistency is not None else None
