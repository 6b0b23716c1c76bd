"""The lag of a pipeline's tables, from the ledger's state: in time where commits have times, in rows, and in records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from changefeed.pipeline.state import State
from changefeed.sources import Backlog
from changefeed.ticdc import tso

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OLD = timedelta(minutes=1)  # what was left to read so long ago is shown with the time


@dataclass(frozen=True, slots=True)
class Lag:
    """The lag of a pipeline's tables.

    Attributes:
        applied: time of the newest commit in the tables; None if the upstream's numbers are not times.
        read: time of the newest commit that was read; None if it is not known.
        pending: row changes that were read and wait.
        records: records that were not read yet; None if the source was not asked, or does not know.
        partitions: (topic, partition) -> records that were not read yet, where the source counts them by partition.
        bytes: bytes of a log that were not read yet; None if the source was not asked, or counts records.
        counted: when the source was asked, if not just now.
    """

    applied: datetime | None
    read: datetime | None
    pending: int
    records: int | None = None
    partitions: Mapping[tuple[str, int], int] | None = None
    bytes: int | None = None
    counted: datetime | None = None

    @property
    def behind_read(self) -> timedelta | None:
        """Time between the newest commit in the tables and the newest one that was read; None if one is not known."""
        return None if self.applied is None or self.read is None else max(self.read - self.applied, timedelta())

    def topics(self) -> dict[str, int]:
        """Topic -> records that were not read yet."""
        records_of: dict[str, int] = {}
        for (topic, _), records in (self.partitions or {}).items():
            records_of[topic] = records_of.get(topic, 0) + records
        return records_of

    def behind_now(self, now: datetime) -> timedelta | None:
        """Age of the newest commit in the tables."""
        return None if self.applied is None else max(now - self.applied, timedelta())

    def to_dict(self, now: datetime) -> dict[str, Any]:
        """Returns `lag` in JSON; what is not known is left out."""
        age, behind = self.behind_now(now), self.behind_read
        times = {
            "applied_time": self.applied and tso.iso(self.applied),
            "read_time": self.read and tso.iso(self.read),
            "seconds": None if age is None else round(age.total_seconds(), 3),
            "seconds_behind_read": None if behind is None else round(behind.total_seconds(), 3),
            "counted_time": self.counted and tso.iso(self.counted),
            "records": self.records,
            "bytes": self.bytes,
        }
        by_topic: dict[str, dict[str, int]] = {}
        for (topic, partition), records in sorted((self.partitions or {}).items()):
            by_topic.setdefault(topic, {})[str(partition)] = records
        known_times = {name: value for name, value in times.items() if value is not None}
        return {**known_times, "pending_rows": self.pending, **({"records_by_partition": by_topic} if by_topic else {})}


NO_LAG = Lag(None, None, 0)
"""The lag of a pipeline that has read nothing."""


def lag_of(state: State, backlog: Backlog | None, *, binlog: bool) -> Lag:
    """The lag of a pipeline.

    Args:
        state: the newest state in the ledger.
        backlog: what the source has behind it; None if that is not known.
        binlog: whether the source's commit_ts are places in a binlog, and commit times stand beside them.
    """
    if binlog:
        applied = None if state.time is None else _EPOCH + timedelta(milliseconds=state.time)
        read = applied if not state.counts.pending else None
    else:
        newest = state.newest()
        applied = None if state.barrier is None else tso.time_of(state.barrier)
        read = None if newest is None else tso.time_of(newest)
    if backlog is None:
        return Lag(applied, read, state.counts.pending)
    return Lag(
        applied, read, state.counts.pending, backlog.records, backlog.partitions or None, backlog.bytes, backlog.counted
    )


def lag_text(lag: Lag, now: datetime) -> str:
    """The lag for people: `3.2 s behind, 1,204 records to read, 17 rows pending`; an old count of records with its time."""
    age = lag.behind_now(now)
    words = [] if age is None else [f"{duration(age)} behind"]
    is_old = lag.counted is not None and now - lag.counted >= _OLD
    words += [f"{left} at {lag.counted:%Y-%m-%d %H:%M:%SZ}" if is_old else left for left in to_read_words(lag)]
    if lag.pending:
        words.append(f"{lag.pending:,} rows pending" if lag.pending != 1 else "1 row pending")
    return ", ".join(words)


def to_read_words(lag: Lag | Backlog) -> list[str]:
    """The records or bytes that were not read yet, for people: `1,204 records to read`; empty if it is not known."""
    words = []
    if lag.records is not None:
        words.append(f"{lag.records:,} records to read" if lag.records != 1 else "1 record to read")
    if lag.bytes is not None:
        words.append(f"{size_text(lag.bytes)} to read")
    return words


def size_text(size: int) -> str:
    """A number of bytes for people: `812 bytes`, `3.2 MB`, in powers of 1,000."""
    if size < 1000:
        return f"{size} bytes" if size != 1 else "1 byte"
    scaled, units = float(size), iter(("kB", "MB", "GB", "TB", "PB"))
    unit = ""
    while scaled >= 999.95 or not unit:
        scaled, unit = scaled / 1000, next(units)
    return f"{scaled:.1f} {unit}"


def duration(length: timedelta) -> str:
    """A duration for people: `0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`."""
    seconds = length.total_seconds()
    if seconds < 10:
        return f"{seconds:.1f} s"
    rest, words = int(seconds), list[str]()
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        if count:
            words.append(f"{count} {unit}")
        elif words:
            break
    return " ".join(words[:2])
