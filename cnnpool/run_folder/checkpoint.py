"""Lightning's checkpoints with an entry ``cnnpool``: written atomically, read without running code."""

import logging
import os
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor

from cnnpool import __version__
from cnnpool.run_folder import layout
from cnnpool.run_folder.errors import DamagedError
from cnnpool.run_folder.identity import differences, is_longer
from cnnpool.system.atomic import beside, rename, replacing

log = logging.getLogger(__name__)

SCHEMA = 3  # 3 uses Lightning's automatic optimisation; up to 2 every epoch repeated the first
OURS = "cnnpool"
FOLDER = 0x10  # Attribute of a folder in a zip; torch would read uninitialised memory for its content
METRICS = "Checkpoints"  # The entry of the callback that counts the bytes of metrics.jsonl


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint of a run: its file, and Lightning's content with cnnpool's entry."""

    path: Path
    content: dict[str, Any]

    @property
    def header(self) -> Any:
        """The entry of :func:`header`, with ``steps`` trained so far and ``total_steps`` of the training."""
        return self.content[OURS]

    @property
    def metrics(self) -> Any:
        return self.content["callbacks"][METRICS]


def header(asked: Mapping[str, Any], kernels: str) -> dict[str, Any]:
    """The entry of a checkpoint that identifies its run; steps and sums of the epoch are stored beside it."""
    return {
        "schema": SCHEMA,
        "version": __version__,
        "threads": torch.get_num_threads(),
        "torch": str(torch.__version__),
        "kernels": kernels,
        "asked": dict(asked),
    }


def save(path: Path, content: Mapping[str, Any]) -> None:
    """Write ``content`` to ``path``, in the folder ``checkpoints`` of a run, and flush it to the disk."""
    try:
        path.parent.mkdir(exist_ok=True)
    except FileNotFoundError:
        raise layout.lost(path.parent.parent) from None
    with replacing(path, prefix=layout.temp_prefix(path.parent.parent)) as file:
        torch.save(content, file)


def keep(path: Path, second: Path) -> None:
    """Make ``second`` name the content of ``path`` too, without a moment in which either is missing."""
    if not path.exists():
        return
    link = beside(second, layout.temp_prefix(second.parent.parent))
    # Without links in the file system there is only one checkpoint to resume from.
    with suppress(OSError):
        os.link(path, link)
        rename(link, second)


def load(path: Path, map_location: Any = "cpu") -> Any:
    """The content of the checkpoint at ``path``; a DamagedError if it is missing, or not as it was written.

    Compares the checksums, which ``torch.load`` alone does not.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            marked = [one.filename for one in archive.infolist() if one.external_attr & FOLDER]
            broken = marked[0] if marked else archive.testzip()
        if broken is None:
            return torch.load(path, map_location=map_location, weights_only=True)
    except OSError as error:
        raise DamagedError(f"cannot read the checkpoint {path}: {error.strerror or error}") from None
    except UnpicklingError:
        # Its bytes are as they were written.
        remedy = "save torch.save(model.state_dict(), FILE)"
        raise DamagedError(f"{path} holds more than plain weights, such as a whole model: {remedy}") from None
    except Exception as error:
        reason = (str(error).splitlines() or [""])[0]
        raise DamagedError(
            f"{path} is damaged, or not a checkpoint of plain weights ({type(error).__name__}: {reason})"
        ) from error
    why = "is marked as a folder" if marked else "fails its checksum"
    raise DamagedError(f"{path} is damaged: {broken} {why}")


def latest(folder: Path) -> Checkpoint | None:
    """The newest intact checkpoint in ``folder``; None without any, a DamagedError if all are damaged."""
    errors = []
    for path in (folder / layout.LAST, folder / layout.PREVIOUS):
        if not path.exists():
            continue
        try:
            content = load(path)
            if not isinstance(content, dict) or OURS not in content:
                raise DamagedError(f"{path} is not a checkpoint of cnnpool")
        except DamagedError as error:
            errors.append(error)
            continue
        if path.name != layout.LAST:
            why = errors[0] if errors else f"no {layout.LAST}"
            log.warning("%s; going on from %s, one checkpoint earlier", why, path.name)
        return Checkpoint(path, content)
    if errors:
        raise DamagedError(f"{errors[0]}: delete it to train anew")
    return None


def refuse_other(found: Checkpoint, asked: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
    """A ValueError if a checkpoint has other settings, another architecture or another schema: old -> new."""
    saved = found.header
    if saved["schema"] != SCHEMA:
        remedy = "update it" if saved["schema"] > SCHEMA else "delete it to train anew"
        raise ValueError(
            f"{found.path} was written by cnnpool {saved['version']} (schema {saved['schema']}); this is "
            f"{__version__} (schema {SCHEMA}): {remedy}"
        )
    if (differ := differences(saved["asked"], asked)) and not is_longer(saved["asked"], asked):
        raise ValueError(
            f"{found.path} belongs to a run with other settings ({'; '.join(differ)}): "
            "give the old ones to resume, or choose another folder by out= or hydra.run.dir="
        )
    if differ := differences(_shapes(found.content["state_dict"]), _shapes(weights)):
        raise ValueError(f"{found.path} holds weights of another architecture ({'; '.join(differ[:3])})")


def images_of(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """Facts about its images in a run's checkpoint, such as ``mean`` and ``std``; empty if there are none."""
    return content.get("hyper_parameters", {}).get("data") or {}


def refuse_class(content: Any, name: str, path: str | Path) -> None:
    """A ValueError if a run's record says that another class than ``name`` trained the checkpoint."""
    header = content.get(OURS, {}) if isinstance(content, dict) else {}
    trained = header.get("asked", {}).get("classifier")
    if trained not in (None, name):
        raise ValueError(f"{path} was trained by a class {trained}: load it by classifier={trained}")


def _shapes(weights: Mapping[str, Tensor]) -> dict[str, list[int]]:
    return {key.removeprefix("model."): list(value.shape) for key, value in weights.items()}
