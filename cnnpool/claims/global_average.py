"""``global_average``: what global average pooling saves."""

from collections.abc import Callable

from cnnpool.claims.case import Case
from cnnpool.claims.evidence import Evidence, value_at
from cnnpool.claims.judge import over
from cnnpool.report.runs import Run

MOST = 0.5


def global_average(evidence: Evidence) -> list[Case]:
    """Global average pooling removes most of the parameters of the fully connected layers.

    Measured: parameters of the same network with readout flatten less those with readout gap, divided by all
    parameters with flatten: the least share of the fully connected layers that can be gone, since the rest of
    the network has the same number in both. Divided by the fully connected parameters themselves where the
    runs say how many there are (cost.classifier_parameters).

    Rule: arithmetic, without seeds: yes if more than half; no if not and the fully connected parameters are
    known. The two networks may come from two versions of the code.

    Needs: cnnpool train -m experiment=claims readout=flatten,gap seed=0
    """
    cases = []
    for pair in evidence.pairs(_readout("flatten"), _readout("gap"), ["readout", "environment.commit"]):
        removed = pair.differences("cost", "parameters")
        first = pair.first[next(iter(removed))] if removed else None
        if first is None:
            continue
        known = value_at(first, "cost", "classifier_parameters")
        whole = known or value_at(first, "cost", "parameters")
        if not whole:
            continue
        seed, value = next(iter(removed.items()))
        share = {seed: value / whole}
        summary = over(share)
        cases.append(
            Case(
                when="the map before the readout is larger than 1 x 1",
                where=f"{pair.label} (of {whole:,.0f})",
                what="fully connected parameters removed" + ("" if known else ", at least"),
                summary=summary,
                values=share,
                holds=True if summary.mean > MOST else False if known else None,
                runs=pair.runs(share),
                expected="above 50 %",
                exact=True,
            )
        )
    return cases


def _readout(name: str) -> Callable[[Run], str]:
    def side(run: Run) -> str:
        readout = run.results.readout
        hidden = f" hidden={readout['hidden']}" if readout.get("hidden") else ""
        pool = run.results.pool["name"]
        return f"{pool} {name}{hidden}" if readout["name"] == name else ""

    return side
