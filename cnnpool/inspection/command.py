"""``cnnpool probe`` after its arguments are parsed: runs every probe at every stage, writes results.json."""

import argparse
import copy
import dataclasses
import logging
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cnnpool import probe, registry
from cnnpool.cli_parser import assignment
from cnnpool.data import Dataset
from cnnpool.inspection.images import batch, caution, draw, read_data
from cnnpool.inspection.subject import Built, Subject, find
from cnnpool.inspection.text import report, side_by_side
from cnnpool.probe import PROBES, Batch, Probe, declared
from cnnpool.probe.cost import times_in_turn
from cnnpool.probe.shift import NoLogitsError, at_once, logits
from cnnpool.quantity import records
from cnnpool.run_folder import layout, results
from cnnpool.run_folder.errors import DamagedError
from cnnpool.run_folder.identity import as_json
from cnnpool.run_folder.results import Results
from cnnpool.surgery import Change, replace
from cnnpool.surgery.stages import added, measurable, operators_of, stages_of
from cnnpool.surgery.trace import FunctionalPooling, dry_run
from cnnpool.system.hardware import environment, keep_memory, usable
from cnnpool.system.next_command import from_here, next_lines
from cnnpool.system.progress import Progress, clear_bars
from cnnpool.tables import printable

log = logging.getLogger(__name__)

SWAP = {"order", "after", "min_channels", "skip_stem"}
"""Options of a swap itself."""
TIMED = 64
"""Most images of a timed pass."""
LONGEST = 100
"""Longest name of a folder, in characters."""
USUAL = "gradient,invariance,equivariance,aliasing,heat_map,receptive_field,cost"
"""Default of --probes; the other probes take longer."""


