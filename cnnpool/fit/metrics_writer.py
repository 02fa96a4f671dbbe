"""Scalars of a running training: to metrics.jsonl for the report, and to loggers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from torch.utils.tensorboard import SummaryWriter
from torch.utils.tensorboard.summary import hparams

from cnnpool import tables
from cnnpool.fit.loggers import RunLogger
from cnnpool.quantity import Quantity
from cnnpool.run_folder import metrics
from cnnpool.run_folder.metrics import MetricsFile
from cnnpool.run_folder.results import NAMED, Results


class MetricsWriter:
    """Scalars of one run, appended to ``metrics.jsonl`` and to TensorBoard's event file.

    Args:
        folder: of the run.
        resumed_step: the step to go on from.
        kept_bytes: of ``metrics.jsonl`` up to that step; what a stopped run wrote later is dropped.
        quantities: of which TensorBoard shows the definitions beside the charts.
        logger: that gets scalars and pictures too.

    Raises:
        DamagedError: if the file is shorter than that.
    """

    def __init__(
        self,
        folder: Path,
        resumed_step: int = 0,
        kept_bytes: int = 0,
        quantities: Sequence[Quantity] = (),
        logger: RunLogger | None = None,
    ):
        self.metrics = MetricsFile(folder, kept_bytes)
        self.logger = logger or RunLogger()
        self.logger.replay(metrics.read(folder).records)
        if not resumed_step:
            for old in folder.glob("events.out.tfevents.*"):
                old.unlink()
        purge = resumed_step + 1 if resumed_step else None
        self.board = SummaryWriter(folder, purge_step=purge, max_queue=1000)
        # The writer's own methods take no description of a scalar.
        self.events: Any = self.board.file_writer
        self.quantities = quantities
        self.described: set[str] = set()

    def scalars(self, step: int, epoch: int, values: Mapping[str, float | None]) -> None:
        """Append one line; a value of null is left out."""
        measured = {tag: value for tag, value in values.items() if value is not None}
        self.metrics.append(step, epoch, measured)
        for tag, value in measured.items():
            self.events.add_summary(self._summary(tag, value), step)
        self.logger.scalars(step, epoch, measured)

    def figure(self, tag: str, figure: Figure, step: int | None) -> None:
        """Show one picture."""
        self.board.add_figure(tag, figure, step)
        self.logger.figure(tag, figure, step or 0)

    def sync(self) -> int:
        """Flush all scalars to the disk; returns the size of ``metrics.jsonl`` in bytes."""
        size = self.metrics.sync()
        self.board.flush()
        return size

    def finish(self, results: Results) -> None:
        """Write the pages that compare runs: custom scalars, a row of HParams, the configuration as text."""
        self._layout(list(results.stages))
        settings = {
            **{room: getattr(results, room)["name"] for room in NAMED},
            "seed": results.seed,
            "choice": results.choice.rpartition("/")[2],
        }
        self._hyperparameters(results.choice, settings, _headline(results))
        asked = {key: getattr(results, key) for key in (*NAMED, "stages", "fit", "seed")}
        self.board.add_text("configuration", _table(asked), results.steps)
        self.board.add_text("results", _table(_headline(results)), results.steps)

    def _summary(self, tag: str, value: float) -> Summary:
        """One scalar; the first of its tag carries the definition."""
        one = None if tag in self.described else next((q for q in self.quantities if q.has_tag(tag)), None)
        self.described.add(tag)
        scalar = SummaryMetadata.PluginData(plugin_name="scalars")
        metadata = one and SummaryMetadata(plugin_data=scalar, summary_description=one.definition)
        return Summary(value=[Summary.Value(tag=tag, simple_value=value, metadata=metadata)])

    def _layout(self, stages: list[str]) -> None:
        charts = {
            "gradient that is zero, by stage": [f"gradient/zero_fraction/{s}" for s in stages],
            "inputs that a batch covers, by stage": [f"gradient/coverage/{s}" for s in stages],
            "change after a shift of 1 px, by stage": [f"invariance/relative_change_1px/{s}" for s in stages],
        }
        pages = {title: ["Multiline", tags] for title, tags in charts.items()}
        accuracy = {"accuracy": ["Multiline", ["train/accuracy", "val/accuracy", "test/accuracy"]]}
        self.board.add_custom_scalars({"stages": pages, "training": accuracy})

    def _hyperparameters(self, group: str, settings: Mapping[str, Any], metrics: Mapping[str, float]) -> None:
        # Text even for numbers: settings are labels here, and the tab would print seed 0 as 0.0000.
        experiment, start, end = hparams({k: str(v) for k, v in settings.items()}, dict(metrics))
        content = start.value[0].metadata.plugin_data
        plugin = HParamsPluginData.FromString(content.content)
        # Runs of one group become one row with averaged metrics.
        plugin.session_start_info.group_name = group
        content.content = plugin.SerializeToString()
        for summary in (experiment, start, end):
            self.events.add_summary(summary)

    def close(self) -> None:
        """Flush and close the event file."""
        self.sync()
        self.board.close()


def _headline(results: Results) -> dict[str, float]:
    """The main results of a run, by the tags of their scalars."""
    measured = results.measured
    tags = {f"test/{name}": measured["test"][name] for name in ("accuracy", "loss")}
    if invariance := measured.get("invariance"):
        tags |= {f"invariance/consistency/{name}": v for name, v in invariance["consistency"].items()}
    if gradient := measured.get("gradient"):
        stage = next(iter(gradient))
        tags[f"gradient/zero_fraction/{stage}"] = gradient[stage]["zero_fraction"]
    if "parameters" in measured["cost"]:
        tags["cost/parameters"] = measured["cost"]["parameters"]
    return tags


def _table(content: Mapping[str, Any]) -> str:
    rows = [
        (key, ", ".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, Mapping) else str(value))
        for key, value in content.items()
    ]
    return tables.markdown(tables.from_rows(("", ""), rows))
