"""One training job: objects from settings, a call of ``fit``, and a state that others can read."""

import json
import logging
import os
import random
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cnnpool.config import stage_settings

log = logging.getLogger(__name__)


class Job:
    """A run's folder and what becomes of it; ``run`` never raises, so that a sweep goes on.

    Args:
        out: the run's folder.
        overrides: the command line of this job.
    """

    def __init__(self, out: Path, overrides: list[str]):
        self.out = out
        self.overrides = overrides

    def run(self, settings: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Train unless the folder holds the finished run; the outcome as {run, state, said, status}."""
        name = str(self.out)
        try:
            config = settings()
            name = os.path.relpath(self.out, config["out"])
            results = self._finished(config)
            if results is None:
                self._state("running")
                results = train(config, self.out, name, self.overrides)
            self._state("done")
        except ValueError as error:
            return self._failed(name, str(error), 2)
        except Exception as error:
            log.debug("", exc_info=True)
            return self._failed(name, f"{type(error).__name__}: {error}" if str(error) else repr(error), 1)
        accuracy = results["test"]["accuracy"]
        return {"run": name, "state": "done", "said": f"test accuracy {100 * accuracy:.2f} %", "status": 0}

    def _failed(self, name: str, said: str, status: int) -> dict[str, Any]:
        said = said.splitlines()[0]
        if os.environ.get("CNNPOOL_TRACEBACK"):
            traceback.print_exc()
        with (self.out / "train.log").open("a") as file:
            file.write(traceback.format_exc())
        self._state("failed", said)
        return {"run": name, "state": "failed", "said": said, "status": status}

    def _state(self, state: str, error: str | None = None) -> None:
        content = {"state": state, "error": error, "pid": os.getpid(), "time": time.time()}
        part = self.out / ".status.json.part"
        part.write_text(json.dumps(content) + "\n")
        part.replace(self.out / "status.json")

    def _finished(self, config: Mapping[str, Any]) -> dict[str, Any] | None:
        """The results of the same run, finished earlier.

        Raises:
            ValueError: if the folder holds another run.
        """
        path = self.out / "results.json"
        if not path.exists():
            return None
        try:
            results = json.loads(path.read_text())
            earlier = results["asked"]
        except (ValueError, KeyError):
            raise ValueError(f"{path} is damaged: delete it to train again") from None
        differ = [key for key in asked(config) if asked(config)[key] != earlier.get(key)]
        if differ:
            raise ValueError(
                f"{self.out} holds a finished run with another {', '.join(differ)}: "
                "delete it, or choose another folder by out= or hydra.run.dir="
            )
        log.info("%s is finished already", self.out)
        return results


def asked(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that decide a run's result, in plain JSON."""
    keys = ("data", "model", "pool", "stage", "readout", "probe", "fit", "seed")
    kept = {key: config.get(key) for key in keys}
    kept["data"] = {k: v for k, v in kept["data"].items() if k not in ("root", "download")}
    kept["fit"] = {k: v for k, v in kept["fit"].items() if k not in ("progress", "pictures", "devices")}
    return json.loads(json.dumps(kept))


def train(config: Mapping[str, Any], out: Path, name: str, overrides: list[str]) -> dict[str, Any]:
    """Build data, model and probes from settings, and fit.

    Raises:
        ValueError: if a setting is out of range or does not fit the others.
    """
    import torch

    from cnnpool import data, model, pool, probe, readout, table
    from cnnpool.fit import Facts, Recipe, fit

    recipe = Recipe(**table.check(Recipe, "fit", config["fit"]))
    probes = {key: probe.build(key, **options) for key, options in config["probe"].items()}
    seed = config["seed"]
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ValueError(f"seed must be a whole number of at least 0, got {seed!r}")
    entry = table.lookup(model.MODELS, "models", config["model"]["name"])
    stages = stage_settings(config, entry.STAGES)
    dataset = data.build(**config["data"], seed=seed)
    random.seed(seed)
    torch.manual_seed(seed)

    def make_pool(stage: str, channels: int) -> torch.nn.Module:
        try:
            return pool.build(channels=channels, **stages[stage])
        except ValueError as error:
            raise ValueError(f"stage {stage}: {error}") from None

    def make_readout(channels: int, size: tuple[int, int]) -> torch.nn.Module:
        return readout.build(channels=channels, size=size, **config["readout"])

    net = model.build(
        in_channels=dataset.in_channels,
        size=dataset.size,
        num_classes=dataset.num_classes,
        pool=make_pool,
        readout=make_readout,
        **config["model"],
    )
    facts = Facts(
        run=name,
        choice=str(Path(name).parent),
        stages=stages,
        overrides=overrides,
        asked=asked(config),
        **{key: dict(config[key]) for key in ("pool", "readout", "model", "data")},
    )
    return fit(net, dataset, probes, recipe=recipe, seed=seed, out=out, facts=facts)
