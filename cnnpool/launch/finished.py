"""Detect finished runs: their folder has results of the same settings and data."""

import json
import logging
from collections.abc import Mapping
from functools import cache
from typing import Any

from cnnpool.launch.job import Job
from cnnpool.run_folder import layout, results
from cnnpool.run_folder.errors import DamagedError, OccupiedError
from cnnpool.run_folder.identity import asked, differences
from cnnpool.run_folder.results import Results
from cnnpool.system.process import importing

log = logging.getLogger(__name__)

PUBLISHED = frozenset(("cifar10", "cifar100", "digits", "fashion_mnist", "mnist"))
"""Data sets with fixed images wherever they lie, so a finished run need not read them again."""
REMEDY = "delete it, or choose another folder by out= or hydra.run.dir="


def finished(job: Job) -> Results | None:
    """The results of the same run, if it has finished before."""
    if job.mistake:
        return None
    try:
        found = results.read(job.folder)
    except DamagedError as error:
        said = f"{job.folder / layout.RESULTS} is damaged: delete it to train again ({error.reason})"
        raise OccupiedError(said if error.reason else str(error)) from None
    if found is None:
        return None
    if found.accuracy is None:
        raise OccupiedError(f"{job.folder} holds results without a training: choose another folder by out=")
    if differ := differences(found.asked, asked(job.settings)):
        raise OccupiedError(
            f"{job.folder} holds a finished run with other settings ({'; '.join(differ)}): {REMEDY}"
        )
    try:
        differ = other_data(found, job.settings)
    except ValueError as error:
        raise OccupiedError(
            f"{job.folder} holds a finished run whose data cannot be compared: {error}"
        ) from None
    if differ:
        what = f"a finished run on other data ({'; '.join(differ)})"
        raise OccupiedError(f"{job.folder} holds {what}: {REMEDY}")
    log.info("%s is finished already", job.folder)
    return found


def other_data(found: Results, settings: Mapping[str, Any]) -> list[str]:
    """The differences between the data of a finished run and that of ``settings``, as ``key: old -> new``."""
    chosen = settings["data"]
    if chosen["name"] in PUBLISHED or found.data_sha256 is None:
        return []
    with importing():
        from cnnpool.published.build import sized
    now = _digest(json.dumps(sized(settings)))
    if now == found.data_sha256:
        return []
    before = found.data.get("root")
    moved = [f"data.root: {before} -> {chosen['root']}"] if before != chosen.get("root") else []
    return [*moved, f"data_sha256: {found.data_sha256[:12]} -> {now[:12]}"]


@cache
def _digest(chosen: str) -> str:
    with importing():
        from cnnpool import data

    return data.identity(**json.loads(chosen))
