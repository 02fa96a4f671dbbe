"""The record of a run as a Lightning ``Logger``: metrics.jsonl for reports, event files for TensorBoard."""

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import Logger
from lightning.pytorch.utilities import rank_zero_only
from matplotlib.figure import Figure
from tensorboard.backend.event_processing import event_file_loader
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from torch.utils.tensorboard import SummaryWriter
from torch.utils.tensorboard.summary import hparams

from cnnpool.quantity import Quantity
from cnnpool.run_folder import metrics
from cnnpool.run_folder.metrics import MetricsFile
from cnnpool.run_folder.pages import charts, headlines, pages, settings
from cnnpool.run_folder.results import NAMED, Results
from cnnpool.tables import markdown_text

EVENTS = "events.out.tfevents.*"


class Record(Logger):
    """Scalars of one run: all appended to ``metrics.jsonl``, those with a chart to TensorBoard's event file.

    Lightning's TensorBoardLogger repeats or loses steps after an interruption. A resumed run keeps
    ``kept_bytes`` of ``metrics.jsonl`` and rewrites its event file from these lines, so each number occurs
    in it once and in order. The definitions of ``quantities`` stand beside TensorBoard's charts, and ``tags``
    in a column of HParams.
    """

    def __init__(
        self,
        folder: Path,
        kept_bytes: int = 0,
        quantities: Sequence[Quantity] = (),
        tags: Sequence[str] = (),
    ):
        super().__init__()
        self.folder = folder
        self.metrics = MetricsFile(folder, kept_bytes)
        self.epoch = 0
        old = list(folder.glob(EVENTS))
        self.board = SummaryWriter(folder, max_queue=1000)
        # The writer's own methods do not support descriptions of scalars.
        self.events: Any = self.board.file_writer
        self.quantities, self.tags = quantities, tags
        self.charts: dict[str, list[str]] = {}
        self.definitions: dict[str, str] = {}
        self.latest = 0.0
        times = wall_times(old)
        for record in self.records:
            step, self.epoch = int(record["step"]), int(record.get("epoch", 0))
            for tag, value in record.items():
                if tag not in ("step", "epoch"):
                    self._scalar(tag, value, step, times.get((tag, step), self.latest))
        self.board.flush()
        for path in old:
            path.unlink()

    @property
    def records(self) -> list[dict[str, Any]]:
        return metrics.read(self.folder).records

    @property
    def name(self) -> str:
        return "cnnpool"

    @property
    def version(self) -> str:
        return ""

    @property
    def save_dir(self) -> str:
        return str(self.folder)

    @property
    def experiment(self) -> SummaryWriter:
        return self.board

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float | None], step: int | None = None) -> None:
        """Append one line; ``epoch`` among the values gives the epoch, and null values are left out."""
        measured = {tag: float(value) for tag, value in metrics.items() if value is not None}
        self.epoch = int(measured.pop("epoch", self.epoch))
        self.metrics.append(step or 0, self.epoch, measured)
        for tag, value in measured.items():
            self._scalar(tag, value, step or 0, time.time())

    @rank_zero_only
    def log_hyperparams(self, params: Any, *rest: Any, **more: Any) -> None:
        """Do nothing: settings are written with the results, as a row that compares runs."""

    def figure(self, tag: str, figure: Figure, step: int | None) -> None:
        self.board.add_figure(tag, figure, step)

    def sync(self) -> int:
        """Flush all scalars to the disk; returns the size of ``metrics.jsonl`` in bytes."""
        size = self.metrics.sync()
        self.board.flush()
        return size

    def finish(self, results: Results) -> None:
        """Write the pages that compare runs: custom scalars, a row of HParams, the configuration as text."""
        shown = pages([tag for tag, own in self.charts.items() if own], self.quantities)
        layout = {title: {tag: ["Multiline", [f"^{tag}$"]] for tag in tags} for title, tags in shown.items()}
        self.board.add_custom_scalars(layout)
        where, _, choice = results.choice.rpartition("/")
        headline = headlines(results.measured, results.quantities)
        chosen = settings(results) | ({"tags": ", ".join(self.tags)} if self.tags else {})
        self._hyperparameters(f"{choice} ({where})" if where else choice, chosen, headline)
        own = {stage: node for stage, node in results.stages.items() if node != results.pool}
        asked = {key: getattr(results, key) for key in (*NAMED, "fit", "seed")}
        asked |= {f"stage.{stage}": node for stage, node in own.items()}
        self.board.add_text("configuration", _listed(asked), results.steps)
        self.board.add_text("results", _listed(headline), results.steps)

    def _scalar(self, tag: str, value: float, step: int, wall_time: float) -> None:
        # Never decrease, even if the clock was set back.
        self.latest = max(self.latest, wall_time)
        if tag not in self.charts:
            one = next((q for q in self.quantities if q.has_tag(tag)), None)
            self.charts[tag] = charts(tag, one)
            self.definitions |= {name: one.definition for name in self.charts[tag] if one}
        for name in self.charts[tag]:
            self.events.add_summary(self._summary(name, value), step, self.latest)

    def _summary(self, tag: str, value: float) -> Summary:
        """One scalar; the first of its tag carries the definition."""
        definition = self.definitions.pop(tag, None)
        scalar = SummaryMetadata.PluginData(plugin_name="scalars")
        metadata = definition and SummaryMetadata(plugin_data=scalar, summary_description=definition)
        return Summary(value=[Summary.Value(tag=tag, simple_value=value, metadata=metadata)])

    def _hyperparameters(self, group: str, settings: Mapping[str, Any], metrics: Mapping[str, float]) -> None:
        # Not the first one, which would name the columns of all runs; without it they are those of any run,
        # and TensorBoard shows first those in which the runs differ.
        _, start, end = hparams(dict(settings), dict(metrics))
        content = start.value[0].metadata.plugin_data
        plugin = HParamsPluginData.FromString(content.content)
        # Runs of one group become one row with averaged metrics.
        plugin.session_start_info.group_name = group
        content.content = plugin.SerializeToString()
        for summary in (start, end):
            self.events.add_summary(summary)

    def close(self) -> None:
        self.sync()
        self.board.close()


def _listed(content: Mapping[str, Any]) -> str:
    """A Markdown list, not a table: TensorBoard breaks words in a narrow first column."""
    rows = {
        key: ", ".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, Mapping) else str(value)
        for key, value in content.items()
    }
    return "\n".join(f"- **{markdown_text(key)}**: {markdown_text(value)}" for key, value in rows.items())


def wall_times(files: Iterable[Path]) -> dict[tuple[str, int], float]:
    """(tag, step) -> time in seconds since 1970 at which the scalar was first written, in whole records."""
    found: dict[tuple[str, int], float] = {}
    for path in sorted(files):
        # The other loader converts scalars to tensors.
        loader: Any = event_file_loader.LegacyEventFileLoader(str(path))
        for event in loader.Load():
            for value in event.summary.value:
                found.setdefault((value.tag, event.step), event.wall_time)
    return found
