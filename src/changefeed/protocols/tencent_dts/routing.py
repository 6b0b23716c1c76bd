"""Chooses topic and partition of events: as they were read, or dispatched again over `partitions`.

Rule 1. Events that were read from this protocol keep topic and partition; a foreign event goes to partition 0 of its topic.
Rule 2. With `partitions`, all events are dispatched again: rows by their rule, an update by its new row; other events to every
        partition.
"""

from __future__ import annotations

from collections.abc import Iterator

from changefeed.columnar.events import Row
from changefeed.model.position import Place
from changefeed.protocols.tencent_dts.messages import DATA
from changefeed.protocols.tencent_dts.options import Options
from changefeed.protocols.tencent_dts.rows import WireRow
from changefeed.protocols.tencent_dts.rules import columns_of, partition
from changefeed.protocols.tencent_dts.values import kept
from changefeed.wire import protobuf


class Router:
    """Chooses topic and partition of events. Remembers the topics."""

    def __init__(self, options: Options) -> None:
        self._partitions = options.partitions
        self._default = options.partition_rule
        self._rules = options.rules
        self._topics: dict[str, None] = {}

    def row(self, row: Row, wire: WireRow, ours: bool) -> Place:
        """Returns topic and partition for a row."""
        if self._partitions is None and ours:
            return row.place
        self._topics[row.place.topic] = None
        return Place(row.place.topic, self._partition(row, wire), 0)

    def all(self, place: Place, ours: bool) -> list[Place]:
        """Returns the topics and partitions for an event that is not a row."""
        if self._partitions is None and ours:
            return [place]
        self._topics[place.topic] = None
        return list(self._of(place.topic))

    def every_partition(self) -> list[Place]:
        """Returns every partition of every topic that has been written to."""
        return [place for topic in self._topics for place in self._of(topic)]

    def _of(self, topic: str) -> Iterator[Place]:
        for number in range(self._partitions or 1):
            yield Place(topic, number, 0)

    def _partition(self, row: Row, wire: WireRow) -> int:
        if self._partitions is None:
            return 0
        shape, names = row.shape, [c.name for c in row.shape.columns]
        wanted = columns_of(self._rules, self._default, shape.database, shape.table, names, shape.keys)
        by_name = dict(zip(names, wire.new, strict=False))
        values = [kept(protobuf.read(DATA, by_name.get(name, b""))) for name in wanted]
        return partition(shape.database, shape.table, values, self._partitions)
