"""Cases at random, counted by their outcome, for all scripts that alter things."""

import json
import random
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

PATIENCE_S = 60


class Hung(BaseException):
    """``PATIENCE_S`` have gone by."""


def fuzz(
    arguments: Sequence[str], counts: Sequence[str], tried: Callable[[random.Random], str | None]
) -> int:
    """Try ``[N] [SEED]`` cases, print how often each outcome came, and return the status.

    ``tried`` returns one of ``counts``, of which the first is that of all cases and those from the fourth on
    are bad, or None for what is no case.
    """
    number, seed = map(int, [*arguments, *("3000", "0")[len(arguments) :]])
    chance, found = random.Random(seed), dict.fromkeys(counts, 0)
    for _ in range(number):
        if outcome := tried(chance):
            found[counts[0]] += 1
            found[outcome] += 1
    print(json.dumps(found))
    return int(any(found[name] for name in counts[3:]))


@contextmanager
def patience() -> Iterator[None]:
    """Raise ``Hung`` in what takes too long."""

    def stop(*_: object) -> None:
        raise Hung

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(PATIENCE_S)
    try:
        yield
    finally:
        signal.alarm(0)
