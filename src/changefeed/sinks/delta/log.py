"""What a Delta table's log says: its version, and which write of ours was the last.

Every write of ours carries Delta's own transaction identifier, `txnAppId` the pipeline and `txnVersion` a `Stamp` in one
number. Delta keeps the last one per application with the table, skips a write that repeats it or comes after a higher
one, and lets one of two at once fail. So the table itself tells what has been applied to it, whatever else is lost.

    63          40 39           12 11        0
    ┌─────────────┬───────────────┬───────────┐
    │    epoch    │     step      │  action   │
    └─────────────┴───────────────┴───────────┘
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from changefeed.errors import SinkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, order=True)
class Stamp:
    """Which write of which step by which writer."""

    epoch: int
    step: int
    action: int

    def pack(self) -> int:
        """The stamp as one number that grows with it.

        Raises:
            SinkError: a part is too large; 2^23 epochs, 2^28 steps an epoch, 2^12 actions a table and step are possible.
        """
        if not (self.epoch < 2**23 and self.step < 2**28 and self.action < 2**12):
            raise SinkError(f"{self} does not fit a transaction number")
        return self.epoch << 40 | self.step << 12 | self.action

    @classmethod
    def unpack(cls, number: int) -> Stamp:
        """The stamp that `pack` made the number of."""
        return cls(number >> 40, number >> 12 & (2**28 - 1), number & (2**12 - 1))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A table's newest state. `stamp` is the last write of the application asked for, if any; `size` bytes of its files."""

    version: int
    size: int
    stamp: Stamp | None
    columns: tuple[str, ...]


def snapshot(spark: SparkSession, path: str, application: str) -> Snapshot | None:
    """The newest state of the Delta table at `path`, or None when there is no table."""
    jvm: Any = spark._jvm  # the log is read by Delta's own reader, through the session's gateway
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path)
    state = log.update(False, jvm.scala.Option.empty(), jvm.scala.Option.empty())
    version = int(state.version())
    if version < 0:
        return None
    found = state.transactions().get(application)
    fields = state.metadata().schema().fieldNames()
    stamp = Stamp.unpack(int(found.get())) if found.isDefined() else None
    return Snapshot(version, int(state.sizeInBytes()), stamp, tuple(fields))
