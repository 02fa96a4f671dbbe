"""Candidates of a study and their trainings: all share one network, data set and recipe."""

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from cnnpool.choose.options import RECIPE, Options
from cnnpool.launch.compose import Request, jobs_of
from cnnpool.launch.folders import choice_name
from cnnpool.launch.job import Job
from cnnpool.launch.overrides import parse
from cnnpool.registry import options_of
from cnnpool.run_folder import results
from cnnpool.run_folder.errors import DamagedError
from cnnpool.run_folder.identity import differences, identity_settings
from cnnpool.run_folder.results import Results

DEFAULTS = ("fit.pictures=false",)
"""Overrides before the user's own: nobody looks at the pictures of a hundred runs."""
GROUPS = ("readout", "model", "fit", "probe", "stage", "pool", "pool@stage")


def overrides_of(label: str) -> tuple[str, ...]:
    """The overrides of the candidate NAME+OPTION=VALUE+...; the operator's options need no group."""
    name, *options = label.split("+")
    overrides = [f"pool={name}"]
    for option in options:
        key, equals, value = option.partition("=")
        if not (key and equals and value):
            raise ValueError(f"choose.pools={label}: {option!r} is not OPTION=VALUE, as in max+kernel_size=3")
        overrides.append(option if key.partition(".")[0] in GROUPS else f"pool.{key}={value}")
    return tuple(overrides)


@dataclass(frozen=True)
class Network:
    """The network, data and recipe that all candidates share; ``overrides`` are as typed.

    ``spared`` take out the probes that decide nothing.
    """

    overrides: tuple[str, ...] = ()
    config_dir: Path | None = None
    config_name: str = "train"
    spared: tuple[str, ...] = ()

    @cached_property
    def first_seed(self) -> int:
        found: Any = [one.value() for one in parse(self.overrides) if one.key_or_group == "seed"]
        return found[-1] if found else 0

    def __post_init__(self) -> None:
        for override in parse(self.overrides):
            key, line = override.key_or_group, override.input_line
            if override.get_key_element() == "pool":
                why = "the candidates are named by choose.pools, as in choose.pools=max,avg"
            elif override.is_sweep_override():
                tuned = f", or let every candidate try them by choose.tune={key}:[...]"
                why = "choose compares operators alone; give one value"
                why += tuned * bool(RECIPE.fullmatch(key))
            elif key.partition(".")[0] == "hydra":
                why = "the runs of a study lie in its own folder, see choose.out"
            elif key == "overwrite":
                why = "a study resumes from its finished runs; begin another by choose.out="
            elif key != "out" and key in options_of(Options):
                why = f"did you mean choose.{key}?"
            elif key == "seed" and not (type(seed := override.value()) is int and 0 <= seed < 2**31):
                why = "seed is that of the first round, a whole number of at least 0"
            else:
                continue
            raise ValueError(f"{line}: {why}")

    def needing(self, probes: Collection[str]) -> "Network":
        """The same without the probes that decide nothing, unless the user named some."""
        if any(line.lstrip("+~").partition("=")[0].partition(".")[0] == "probe" for line in self.overrides):
            return self
        spare = [f"~probe.{name}" for name in self._with_max.settings["probe"] if name not in probes]
        return replace(self, spared=tuple(spare))

    def jobs(self, label: str, seeds: Sequence[int], out: Path, more: Sequence[str] = ()) -> list[Job]:
        pool, *options = overrides_of(label)
        # The name of a run leaves out the settings that all of them share.
        name = choice_name(pool.removeprefix("pool="), [*options, *more])
        lines = [*self.spared, pool, *options, *more, f"seed={','.join(map(str, seeds))}"]
        try:
            return self._composed(out, *lines, f"hydra.sweep.subdir='{name}/seed${{seed}}'")
        except ValueError as error:
            place = f"tune with {label}" if more else f"pools={label}"
            raise ValueError(f"choose.{place}: {error}") from None

    def _composed(self, out: Path, *lines: str) -> list[Job]:
        own = [line for line in self.overrides if line.partition("=")[0] not in ("seed", "out")]
        folder = str(out).replace("\\", "\\\\").replace("'", "\\'")
        lines = (*DEFAULTS, *own, *lines, f"out='{folder}'")
        return jobs_of(Request(lines, True, self.config_dir, self.config_name))

    def checked(self, label: str, more: Sequence[str] = ()) -> Mapping[str, Any]:
        """The settings of a candidate's first run, after the checks that a run makes before it reads data."""
        return self.jobs(label, [self.first_seed], Path("outputs"), more)[0].settings

    def home(self) -> Path:
        """The folder of a study; a ValueError if what all candidates share is wrong."""
        *above, choice, _ = Path(self._with_max.name).parts
        words = choice.partition("+")[2] or "default"
        return Path(os.path.relpath(Path(self._root, "choose", *above, words)))

    @property
    def _root(self) -> str:
        return next((line.partition("=")[2] for line in self.overrides if line.startswith("out=")), "outputs")

    @cached_property
    def _with_max(self) -> Job:
        job, *more = self._composed(Path(self._root), "pool=max", f"seed={self.first_seed}")
        if more:
            raise ValueError(
                "the experiment sweeps more than pool and seed: choose takes one network and recipe"
            )
        return job


@dataclass
class Arm:
    """The runs of one candidate, named as on the command line, such as ``max+kernel_size=3``, below ``out``.

    ``tuned`` are the best overrides of its tries; ``ahead`` seeds are composed at a time, as fast as one.
    """

    label: str
    network: Network
    out: Path
    tuned: tuple[str, ...] = ()
    ahead: int = 8
    failed: str = ""
    _jobs: dict[int, Job] = field(default_factory=dict, repr=False)
    _results: dict[int, Results] = field(default_factory=dict, repr=False)

    @property
    def home(self) -> Path:
        known = next(iter(self._jobs.values()), None) or self.jobs([self.network.first_seed])[0]
        return known.folder.parent

    def jobs(self, seeds: Sequence[int]) -> list[Job]:
        if missing := [seed for seed in seeds if seed not in self._jobs]:
            ahead = range(min(missing), max(missing) + self.ahead)
            found = self.network.jobs(self.label, ahead, self.out, self.tuned)
            self._jobs |= dict(zip(ahead, found, strict=True))
        return [self._jobs[seed] for seed in seeds]

    def retune(self, overrides: tuple[str, ...]) -> None:
        self.tuned = overrides
        self._jobs.clear()
        self._results.clear()

    def read(self, seed: int) -> Results | None:
        """The results of a seed; None if it is not finished or cannot be read; a ValueError if of others."""
        if seed not in self._results:
            # The runner refuses to train over a damaged run, and reports it.
            with suppress(DamagedError):
                if found := results.read(folder := self.home / f"seed{seed}"):
                    if differ := differences(found.asked, identity_settings(self.jobs([seed])[0].settings)):
                        raise ValueError(
                            f"{folder} holds a run with other settings ({'; '.join(differ)}): delete it, or "
                            "choose another folder by choose.out="
                        )
                    self._results[seed] = found
        return self._results.get(seed)

    def runs(self, seeds: Sequence[int]) -> dict[int, Results]:
        return {seed: found for seed in seeds if (found := self.read(seed)) is not None}
