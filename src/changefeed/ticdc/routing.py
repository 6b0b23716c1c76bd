"""Routing: chooses topic and partition of written records, the change's own or one of `partition-num` partitions.

With `partition-num`, schema changes and resolved events go to all partitions of their topics. The source sent a copy of
each on every partition of its own, so:

Rule 1. A schema change is sent once: another one with the same commit_ts, table and text is a copy.
Rule 2. A resolved event is valid for one source partition. The minimum of the latest marks of all source partitions seen
        so far is sent, whenever it has increased.
Rule 3. Offsets count from 0 in each partition.
Rule 4. With `dispatchers` a schema change goes to the topic of the table's old name, a schema change of a database to the
        default topic, and a resolved event to the default topic and every topic that has received an event.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterator

import pyarrow as pa

from changefeed.columnar.events import Row
from changefeed.errors import SchemaError, UnsupportedError
from changefeed.model.event import Resolved, SchemaChange
from changefeed.model.position import Place
from changefeed.model.table import TableShape
from changefeed.mysql import ddl
from changefeed.mysql.ddl import statements as sql
from changefeed.ticdc.dispatch import Dispatcher, Dispatchers, topic_name

_REMEMBERED = 4096


class Router:
    """Chooses topic and partition of written records.

    Args:
        topic: a name or an expression; None: each change keeps its topic.
        dispatcher: chooses the partitions of rows; None: each change keeps its partition.
        rules: topics and partition rules of some tables; the two above apply to all others.

    Raises:
        ConfigError: one of `rules` chooses among partitions, but there is no dispatcher with their number.
    """

    def __init__(self, topic: str | None, dispatcher: Dispatcher | None, rules: Dispatchers | None = None) -> None:
        self._topic = topic
        self._rules = rules or Dispatchers(())
        self._partitions = None if dispatcher is None else dispatcher.partitions
        self._ways = self._rules.ways(dispatcher)
        self._topics: OrderedDict[str, None] = OrderedDict()
        self._marks: dict[tuple[str, int], int] = {}
        self._resolved = 0
        self._seen: OrderedDict[tuple[int | None, str | None, str | None, str | None], None] = OrderedDict()

    def row(self, row: Row, commit_ts: int) -> Place:
        """Returns topic, partition and offset of a row."""
        database, table = row.shape.database, row.shape.table
        topic = self._topic_of(database, table, row.place)
        if self._partitions is None:
            return Place(topic, row.place.partition, row.place.offset)
        self._marks.setdefault((row.place.topic, row.place.partition), 0)
        image = row.after if row.after is not None else row.before or {}
        dispatcher = self._ways[self._rules.rule(database, table)]
        return Place(topic, dispatcher.partition(row.shape, image, row.irregular, commit_ts), 0)

    def places(self, shape: TableShape, rows: pa.RecordBatch, commit_ts: pa.Array) -> dict[str, pa.Array]:
        """The same as `row` for rows of a shape: columns topic, partition, offset; and `from_…` for `went`."""
        topic, partition, offset = (rows.column(name) for name in ("topic", "partition", "offset"))
        sources = {"from_topic": topic, "from_partition": partition}
        if self._renames:
            own = topic.dictionary_encode()
            named = [self._named(shape.database, shape.table, name) for name in own.dictionary.to_pylist()]
            topic = pa.array(named, pa.string()).take(own.indices)
        if self._partitions is not None:
            dispatcher = self._ways[self._rules.rule(shape.database, shape.table)]
            partition = pa.array(dispatcher.by_columns(shape, rows, commit_ts), pa.int32())
            offset = pa.repeat(pa.scalar(0, pa.int64()), len(rows))
        return sources | {"topic": topic, "partition": partition, "offset": offset}

    def check(self, shape: TableShape) -> None:
        """Checks that a shape has the columns by which its rows are dispatched.

        Raises:
            UnsupportedError: a column is missing.
        """
        if self._partitions is not None:
            self._ways[self._rules.rule(shape.database, shape.table)].names(shape)

    def went(self, places: pa.RecordBatch) -> None:
        """Registers the topics and source partitions of rows that have been written; `places` is the result of `places`."""
        if self._renames:
            self._topics.update(dict.fromkeys(places.column("topic").unique().to_pylist()))
        if self._partitions is not None:
            sources = pa.Table.from_batches([places.select(["from_topic", "from_partition"])])
            for source in sources.group_by(["from_topic", "from_partition"]).aggregate([]).to_pylist():
                self._marks.setdefault((source["from_topic"], source["from_partition"]), 0)

    def schema_change(self, event: SchemaChange) -> Iterator[Place]:
        """Yields topic, partition and offset of each copy of a schema change."""
        topic = self._topic_of(*_before(event), event.place)
        if self._partitions is None:
            yield Place(topic, event.place.partition, event.place.offset)
            return
        known = (event.commit_ts, event.database, event.table, event.ddl)
        if known not in self._seen:
            self._seen[known] = None
            while len(self._seen) > _REMEMBERED:
                self._seen.popitem(last=False)
            yield from self._all((topic,))

    def resolved(self, event: Resolved) -> Iterator[tuple[Place, int]]:
        """Yields topic, partition and offset of each copy of a resolved event, and the commit_ts to send there."""
        place = event.place
        if self._partitions is None:
            for topic in self._active(place):
                yield Place(topic, place.partition, place.offset), event.commit_ts
            return
        source = (place.topic, place.partition)
        self._marks[source] = max(self._marks.get(source, 0), event.commit_ts)
        least = min(self._marks.values())
        if least > self._resolved:
            self._resolved = least
            for at in self._all(self._active(place)):
                yield at, least

    @property
    def _renames(self) -> bool:
        return self._topic is not None or self._partitions is not None or bool(self._rules)

    def _topic_of(self, database: str, table: str, place: Place) -> str:
        if not self._renames:
            return place.topic
        topic = self._named(database, table, place.topic)
        self._topics[topic] = None
        return topic

    def _named(self, database: str, table: str, own: str) -> str:
        rule = self._rules.rule(database, table) if table else None
        expression = (rule.topic if rule is not None else "") or self._topic
        return own if expression is None else topic_name(expression, database, table) or own

    def _active(self, place: Place) -> tuple[str, ...]:
        """The topics that have received events; with `dispatchers` also the default topic, as the producer does."""
        if not self._topics or (self._rules and "{" not in (self._topic or "")):
            return tuple(dict.fromkeys((self._topic_of("", "", place), *self._topics)))
        return tuple(self._topics)

    def _all(self, topics: tuple[str, ...]) -> Iterator[Place]:
        for topic in topics:
            for partition in range(self._partitions or 0):
                yield Place(topic, partition, 0)


def _before(event: SchemaChange) -> tuple[str, str]:
    """Returns the table that determines the topic of a schema change: its old name, or the other table of an exchange."""
    database, table = event.database or "", event.table or ""
    if event.type not in ("rename_table", "rename_tables", "exchange_table_partition"):
        return database, table
    try:
        statements = ddl.parse(event.ddl or "", database, restored=True)
    except (SchemaError, UnsupportedError):
        return database, table
    for statement in statements:
        match statement:
            case sql.RenameTable(to_database=d, to_table=t) if _same((d, t), (database, table)):
                return statement.database, statement.table
            case sql.Unapplied(tables=(first, second)):
                return second if _same(first, (database, table)) else first
    return database, table


def _same(left: tuple[str, str], right: tuple[str, str]) -> bool:
    return [name.lower() for name in left] == [name.lower() for name in right]


class OffsetCounter:
    """Assigns offsets: counts the records of each partition."""

    def __init__(self) -> None:
        self._next: defaultdict[tuple[str, int], int] = defaultdict(int)

    def next(self, place: Place) -> int:
        """Returns the offset for the next record of the place's partition."""
        offset = self._next[place.topic, place.partition]
        self._next[place.topic, place.partition] += 1
        return offset
