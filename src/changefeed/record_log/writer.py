"""Writes record logs: a log gets its name when it is complete."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from changefeed.errors import ConfigError, SinkError
from changefeed.record_log import lines, parquet
from changefeed.record_log.stream import compression

_FORMS = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet")


class RecordLogWriter:
    """Writes a log under a temporary name, and renames it when the `with` block ends without an error.

    Attributes:
        records: number of records written.

    Raises:
        ConfigError: the name does not end like a record log's.
        SinkError: the file cannot be written.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        if not self._path.name.endswith(_FORMS):
            raise ConfigError(f"{path}: a record log's name ends with one of {', '.join(_FORMS)}")
        if self._path.is_dir():
            raise ConfigError(f"{path} is a folder: name a file")
        self._unfinished = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        self.records = 0

    def __enter__(self) -> RecordLogWriter:
        try:
            self._file = self._open()
        except OSError as error:
            raise SinkError(f"{self._path}: {error.strerror or error}") from error
        return self

    def write(self, batch: pa.RecordBatch) -> None:
        """Appends records; the columns are those of `model.batch.RECORDS`."""
        try:
            self._file.write(batch if isinstance(self._file, parquet.RowGroups) else lines.encode(batch))
        except OSError as error:
            raise SinkError(f"{self._path}: {error.strerror or error}") from error
        self.records += len(batch)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._file.close()
            if kind is None:
                self._unfinished.replace(self._path)
        except OSError as problem:
            raise SinkError(f"{self._path}: {problem.strerror or problem}") from problem
        finally:
            self._unfinished.unlink(missing_ok=True)

    def _open(self) -> Any:
        if self._path.suffix == ".parquet":
            return parquet.RowGroups(self._unfinished)
        codec = compression(self._path)
        return self._unfinished.open("wb") if codec is None else pa.output_stream(self._unfinished, compression=codec)
