"""Where messages go: as they came, or dispatched anew over `partition-num` partitions.

Dispatched anew, schema changes and resolved marks go to all partitions of their topics. The source sent a copy of each
on every partition of its own, so:

Rule 1. A schema change is sent once: the second with the same commit ts, table and text is a copy.
Rule 2. A resolved mark holds for one source partition. What is sent is the least of the latest marks of all source
        partitions seen so far, when it has grown.
Rule 3. Offsets count from 0 in each partition.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterator

from changefeed.model.event import Resolved, SchemaChange
from changefeed.model.position import Place
from changefeed.wire.dispatch import Dispatcher, topic_name
from changefeed.wire.events import Row

_REMEMBERED = 4096


class Router:
    """Chooses topic and partition of what is written.

    Args:
        topic: a name or an expression; None keeps the change's own.
        dispatcher: chooses the partitions of rows anew; None keeps the change's own.
    """

    def __init__(self, topic: str | None, dispatcher: Dispatcher | None) -> None:
        self._topic = topic
        self._dispatcher = dispatcher
        self._topics: OrderedDict[str, None] = OrderedDict()
        self._marks: dict[tuple[str, int], int] = {}
        self._resolved = 0
        self._seen: OrderedDict[tuple[int | None, str | None, str | None, str | None], None] = OrderedDict()

    def row(self, row: Row, commit_ts: int) -> Place:
        """The place of a row."""
        topic = self._topic_of(row.shape.database, row.shape.table, row.place)
        if self._dispatcher is None:
            return Place(topic, row.place.partition, row.place.offset)
        self._marks.setdefault((row.place.topic, row.place.partition), 0)
        image = row.after if row.after is not None else row.before or {}
        return Place(topic, self._dispatcher.partition(row.shape, image, row.irregular, commit_ts), 0)

    def schema_change(self, event: SchemaChange) -> Iterator[Place]:
        """The places of a schema change."""
        topic = self._topic_of(event.database or "", event.table or "", event.place)
        if self._dispatcher is None:
            yield Place(topic, event.place.partition, event.place.offset)
            return
        known = (event.commit_ts, event.database, event.table, event.ddl)
        if known not in self._seen:
            self._seen[known] = None
            while len(self._seen) > _REMEMBERED:
                self._seen.popitem(last=False)
            yield from self._all((topic,))

    def resolved(self, event: Resolved) -> Iterator[tuple[Place, int]]:
        """The places of a resolved mark, and the commit ts to send there."""
        place = event.place
        if self._dispatcher is None:
            topics = [place.topic] if self._topic is None else list(self._topics) or [self._topic_of("", "", place)]
            for topic in topics:
                yield Place(topic, place.partition, place.offset), event.commit_ts
            return
        source = (place.topic, place.partition)
        self._marks[source] = max(self._marks.get(source, 0), event.commit_ts)
        least = min(self._marks.values())
        if least > self._resolved:
            self._resolved = least
            for at in self._all(tuple(self._topics) or (self._topic_of("", "", place),)):
                yield at, least

    def _topic_of(self, database: str, table: str, place: Place) -> str:
        if self._topic is None and self._dispatcher is None:
            return place.topic
        topic = place.topic if self._topic is None else topic_name(self._topic, database, table) or place.topic
        self._topics[topic] = None
        return topic

    def _all(self, topics: tuple[str, ...]) -> Iterator[Place]:
        assert self._dispatcher is not None
        for topic in topics:
            for partition in range(self._dispatcher.partitions):
                yield Place(topic, partition, 0)


class Offsets:
    """Counts the records of each partition."""

    def __init__(self) -> None:
        self._next: defaultdict[tuple[str, int], int] = defaultdict(int)

    def next(self, place: Place) -> int:
        """The offset of the next record of the place's partition."""
        offset = self._next[place.topic, place.partition]
        self._next[place.topic, place.partition] += 1
        return offset
