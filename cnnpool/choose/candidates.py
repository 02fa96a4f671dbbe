"""Candidates, and the trainings that a study makes of them: the same network, data and recipe for each."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cnnpool.launch.compose import Request, jobs_of
from cnnpool.launch.job import Job
from cnnpool.launch.overrides import parse

DEFAULTS = ("fit.pictures=false",)
"""Before the user's own settings: nobody looks at the pictures of a hundred runs."""
ROOMS = ("readout", "model", "fit", "probe", "stage", "pool", "pool@stage")
TUNING_SEED = 1_000_000
"""Added to the first seed: rates are tried on seeds that decide nothing."""


@dataclass(frozen=True)
class Candidate:
    """One way to downsample.

    Args:
        label: as the command line names it, such as ``max+kernel_size=3``.
        overrides: what that means on the command line of ``cnnpool train``.
    """

    label: str
    overrides: tuple[str, ...]


def candidate(label: str) -> Candidate:
    """The candidate that ``NAME+OPTION=VALUE+...`` stands for; an option without a room is the operator's.

    Raises:
        ValueError: if an option has no value.
    """
    name, *options = label.split("+")
    overrides = [f"pool={name}"]
    for option in options:
        key, equals, value = option.partition("=")
        if not (key and equals and value):
            raise ValueError(f"choose.pools={label}: {option!r} is not OPTION=VALUE, as in max+kernel_size=3")
        own = key.partition(".")[0] not in ROOMS
        overrides.append(f"pool.{key}={value}" if own else option)
    return Candidate(label, tuple(overrides))


@dataclass(frozen=True)
class Network:
    """The network, data and recipe that all candidates share, as a command line gives them.

    Args:
        overrides: KEY=VALUE, as typed, without those of ``choose``.
        config_dir: a folder with choices of the user's own.
        config_name: the file to begin with.
        first_seed: of the first round.
    """

    overrides: tuple[str, ...] = ()
    config_dir: Path | None = None
    config_name: str = "train"
    first_seed: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        for override in parse(self.overrides):
            key, line = override.key_or_group, override.input_line
            if override.get_key_element() == "pool":
                raise ValueError(
                    f"{line}: the candidates are named by choose.pools, as in choose.pools=max,avg"
                )
            if override.is_sweep_override():
                raise ValueError(
                    f"{line}: choose compares operators alone; give one value, "
                    f"or let every candidate try them by choose.tune={key}:[...]"
                )
            if key.partition(".")[0] == "hydra":
                raise ValueError(f"{line}: the runs of a study lie in its own folder, see choose.out")
            if key == "seed":
                seed = override.value()
                if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**31:
                    raise ValueError(f"{line}: seed is that of the first round, a whole number of at least 0")
                object.__setattr__(self, "first_seed", seed)

    def jobs(
        self, candidate: Candidate, seeds: Sequence[int], out: Path, more: Sequence[str] = ()
    ) -> list[Job]:
        """The trainings of a candidate, one for each seed, below the folder ``out``.

        Raises:
            ValueError: in one line, naming the candidate if it is the reason.
        """
        own = [line for line in self.overrides if line.partition("=")[0] not in ("seed", "out")]
        lines = [
            *(*DEFAULTS, *own, *candidate.overrides, *more),
            f"seed={','.join(map(str, seeds))}",
            f"out={_quoted(out)}",
        ]
        try:
            found = jobs_of(Request(lines, True, self.config_dir, self.config_name))
        except ValueError as error:
            raise ValueError(_of(candidate, str(error))) from None
        if len(found) != len(seeds):
            raise ValueError(
                "the experiment sweeps more than pool and seed: choose takes one network and recipe"
            )
        for job in found:
            if job.mistake:
                raise ValueError(_of(candidate, job.mistake))
        return found

    def checked(self, candidate: Candidate) -> Mapping[str, Any]:
        """The settings of a candidate's first run, refused if a run would refuse them before it reads data.

        Raises:
            ValueError: in one line, naming the candidate.
        """
        return self.jobs(candidate, [self.first_seed], Path("outputs"))[0].settings

    def home(self) -> Path:
        """Where a study lies unless it is told: named after experiment, data, model and settings."""
        root = next((line.partition("=")[2] for line in self.overrides if line.startswith("out=")), "outputs")
        plain = Candidate("max", ("pool=max",))
        job = self.jobs(plain, [self.first_seed], Path(root))[0]
        *above, choice, _ = Path(job.name).parts
        words = choice.partition("+")[2] or "default"
        return Path(os.path.relpath(Path(root, "choose", *above, words)))


def _of(candidate: Candidate, said: str) -> str:
    return f"choose.pools={candidate.label}: {said}"


def _quoted(path: Path) -> str:
    text = str(path).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{text}'"
