"""The options of TiCDC's protocols for topics and partitions: their types, and the dispatchers built from them.

A protocol's options struct declares the fields itself (a struct has only one struct as its base) and also inherits from
`Dispatching`.
"""

from __future__ import annotations

from datetime import UTC
from typing import Annotated

from msgspec import Meta

from changefeed.errors import ConfigError
from changefeed.mysql.zone import zone
from changefeed.ticdc.dispatch.partition import Dispatcher
from changefeed.ticdc.dispatch.rules import Dispatchers, Rule, check_index
from changefeed.ticdc.dispatch.topic import check_topic

Topic = Annotated[
    str | None,
    Meta(description="topic to write to; may contain {schema} and {table}. Without it, each change keeps its own"),
]
PartitionNum = Annotated[
    int | None,
    Meta(description="number of partitions over which rows are dispatched. Without it, each change keeps its own"),
]
Partition = Annotated[str, Meta(description="dispatcher: default, table, ts, index-value, columns")]
Index = Annotated[
    str | None, Meta(description="unique index of index-value; not supported, because changes do not carry indexes")
]
Columns = Annotated[str | tuple[str, ...], Meta(description="columns of the columns dispatcher")]
DispatchRules = Annotated[
    tuple[Rule, ...],
    Meta(
        description="TiCDC's rules `{matcher, topic, partition, columns}`; with `-o` a changefeed's TOML or JSON file"
    ),
]
CaseSensitive = Annotated[bool, Meta(description="the matchers of `dispatchers` are case-sensitive")]


class Dispatching:
    """Methods for an options struct that has all of these fields."""

    __slots__ = ()

    profile: str
    time_zone: str
    bug_compat: bool
    topic: Topic
    partition_num: PartitionNum
    partition: Partition
    index: Index
    columns: Columns
    dispatchers: DispatchRules
    case_sensitive: CaseSensitive

    @property
    def named_topics(self) -> frozenset[str]:
        """The topics of the options whose names do not depend on a table."""
        topics = (self.topic, *(rule.topic for rule in self.dispatchers))
        return frozenset(topic for topic in topics if topic and "{" not in topic)

    @property
    def dispatches(self) -> tuple[str, ...]:
        """The names of set options that send rows to topics or partitions other than the changes' own."""
        return tuple(
            name for name, value in (("topic", self.topic), ("partition-num", self.partition_num)) if value is not None
        )

    def check_dispatching(self) -> None:
        """Checks the options beyond their types.

        Raises:
            ConfigError: an option is invalid.
        """
        if self.partition_num is not None and self.partition_num <= 0:
            raise ConfigError(f"invalid partition-num {self.partition_num}")
        if self.topic is not None:
            check_topic(self.topic)
        check_index(self.index)
        Dispatcher(self.partition, 1, self._columns, None, UTC)
        self.dispatch_rules()

    def dispatcher(self) -> Dispatcher | None:
        """Returns the default dispatcher; None if changes keep their partitions. Classic hashes NULL, newarch does not."""
        if self.partition_num is None:
            return None
        null = b"null" if self.profile == "classic" else None
        return Dispatcher(self.partition, self.partition_num, self._columns, null, zone(self.time_zone))

    def dispatch_rules(self) -> Dispatchers:
        """Compiles the option `dispatchers`; newarch ignores `case-sensitive`, which is a defect."""
        ignored = self.profile == "newarch" and self.bug_compat
        return Dispatchers(self.dispatchers, case_sensitive=self.case_sensitive and not ignored)

    @property
    def _columns(self) -> tuple[str, ...]:
        """The names in the option `columns`; in a text they are separated by commas."""
        if isinstance(self.columns, str):
            return tuple(name.strip() for name in self.columns.split(",") if name.strip())
        return self.columns
