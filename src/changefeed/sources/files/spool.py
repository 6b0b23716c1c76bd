"""Decompresses each compressed log once: the lines of a batch go to a scratch file, which the tasks read.

gzip and zstd streams can only be read from their start. If every batch did that, a log of n batches would be decompressed n
times.

Rule 1. The stream of a log stays open between batches. A batch that begins where the last one ended costs its own lines; any
        other batch, such as the first of a run, decompresses the log from its start.
Rule 2. A scratch file is complete before a task gets its path. A task that does not see it, as on another machine, reads the
        log itself: slower, with the same records.
Rule 3. Scratch files are deleted when the next batch is planned; they hold at most one batch, uncompressed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from changefeed import record_log
from changefeed.errors import SourceError
from changefeed.record_log.stream import lines
from changefeed.spark_runtime.scratch import Scratch


@dataclass(slots=True)
class _Stream:
    rest: Iterator[bytes]
    size: tuple[int, ...]
    number: int = 0  # number of the next record


@dataclass(slots=True)
class Spool:
    """The scratch files of one run."""

    _scratch: Scratch | None = None
    _streams: dict[str, _Stream] = field(default_factory=dict)
    _files: list[Path] = field(default_factory=list)
    _made: int = 0

    def lines(self, path: str, start: int, stop: int) -> Path:
        """A file with the lines of the records `start` to `stop`.

        Raises:
            SourceError: the log cannot be read, or has become shorter.
        """
        stream, size = self._streams.get(path), record_log.size(path)
        if stream is None or stream.number > start or stream.size != size:
            stream = self._streams[path] = _Stream(lines(Path(path)), size)
        self._scratch = self._scratch or Scratch("lines")
        self._made += 1
        file = self._scratch.path / f"{self._made}.jsonl"
        with file.open("wb") as out:
            number = start
            for line in islice(stream.rest, start - stream.number, stop - stream.number):
                out.write(line)
                number += 1
        if number != stop:
            raise SourceError(f"{path} has {number} records, and had {stop} when they were counted")
        stream.number = stop
        self._files.append(file)
        return file

    def forget(self) -> None:
        """Deletes the files of earlier batches."""
        for file in self._files:
            file.unlink(missing_ok=True)
        self._files.clear()

    def close_log(self, path: str) -> None:
        """Closes a log that has been read to its end."""
        self._streams.pop(path, None)

    def close(self) -> None:
        """Deletes all files, and closes all logs."""
        self._files.clear()
        self._streams.clear()
        if self._scratch is not None:
            self._scratch.close()
            self._scratch = None
