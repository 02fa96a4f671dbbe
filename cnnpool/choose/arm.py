"""A candidate in a study: where its runs lie, and what those that are finished say."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cnnpool.choose.candidates import Candidate, Network
from cnnpool.launch.job import Job
from cnnpool.run_folder import results
from cnnpool.run_folder.errors import DamagedError
from cnnpool.run_folder.results import Results

AHEAD = 8


@dataclass
class Arm:
    """The runs of one candidate.

    Args:
        candidate: which one.
        network: that it stands in.
        out: folder below which its runs lie.
        tuned: overrides that its tries have found best.
        failed: why it is out of the study, in one line, or nothing.
    """

    candidate: Candidate
    network: Network
    out: Path
    tuned: tuple[str, ...] = ()
    failed: str = ""
    _jobs: dict[int, Job] = field(default_factory=dict, repr=False)
    _found: dict[int, Results] = field(default_factory=dict, repr=False)

    @property
    def label(self) -> str:
        return self.candidate.label

    @property
    def home(self) -> Path:
        """The folder of all its seeds."""
        return self.jobs([self.network.first_seed])[0].folder.parent

    def jobs(self, seeds: Sequence[int]) -> list[Job]:
        """The trainings of some seeds."""
        if missing := [seed for seed in seeds if seed not in self._jobs]:
            # Several are composed in hardly more time than one.
            ahead = range(min(missing), max(missing) + AHEAD)
            found = self.network.jobs(self.candidate, ahead, self.out, self.tuned)
            self._jobs |= dict(zip(ahead, found, strict=True))
        return [self._jobs[seed] for seed in seeds]

    def retune(self, overrides: tuple[str, ...]) -> None:
        """Train with ``overrides`` from now on."""
        self.tuned = overrides
        self._jobs.clear()
        self._found.clear()

    def read(self, seed: int) -> Results | None:
        """The results of a seed; None if it is not finished, or cannot be read."""
        if seed not in self._found:
            try:
                found = results.read(self.home / f"seed{seed}")
            except DamagedError:
                # The runner refuses to train there, and says why.
                return None
            if found is None:
                return None
            self._found[seed] = found
        return self._found[seed]

    def runs(self, seeds: Sequence[int]) -> dict[int, Results]:
        """Seed -> results, of those that are finished."""
        found = {seed: self.read(seed) for seed in seeds}
        return {seed: one for seed, one in found.items() if one is not None}
