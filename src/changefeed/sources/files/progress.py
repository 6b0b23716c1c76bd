"""Cursors that record how far each log has been read, and how far it may be read. Needs no Spark."""

from __future__ import annotations

import json
from glob import glob
from pathlib import Path

from changefeed import record_log
from changefeed.errors import SourceError
from changefeed.record_log import LogPosition

Cursors = dict[str, LogPosition]


def logs(pattern: str) -> list[str]:
    """The files that match the pattern, and the folders that contain Parquet files, in the order of their names."""
    return [path for path in sorted(glob(pattern)) if not Path(path).is_dir() or record_log.is_folder(path)]


def read_offset(text: str) -> Cursors:
    """File -> position in it."""
    return {path: LogPosition(*place) for path, place in json.loads(text)["files"].items()}


def write_offset(cursors: Cursors) -> str:
    """The source offset of these cursors."""
    return json.dumps({"files": {path: [c.records, c.bytes] for path, c in sorted(cursors.items())}})


def advanced(cursors: Cursors, ends: Cursors, limit: int) -> Cursors:
    """The cursors, at most `limit` records further and not behind these ends."""
    further = dict(cursors)
    for path, last in sorted(ends.items()):
        cursor = cursors.get(path, record_log.START)
        if limit <= 0 or cursor.records >= last.records:
            continue
        step = min(limit, last.records - cursor.records)
        limit -= step
        further[path] = _further(path, cursor, last, step)
    return further


def _further(path: str, cursor: LogPosition, last: LogPosition, step: int) -> LogPosition:
    if cursor.records + step == last.records:
        return last
    if last.bytes == 0:  # compressed: lines are skipped by number
        return LogPosition(cursor.records + step)
    return record_log.advance(path, cursor, step)


def _is_line_end(path: str, cursor: LogPosition) -> bool:
    """Whether a line of the file ends at the cursor; True also if the cursor is at its end, or counts no bytes."""
    if not cursor.bytes:
        return True
    with open(path, "rb") as file:
        file.seek(cursor.bytes - 1)
        return file.read(1) in (b"\n", b"")


class LogEnds:
    """The ends of the files that match a pattern."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._totals: dict[str, tuple[tuple[int, ...], LogPosition]] = {}  # path -> size, and the end at that size

    def after(self, cursors: Cursors) -> Cursors:
        """The cursors after every complete record; none for a file without records.

        Raises:
            SourceError: a log ends before its cursor, or has no line that ends there.
        """
        totals = {path: self._total(path, cursors.get(path, record_log.START)) for path in logs(self._pattern)}
        return cursors | {path: total for path, total in totals.items() if total.records}

    def _total(self, path: str, cursor: LogPosition) -> LogPosition:
        """The end of the file's last complete record; if it has grown, only the new part is counted."""
        size = record_log.size(path)
        known, end = self._totals.get(path, (None, cursor))
        if known != size:
            end = record_log.advance(path, end if end.bytes else record_log.START)
            shorter = end.records < cursor.records or sum(size) < cursor.bytes - 1  # a last line may lack its line feed
            if shorter or not _is_line_end(path, cursor):
                raise SourceError(
                    f"{path} {'has become shorter' if shorter else 'was replaced'}: {cursor.records:,} records of it have been "
                    "read. A log may grow, but not be replaced: restore it, or give the new log another name"
                )
            self._totals[path] = size, end
        return end