def examine(args: argparse.Namespace, arguments: list[str]) -> int:
    """Build, measure, optionally swap and measure again, print, write."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(message)s")
    for name in ("samples", "size"):
        if getattr(args, name) is not None and getattr(args, name) < 2:
            raise ValueError(f"--{name} must be at least 2, got {getattr(args, name)}")
    probes = build_probes(args.probes, args.set, args.samples)
    # As a training does: maps of the same sizes are made over and over.
    keep_memory()
    checkpoint = Path(args.checkpoint) if args.checkpoint else None
    subject = find(args.model, checkpoint, args.weights, args.seed)
    folder = folder_of(args.out, args.model)
    # A run may come from someone else, who also chose its data paths.
    download = args.data is not None if args.download is None else args.download
    settings = dict(map(_setting, args.settings))
    dataset = read_data(subject, args.data, args.root, download, args.size, settings, args.samples)
    warned = caution(subject, dataset, args.samples, args.root, settings)
    built = subject.build(dataset)
    built.model.eval()
    images = batch(dataset, built.model, subject, samples=args.samples, size=args.size)
    outputs_of(built.model, images.images[:2])
    images, labels = with_labels(built.model, images, dataset, subject.trained)
    examination = Examination(args, subject, built, dataset, images, labels, warned, probes)
    width = shutil.get_terminal_size((160, 24)).columns
    if args.swap is None:
        if args.swap_set or args.where:
            raise ValueError("--swap-set and --where need --swap")
        before, written = examination.of(built.model, folder)
        sys.stdout.write(report(before, width))
        after_this = ("cnnpool", "probe", *arguments, "--swap", "max_blur")
    else:
        swapped, changes = exchange(subject, built, dataset, images, args)
        extra = sorted([*args.swap_set, *([f"where={args.where}"] if args.where else [])])
        within = folder_of(str(folder / word("+".join([args.swap, *extra]))), args.model)
        log.info("as built:")
        before, written = examination.of(built.model, folder)
        log.info("with %s:", args.swap)
        facts = side_facts(
            built.model, swapped.to(usable(args.device)), images.images, timed="cost" in probes
        )
        after, more = examination.of(swapped, within, changes, facts)
        sys.stdout.write(side_by_side(before, after, width, whole=args.all))
        written += more
        after_this = ("cnnpool", "compare", from_here(folder))
    for at in dict.fromkeys(path.parent for path in written):
        names = ", ".join(path.name for path in written if path.parent == at)
        sys.stdout.write(f"\nresults: {printable(str(at))}\n  {names}\n")
    sys.stdout.write(next_lines(after_this))
    return 0


def _setting(text: str) -> tuple[str, Any]:
    """Key and value of ``data.KEY=VALUE``; a ValueError for any other."""
    key, value = assignment(text)
    if not key.startswith("data."):
        raise ValueError(f"{text}: only settings of the data are taken, as data.KEY=VALUE")
    return key.removeprefix("data."), value


def exchange(
    subject: Subject, built: Built, dataset: Dataset, images: Batch, args: argparse.Namespace
) -> tuple[nn.Module, list[Change]]:
    options = dict(map(assignment, args.swap_set))
    if own := options.keys() & {"model", "name", "example", "where"}:
        raise ValueError(f"{args.swap} has no option {', '.join(sorted(own))} (for where see --where)")
    side, _, name = args.swap.partition("=")
    if name:
        raise ValueError(f"--swap takes a name alone: --swap {name}" + " --where head" * (side == "readout"))
    try:
        model = copy.deepcopy(built.model)
    except RuntimeError:
        # Weights computed from others cannot be copied.
        model = subject.build(dataset).model.eval()
    torch.manual_seed(args.seed)
    # An option of the operator comes before one of the swap, such as the order that both have.
    known = registry.options_of(replace.found(args.swap, args.where)[1])
    of_swap = {key: options.pop(key) for key in SWAP & options.keys() - known.keys()}
    example = images.images[:1]
    return model, replace.exchange(model, args.swap, options, example=example, where=args.where, **of_swap)


@dataclass(frozen=True)
class Examination:
    """A model, its images and the probes.

    ``labels`` says why the labels are the built model's predictions; empty if they are the data set's.
    ``caution`` says how the images differ from those of the run, if they do.
    """

    args: argparse.Namespace
    subject: Subject
    built: Built
    dataset: Dataset
    images: Batch
    labels: str
    caution: str
    probes: Mapping[str, Probe]

    def of(
        self,
        model: nn.Module,
        folder: Path,
        changes: Sequence[Change] = (),
        facts: Mapping[str, Any] = MappingProxyType({}),
    ) -> tuple[Results, list[Path]]:
        """Measure the built ``model``, or one like it after ``changes``; returns the files written, too.

        ``facts`` are further ones about the examined model.
        """
        device = usable(self.args.device)
        model = model.to(device)
        batch, labels = self.images, self.labels
        if labels:
            whose = "answers of the model as built" if changes else "model's own answers"
            labels = f"the {whose}: {labels}"
        example = batch.images[:1].to(device)
        functional = FunctionalPooling(model)
        dry_run(model, example, functional)
        found = stages_of(model, example, changes)
        stages = measurable(found)
        if left := found.keys() - stages.keys():
            log.info("not measured, since their maps end in channels: %s", ", ".join(sorted(left)))
        measured: dict[str, Any] = {}
        if not labels:
            answers = logits(model, batch.images)
            measured["test"] = {
                "accuracy": (answers.argmax(1) == batch.labels).double().mean().item(),
                "loss": F.cross_entropy(answers.double(), batch.labels).item(),
                "samples": len(answers),
            }
        measured |= measure(model, stages, batch, self.probes)
        described = dataclasses.replace(
            self._facts(changes, {"labels": labels, "functional": str(functional), **facts}),
            stages=operators_of(stages),
            measured=measured,
            quantities=records(declared(self.probes.values()), measured),
            environment=environment(torch.device(device)),
            finished=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        try:
            layout.begin(folder)
            written = results.write(folder, described)
        except OSError as error:
            raise ValueError(f"cannot write {error.filename}: {error.strerror or error}") from None
        with Progress("drawing pictures"):
            return described, [written, *draw(folder, model, stages, batch, described)]

    def _facts(self, changes: Sequence[Change], more: Mapping[str, Any]) -> Results:
        """The examined model, described as a run's results.json describes the trained one."""
        run, args, shape = self.subject.trained, self.args, self.images.images.shape
        weights = self.built.weights
        if any(True for change in changes for own in added(change.after) for _ in own.parameters()):
            weights += f"; weights that {args.swap} adds are random, seed {args.seed}"
        swapped = {"name": args.swap, **dict(map(assignment, args.swap_set))}
        as_built = {"name": "as built"}
        images = f"{shape[0]} test images of {self.dataset.name}, {'x'.join(map(str, shape[1:]))}"
        return Results(
            run=str(args.model) + (f"+{args.swap}" if changes else ""),
            choice=args.swap if changes else run.choice if run else "as built",
            pool=swapped if changes else run.pool if run else as_built,
            readout=run.readout if run else as_built,
            model=run.model if run else {"name": self.subject.name, "untrained": self.built.untrained},
            data={"name": self.dataset.name},
            data_sha256=self.dataset.sha256,
            seed=run.seed if run else args.seed,
            epochs=run.epochs if run else 0,
            asked={"probe": {name: as_json(vars(one)) for name, one in self.probes.items()}},
            examined={
                "model": self.subject.name,
                "weights": weights,
                "untrained": self.built.untrained,
                "images": images,
                "caution": self.caution,
                "swapped": ", ".join(change.name for change in changes),
                **more,
            },
        )


