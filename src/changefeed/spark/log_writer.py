"""`df.write.format("changefeed")` and `df.writeStream.format("changefeed")` to folders of record logs, in any protocol.

    FOLDER/00000000000000000000-00000-<id>.parquet      of a batch write: write 0, task 0
    FOLDER/00000000000000000000-00000.parquet           of a stream: batch 0, task 0
    FOLDER/.stream                                      the id of the stream that writes here
    FOLDER/.unfinished…/…                               files that have no name yet

Rule 1. Each task writes one file, in its order. Rows of a partition that lie in several tasks are in several files: who needs
        them in their order repartitions by the position's topic and partition, and sorts within them.
Rule 2. Files get their names when all tasks are done; a write that fails leaves none. The folder is one log: its order is that of
        the names.
Rule 3. Batch writes are numbered behind the files that are there, and nothing is replaced.
Rule 4. A stream names its files by Spark's number of the batch and of the task. Spark writes a batch again if it stopped before
        it noted the batch as done. The repeat replaces the files of the first time, each at once, and removes those that the
        repeat does not have: after it, each row of the batch is in the folder once.
Rule 5. A stream that begins without its checkpoint begins at batch 0. So a folder belongs to one stream, by the id that Spark
        keeps in the checkpoint: others are refused, and so is a batch write.
Rule 6. Tasks on other machines need a folder that all of them see.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from changefeed import record_log
from changefeed.errors import ConfigError, SinkError
from changefeed.local_files import link_new, make_folder, sync
from changefeed.spark.writing import WritePlan

_STREAM = ".stream"
_QUERY_ID = "sql.streaming.queryId"  # Spark's local property: the id in the checkpoint


@dataclass
class TaskFile(WriterCommitMessage):
    """A log that one task wrote, without its final name yet.

    Attributes:
        task: its number.
        file: its name in the folder of unfinished files; None where the task had no rows.
        stream: the id of the stream; None for a batch write.
    """

    task: int
    file: str | None
    stream: str | None = None


class LogFolder:
    """A folder of record logs that tasks write to. It is shipped to the tasks.

    Attributes:
        path: the folder.
    """

    def __init__(self, path: str, write_id: str = "") -> None:
        self.path = Path(path)
        self._id = write_id
        self._unfinished = self.path / f".unfinished{write_id and '-'}{write_id}"

    def write(self, records: Iterable[pa.RecordBatch]) -> TaskFile:
        """Writes the records of a task to a file that has no name yet."""
        from pyspark import TaskContext

        context = TaskContext.get()
        task = context.partitionId() if context is not None else 0
        stream = context.getLocalProperty(_QUERY_ID) if context is not None else None
        make_folder(str(self._unfinished))
        file = self._unfinished / f"{task:05}-{uuid.uuid4().hex}.parquet"
        if record_log.write(file, records):
            sync(str(file))
            return TaskFile(task, file.name, stream)
        file.unlink()
        return TaskFile(task, None, stream)

    def append(self, files: list[TaskFile]) -> None:
        """Gives the files of a batch write their names.

        Raises:
            ConfigError: the folder belongs to a stream.
        """
        if (self.path / _STREAM).exists():
            raise ConfigError(f"changefeed: {self.path} belongs to a stream: write to a folder of its own")
        number = max((int(name[:20]) for name in self._names() if name[:20].isdigit()), default=-1) + 1
        self._name({f"{number:020}-{one.task:05}-{self._id}.parquet": one for one in files})

    def put(self, files: list[TaskFile], batch: int) -> None:
        """Gives the files of a stream's batch their names, and removes the other files of this batch.

        Raises:
            ConfigError: the folder does not belong to this stream.
        """
        self._claim(next((one.stream for one in files if one.stream), None))
        names = {f"{batch:020}-{one.task:05}.parquet": one for one in files}
        self._name(names)
        kept = {name for name, one in names.items() if one.file is not None}
        for name in self._names():
            if name.startswith(f"{batch:020}-") and name not in kept:
                (self.path / name).unlink()

    def remove(self) -> None:
        """Removes files that have no name yet, those of runs that were killed among them."""
        shutil.rmtree(self._unfinished, ignore_errors=True)

    def _name(self, names: dict[str, TaskFile]) -> None:
        try:
            for name, one in names.items():
                if one.file is not None:
                    (self._unfinished / one.file).replace(self.path / name)
            sync(str(self.path))
        except OSError as error:
            raise SinkError(f"{self.path}: {error.strerror or error}") from error
        self.remove()

    def _claim(self, stream: str | None) -> None:
        """Makes the folder the stream's, or checks that it is."""
        if stream is None:
            raise SinkError(f"{self.path}: Spark's tasks do not have the stream's id ({_QUERY_ID})")
        mark = self.path / _STREAM
        if not mark.exists():
            if self._names():
                raise ConfigError(
                    f"changefeed: {self.path} has logs that this stream did not write: give the stream a folder of its own"
                )
            make_folder(str(self._unfinished))
            unfinished = self._unfinished / uuid.uuid4().hex
            unfinished.write_text(stream)
            sync(str(unfinished))
            link_new(str(unfinished), str(mark), str(self.path))
            unfinished.unlink()
        if (owner := mark.read_text()) != stream:
            raise ConfigError(
                f"changefeed: {self.path} belongs to another stream ({owner}; this one is {stream}). A stream with a new "
                "checkpoint begins at batch 0, and would replace files: give it a folder of its own, or its earlier checkpoint"
            )

    def _names(self) -> list[str]:
        return [path.name for path in self.path.glob("*.parquet")]


class LogWriter(DataSourceArrowWriter):
    """Writes rows of either shape as records: a batch."""

    def __init__(self, folder: LogFolder, writing: WritePlan) -> None:
        self._folder, self._writing = folder, writing

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Writes the rows of a task to a file that has no name yet."""
        return self._folder.write(self._writing.records(iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Gives the files their names."""
        self._folder.append(_written(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Removes the files."""
        self._folder.remove()


class LogStreamWriter(DataSourceStreamArrowWriter):
    """Writes rows of either shape as records: a stream."""

    def __init__(self, folder: LogFolder, writing: WritePlan) -> None:
        self._folder, self._writing = folder, writing

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Writes the rows of a task to a file that has no name yet."""
        return self._folder.write(self._writing.records(iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Gives the files of a batch their names."""
        self._folder.put(_written(messages), batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Removes the files of a batch."""
        self._folder.remove()


def _written(messages: Iterable[WriterCommitMessage | None]) -> list[TaskFile]:
    return [message for message in messages if isinstance(message, TaskFile)]
