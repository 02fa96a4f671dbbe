"""A study's event files for TensorBoard, written without torch and tensorflow."""

import os
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.summary.writer.record_writer import RecordWriter

from cnnpool.system.atomic import replacing

SUFFIX = ".cnnpool"


@contextmanager
def event_file(folder: Path) -> Iterator["Events"]:
    """One new event file in ``folder``, which is created; the file appears there when it is whole.

    Raises:
        OSError: if the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    # A new name each time: TensorBoard reads on where it stopped in a file that it knows.
    mark = secrets.token_hex(4)
    path = folder / f"events.out.tfevents.{int(time.time())}.{os.getpid()}.{mark}{SUFFIX}"
    # TensorBoard would read a part whose name has "tfevents" in it.
    with replacing(path, flush=False, part=folder / f".{mark}{SUFFIX}") as file:
        yield Events(file)


class Events:
    """The content of an event file, written to ``file``."""

    def __init__(self, file: BinaryIO):
        self.now = time.time()
        self.records = RecordWriter(file)
        self._add(Event(wall_time=self.now, file_version="brain.Event:2"))

    def scalars(self, tag: str, steps: Iterable[int], values: Iterable[float]) -> None:
        """The values of one scalar at ``steps``."""
        for step, value in zip(steps, values, strict=True):
            summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
            self._add(Event(wall_time=self.now, step=step, summary=summary))

    def text(self, tag: str, markdown: str) -> None:
        """A page of the text tab."""
        metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
        tensor = TensorProto(
            dtype="DT_STRING", string_val=[markdown.encode()], tensor_shape=TensorShapeProto()
        )
        value = Summary.Value(tag=f"{tag}/text_summary", metadata=metadata, tensor=tensor)
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