def side_facts(model: nn.Module, swapped: nn.Module, images: Tensor, *, timed: bool) -> dict[str, Any]:
    """The share of images, 0..1, that both networks answer alike, and ``timed`` their times in turn."""
    answers, others = (logits(one, images).argmax(1) for one in (model, swapped))
    same = (answers == others).double().mean().item()
    if not timed:
        return {"same_answers": same}
    some = images[: min(TIMED, at_once(images, kept=True))]
    return {"same_answers": same, "ms_per_image": times_in_turn((model, swapped), some)}


def with_labels(model: nn.Module, batch: Batch, dataset: Dataset, run: Results | None) -> tuple[Batch, str]:
    """The batch with labels that the model can predict, and the reason if they are not the data set's.

    The classes of a ``run`` are found by their names. A model for other classes is compared with its own
    predictions, those before a swap for both sides.
    """
    outputs, names = outputs_of(model, batch.images[:2]).shape[1], list(dataset.classes)
    known = ((run and run.images) or {}).get("classes", names)
    unknown = [printable(name) for name in names if name not in known]
    if outputs != dataset.num_classes:
        why = f"it has {outputs} outputs, {dataset.name} {dataset.num_classes} classes"
    elif unknown:
        why = f"the run has no class {', '.join(unknown[:3])}{', ...' * (len(unknown) > 3)}"
    elif known == names:
        return batch, ""
    else:
        places = torch.tensor([known.index(name) for name in names])
        return batch._replace(labels=places[batch.labels]), ""
    return batch._replace(labels=outputs_of(model, batch.images).argmax(1)), why


def build_probes(names: str | None, settings: Sequence[str], samples: int | None) -> dict[str, Probe]:
    """The requested probes, with options that count images limited to ``samples``."""
    chosen = list(PROBES) if names == "all" else (names or USUAL).split(",")
    options: dict[str, dict[str, Any]] = {}
    for name in chosen:
        counts = {key: value for key, value in vars(probe.build(name)).items() if key.endswith("samples")}
        options[name] = {key: samples for key, value in counts.items() if samples and value > samples}
    for text in settings:
        key, value = assignment(text)
        name, _, option = key.partition(".")
        if name not in options:
            raise ValueError(f"--set {text}: {name} is not among the probes {', '.join(chosen)}")
        options[name][option] = value
    return {name: probe.build(name, **own) for name, own in options.items()}


def measure(
    model: nn.Module, stages: Mapping[str, nn.Module], batch: Batch, probes: Mapping[str, Probe]
) -> dict[str, Any]:
    """Every probe's result by section; the batch's tensors are on the CPU."""
    found = {}
    with Progress("probing", len(probes), "probes") as progress:
        for name, one in probes.items():
            start = time.perf_counter()
            found[one.section] = one.measure(model, stages, *batch)
            progress.step()
            clear_bars()
            log.info("%s: %.1f s", name, time.perf_counter() - start)
    return found


def outputs_of(model: nn.Module, images: Tensor) -> Tensor:
    """The model's logits (N, K) for a few images; a ValueError if it fails on them or returns others."""
    try:
        found = logits(model, images)
    except NoLogitsError:
        raise
    except (RuntimeError, ValueError, TypeError, AttributeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        shape = "x".join(map(str, images.shape[1:]))
        raise ValueError(f"the model does not run on images of {shape}: {reason} (see --size)") from error
    if not torch.isfinite(found).all():
        raise ValueError(f"the model must return finite logits (N, K), got shape {tuple(found.shape)}")
    return found


def folder_of(out: str | None, name: str) -> Path:
    """The folder to write to, made if needed; a ValueError if it contains a training run."""
    folder = Path(out) if out else Path("outputs", "probe", word(name.strip("./")))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        held = results.read(folder)
    except OSError as error:
        raise ValueError(f"cannot write to {folder}: {error.strerror or error}") from None
    except DamagedError as error:
        raise ValueError(f"{error}; delete it, or choose another folder by --out") from None
    if held and not held.examined:
        raise ValueError(f"{folder} holds a run that was trained: choose another folder by --out")
    return folder


def word(text: str) -> str:
    """``text`` as a folder's name; replaces characters other than letters, digits and a few marks."""
    return "".join(c if c.isalnum() or c in "._-+=" else "_" for c in text)[:LONGEST]
