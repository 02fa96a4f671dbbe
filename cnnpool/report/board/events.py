"""TensorBoard's event files, written without torch and tensorflow."""

import os
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.plugins.custom_scalar.layout_pb2 import (
    Category,
    Chart,
    Layout,
    MarginChartContent,
    MultilineChartContent,
)
from tensorboard.summary.writer.record_writer import RecordWriter

SUFFIX = ".cnnpool"
BANDS = "with_interval"
"""First part of the tags of bands: it sorts last, after what one looks at."""


class Events:
    """One new event file in ``folder``; it appears there when it is whole.

    Raises:
        OSError: if the folder cannot be written.
    """

    def __init__(self, folder: Path):
        # A new name each time: TensorBoard reads on where it stopped in a file that it knows.
        stem = f"events.out.tfevents.{int(time.time())}.{os.getpid()}.{secrets.token_hex(4)}"
        self.path = folder / f"{stem}{SUFFIX}"
        self.beside = folder / f".{secrets.token_hex(4)}{SUFFIX}"
        self.now = time.time()

    def __enter__(self) -> "Events":
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.file = self.beside.open("wb")
        self.records = RecordWriter(self.file)
        self._add(Event(wall_time=self.now, file_version="brain.Event:2"))
        return self

    def __exit__(self, kind: type | None, *_: object) -> None:
        self.file.close()
        if kind is None:
            os.replace(self.beside, self.path)
        else:
            self.beside.unlink()

    def scalars(self, tag: str, steps: Iterable[int], values: Iterable[float]) -> None:
        """The values of one scalar at ``steps``."""
        for step, value in zip(steps, values, strict=True):
            summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
            self._add(Event(wall_time=self.now, step=step, summary=summary))

    def image(self, tag: str, png: bytes) -> None:
        """A picture of the images tab."""
        # Width and height stand at fixed places of the header (PNG specification, 11.2.2).
        width, height = (int.from_bytes(png[start : start + 4]) for start in (16, 20))
        image = Summary.Image(width=width, height=height, colorspace=4, encoded_image_string=png)
        summary = Summary(value=[Summary.Value(tag=tag, image=image)])
        self._add(Event(wall_time=self.now, summary=summary))

    def text(self, tag: str, markdown: str) -> None:
        """A page of the text tab."""
        self._string(f"{tag}/text_summary", "text", markdown.encode())

    def layout(self, lines: Mapping[str, Sequence[str]], bands: Mapping[str, Sequence[str]]) -> None:
        """Pages of the custom scalars tab: title -> scalars, a chart each.

        Args:
            lines: every run's scalar as a line; these pages come first.
            bands: the scalar's mean with its interval.
        """
        pages = [(title, [_line(tag) for tag in tags]) for title, tags in lines.items()]
        # TensorBoard draws a page's charts with bands from the last to the first.
        pages += [(title, [_band(tag) for tag in reversed(tags)]) for title, tags in bands.items()]
        categories = [Category(title=title, chart=charts) for title, charts in pages]
        content = Layout(category=categories).SerializeToString()
        self._string("custom_scalars__config__", "custom_scalars", content)

    def _string(self, tag: str, plugin: str, content: bytes) -> None:
        metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name=plugin))
        tensor = TensorProto(dtype="DT_STRING", string_val=[content], tensor_shape=TensorShapeProto())
        value = Summary.Value(tag=tag, metadata=metadata, tensor=tensor)
        self._add(Event(wall_time=self.now, summary=Summary(value=[value])))

    def _add(self, event: Event) -> None:
        self.records.write(event.SerializeToString())


def ours(folder: Path) -> list[Path]:
    """The event files that earlier calls left in ``folder`` and below."""
    return [*folder.rglob(f"events.out.tfevents.*{SUFFIX}")]


def discard(files: Iterable[Path], folder: Path) -> None:
    """Remove ``files``, and the folders below ``folder`` that are empty then."""
    for file in files:
        file.unlink(missing_ok=True)
        for parent in file.parents:
            if parent == folder:
                break
            with suppress(OSError):
                parent.rmdir()


def _line(tag: str) -> Chart:
    return Chart(title=tag, multiline=MultilineChartContent(tag=[f"^{tag}$"]))


def _band(tag: str) -> Chart:
    value, lower, upper = (f"{BANDS}/{tag}/{part}" for part in ("mean", "low", "high"))
    series = MarginChartContent.Series(value=value, lower=lower, upper=upper)
    return Chart(title=tag, margin=MarginChartContent(series=[series]))
