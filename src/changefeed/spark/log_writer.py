"""`df.write.format("changefeed")`: changes as a folder of record logs, in any protocol.

    FOLDER/00000000000000000000-00000-<id>.parquet      from one task; a log that is read as FOLDER, or FOLDER/*.parquet
    FOLDER/.<id>/…                                       what has no name yet

Rule 1. Each task writes one file, in its order. Rows of a partition that lie in several tasks are in several files: who needs
        them in their order repartitions by the position's topic and partition, and sorts within them.
Rule 2. Files get their names when all tasks are done, numbered behind those that are there; a write that fails leaves none.
Rule 3. Nothing is replaced, and tasks on other machines need a folder that all of them see.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from changefeed import record_log
from changefeed.spark.writing import Writing


@dataclass
class Written(WriterCommitMessage):
    """The file of a task; None where it had no rows."""

    file: str | None


class LogWriter(DataSourceArrowWriter):
    """Writes rows of either shape as records."""

    def __init__(self, folder: str, writing: Writing) -> None:
        self._folder, self._writing, self._id = folder, writing, uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Writes the rows of a task to a file that has no name yet."""
        from pyspark import TaskContext

        context = TaskContext.get()
        number = context.partitionId() if context is not None else 0
        unfinished = self._unfinished
        unfinished.mkdir(parents=True, exist_ok=True)
        file = unfinished / f"{number:05}-{uuid.uuid4().hex[:8]}.parquet"
        if record_log.write(file, self._writing.records(iterator)):
            return Written(file.name)
        file.unlink()
        return Written(None)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Gives the files their names."""
        folder = Path(self._folder)
        folder.mkdir(parents=True, exist_ok=True)
        before = [int(path.name[:20]) for path in folder.glob("*.parquet") if path.name[:20].isdigit()]
        number = max(before, default=-1) + 1
        for message in messages:
            if isinstance(message, Written) and message.file is not None:
                (self._unfinished / message.file).rename(folder / f"{number:020}-{message.file}")
        self._remove()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Removes the files."""
        self._remove()

    @property
    def _unfinished(self) -> Path:
        return Path(self._folder) / f".{self._id}"

    def _remove(self) -> None:
        shutil.rmtree(self._unfinished, ignore_errors=True)
