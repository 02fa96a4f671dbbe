import io
import math
import os
import signal
import time

import pytest

from cnnpool.choose import command
from cnnpool.choose.command import Display
from cnnpool.choose.drive import Clock, Driver, fits, next_round
from cnnpool.choose.study import view
from cnnpool.system.progress import Progress
from cnnpool.system.signals import Signals, Stopped


def flat(pool, seed, settings):
    return 0.9 + 0.01 * math.sin(5 * seed + 3 * len(pool))


def test_no_round_is_begun_that_will_not_end_within_the_budget(make_study, bench, drive):
    study = make_study(budget="60s", margin="0")
    study.ledger.batch_s, study.ledger.batch_runs = 100.0, 4
    assert fits(study, 2)
    study.ledger.spent_s = 15.0
    assert not fits(study, 2)
    found, reason, _ = drive(study, bench(flat))
    assert (found.done, reason, found.recommended) == (0, "budget", None)


def test_the_budget_ends_runs_that_take_too_long_and_keeps_what_is_finished(make_study, bench):
    study, tried = make_study(margin="0", pools=("max", "avg", "strided")), []

    def slow(pool, seed, settings):
        tried.append(seed)
        if tried.count(1) == 1:
            return RuntimeError("too large")
        if seed == 1:
            study.ledger.spent_s = study.options.budget_s - 0.1
            time.sleep(30)
        return flat(pool, seed, settings)

    begun = time.monotonic()
    with Signals(), Clock(study) as clock:
        found, reason = Driver(study, clock, lambda *_: None, bench(slow)).drive()
    assert time.monotonic() - begun < 25
    assert (found.done, reason, clock.budget_spent) == (1, "budget", True)
    assert found.recommended is None and study.left_s <= 0
    # A failure counts beside the end of the budget, and not as a run whose time is known.
    assert list(found.out.values()) == ["too large"] and study.ledger.batch_runs == 3


def test_a_signal_from_outside_is_not_the_end_of_the_budget(make_study, bench):
    def interrupted(pool, seed, settings):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)

    study = make_study()
    with Signals(), Clock(study) as clock, pytest.raises(Stopped):
        Driver(study, clock, lambda *_: None, bench(interrupted)).drive()


def test_runs_that_go_side_by_side_begin_with_three_rounds(make_study):
    study = make_study(overrides=("data=digits", "launch=processes"))
    batch = next_round(study, view(study))
    assert [job.settings["seed"] for _, job in batch.jobs] == [0, 0, 1, 1, 2, 2]
    assert batch.title == "round 1 to 3"


def test_the_most_promising_candidate_runs_first(make_study, bench):
    study = make_study(pools=("subsample", "avg"))
    worse = {"subsample": 0.5, "avg": 0.9}
    for _ in bench(lambda pool, *_: worse[pool])([job for arm in study.arms for job in arm.jobs([0])]):
        pass
    assert [place for place, _ in next_round(study, view(study)).jobs] == [1, 0]


def test_every_candidate_tries_the_same_values_on_a_seed_of_its_own(make_study, bench, drive):
    best = {"max": "0.03", "avg": "0.003"}
    runs = bench(
        lambda pool, seed, settings: (
            flat(pool, seed, settings) - (0.1 if str(settings["fit"]["lr"]) != best[pool] else 0)
        )
    )
    study = make_study(tune=("fit.lr:[0.003,0.03]",), margin="0")
    drive(study, runs)
    assert [arm.tuned for arm in study.arms] == [("fit.lr=0.03",), ("fit.lr=0.003",)]
    assert runs.ran[:4] == [("max", 1_000_000)] * 2 + [("avg", 1_000_000)] * 2
    assert "max+fit.lr=0.03" in str(study.arms[0].home)
    again = bench(flat)
    study = make_study(tune=("fit.lr:[0.003,0.03]",), margin="0")
    drive(study, again)
    assert not again.ran


def test_a_candidate_whose_tries_all_fail_is_out(make_study, bench, drive):
    def accuracy(pool, seed, settings):
        return RuntimeError("diverged") if pool == "avg" else flat(pool, seed, settings)

    found, reason, _ = drive(make_study(tune=("fit.lr:[0.003,0.03]",)), bench(accuracy))
    assert found.out == {1: "no try of fit.lr ended: diverged"}
    assert (found.recommended, reason) == (0, "one left")


def test_no_thread_counts_on_once_the_context_ends(make_study, monkeypatch):
    def slow(self):
        self._ended.wait()
        time.sleep(0.1)
        self.last_word = self._study.ledger.spent_s

    monkeypatch.setattr(Clock, "_run", slow)
    with Clock(make_study()) as clock:
        pass
    assert clock.last_word == 0


def test_the_time_is_counted_to_the_end_and_saved_now_and_then(make_study, monkeypatch):
    study, saved = make_study(), []
    monkeypatch.setattr("cnnpool.choose.drive.TICK_S", 0.01)
    monkeypatch.setattr("cnnpool.choose.drive.SAVED_S", 0.1)
    monkeypatch.setattr(type(study.ledger), "save", lambda ledger: saved.append(ledger.spent_s))
    begun = time.monotonic()
    with Clock(study):
        time.sleep(0.35)
    assert 0.35 <= study.ledger.spent_s == saved[-1] <= time.monotonic() - begun
    assert 2 <= len(saved) <= 1 + study.ledger.spent_s / 0.1
    # Between two batches the end of the budget stops nobody.
    with Signals(), Clock(study) as clock:
        with clock.deadline_active():
            pass
        study.ledger.spent_s = study.options.budget_s
        time.sleep(0.05)
    assert not clock.budget_spent


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_log_gets_a_line_a_round_and_one_for_each_drop(make_study, bench):
    levels = {"max": 0.9, "avg": 0.8}
    study, stream = make_study(), io.StringIO()
    screen = Display(study, stream)
    with Clock(study) as clock:
        runs = bench(lambda pool, seed, _: levels[pool] + 0.001 * math.sin(7 * seed + len(pool)))
        found, _ = Driver(study, clock, screen.show, runs).drive()
    lines = stream.getvalue().splitlines()
    assert lines[0].startswith("round 1: 2 of 2 candidates left, best max 90.01 %; ")
    assert lines[-1] == f"  avg dropped after round {found.done}: no better than the best"
    assert len(lines) == found.done + 1 and "\x1b" not in stream.getvalue()


def test_a_terminal_gets_a_bar_of_the_runs_of_each_round(make_study, bench, monkeypatch):
    made, study, stream = [], make_study(margin="0", rounds=3), Terminal()
    monkeypatch.setattr(command, "Progress", lambda *words: made.append(Progress(*words)) or made[-1])
    with Display(study, stream) as screen, Clock(study) as clock:
        Driver(study, clock, screen.show, bench(flat)).drive()
    assert [(bar.n, bar.total) for bar in made] == [(2, 2)] * 3 and stream.getvalue().startswith("round 1: ")
    assert made[1].what.startswith("round 2 of at most 3; ") and made[1].what.endswith("s of 60 min")
