"""`df.write.format("changefeed")` and `df.writeStream.format("changefeed")` to folders of record logs, in any protocol.

    FOLDER/00000000000000000000-00000-<id>.parquet      of a batch write: write 0, task 0
    FOLDER/00000000000000000000-00000.parquet           of a stream: batch 0, task 0
    FOLDER/.stream                                      the id of the stream that writes here
    FOLDER/.unfinished…/…                               files that have no name yet

Rule 1. Each task writes one file, in the order of its rows. If the rows of a partition are in several tasks, they are in
        several files; to keep their order, repartition by the position's topic and partition, and sort within partitions.
Rule 2. Files get their names when all tasks are done; a write that fails leaves no file. The folder is one log, in the order
        of file names.
Rule 3. Batch writes are numbered after the existing files, and replace nothing.
Rule 4. A stream names its files by Spark's numbers of the batch and of the task. Spark writes a batch again if it stopped
        before it marked the batch as done. The second write replaces the files of the first, and removes those that it does
        not have: afterwards each row of the batch is in the folder once.
Rule 5. A stream without its checkpoint begins at batch 0 again. So a folder belongs to one stream, identified by the id that
        Spark keeps in the checkpoint; other streams and batch writes are refused.
Rule 6. Tasks on other machines need a folder that all machines share.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from changefeed import record_log
from changefeed.errors import ConfigError, SinkError
from changefeed.local_files import link_new, make_folder, sync
from changefeed.spark.arrow_streams import DataSourceStreamArrowWriter
from changefeed.spark.writing import WritePlan

_STREAM = ".stream"
_QUERY_ID = "sql.streaming.queryId"  # Spark's local property: the id in the checkpoint


@dataclass
class TaskFile(WriterCommitMessage):
    """A file that one task has written, before it gets its final name.

    Attributes:
        task: number of the task.
        file: the file's name in the folder of unfinished files; None if the task had no rows.
        stream: the id of the stream; None for a batch write.
    """

    task: int
    file: str | None
    stream: str | None = None


class LogFolder:
    """Writes record logs to a folder. Pickled and sent to the tasks.

    Attributes:
        path: the path of the folder.
    """

    def __init__(self, path: str, write_id: str = "") -> None:
        self.path = Path(path)
        self._id = write_id
        self._unfinished = self.path / f".unfinished{write_id and '-'}{write_id}"

    def write(self, records: Iterable[pa.RecordBatch]) -> TaskFile:
        """Writes the records of a task to a temporary file."""
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
        """Gives the files of a batch write their final names.

        Raises:
            ConfigError: the folder belongs to a stream.
        """
        if (self.path / _STREAM).exists():
            raise ConfigError(f"changefeed: {self.path} belongs to a stream: write to a folder of its own")
        number = max((int(name[:20]) for name in self._names() if name[:20].isdigit()), default=-1) + 1
        self._name({f"{number:020}-{one.task:05}-{self._id}.parquet": one for one in files})

    def put(self, files: list[TaskFile], batch: int) -> None:
        """Gives the files of a stream's batch their final names, and removes other files of this batch.

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
        """Removes temporary files, including those of runs that were killed."""
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
        """Assigns the folder to the stream, or checks that it belongs to the stream."""
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
    """Spark's batch writer to a folder: encodes rows of changes and writes the records."""

    def __init__(self, folder: LogFolder, writing: WritePlan) -> None:
        self._folder, self._writing = folder, writing

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Writes the rows of a task to a file that has no name yet."""
        return self._folder.write(self._writing.records(iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Gives the files of all tasks their final names."""
        self._folder.append(_written(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Removes the temporary files of all tasks."""
        self._folder.remove()


class LogStreamWriter(DataSourceStreamArrowWriter):
    """Spark's stream writer to a folder: encodes rows of changes and writes the records."""

    def __init__(self, folder: LogFolder, writing: WritePlan) -> None:
        self._folder, self._writing = folder, writing

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Writes the rows of a task to a file that has no name yet."""
        return self._folder.write(self._writing.records(iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Gives the files of a batch their final names."""
        self._folder.put(_written(messages), batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Removes the temporary files of a batch."""
        self._folder.remove()


def _written(messages: Iterable[WriterCommitMessage | None]) -> list[TaskFile]:
    return [message for message in messages if isinstance(message, TaskFile)]
