"""Tables of a MySQL or MariaDB server as a source: a first copy, then its binary log. No topic and no connector is needed.

    first_copy.py   chunks of tables  ─┐
    batches.py      slices of the log ─┴─▶ reader.py, in tasks: dump.py ─▶ changes.py, kernel_decoder.py ─▶ chunks
    planning.py     batches of both, of tables that join later, and of tables that are copied again
    backlog.py      what is left to read, for people
    stream.py       for sinks of events: the same changes in one ordered stream, with all details of the log

Rule 1. The driver plans: where each part begins and ends. Tasks read the parts, each with a connection of its own, perhaps twice.
Rule 2. The commit_ts of a change is its place in the log: `file number << 40 | position`. The end of each slice that lies
        between two transactions is marked (`Resolved`): cuts are states that the server really had.
Rule 3. The source offset is the next position in the log, and the progress of the first copy (`source_offset.py`). A run
        continues from it, inside of a transaction, too.
Rule 4. Positions belong to one server. Another one continues by GTID (`failover.py`); if it cannot, or the log no longer has the
        next position, the run stops.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from changefeed.errors import AccessError, ChangefeedError, ConfigError, SourceError
from changefeed.frames.mapped import Mapped
from changefeed.protocols.base import Capabilities
from changefeed.sources import Backlog, Compared, Missing, NextBatch
from changefeed.sources.copies import CopyRequest
from changefeed.sources.mysql.backlog import backlog_of
from changefeed.sources.mysql.batches import LogSlice
from changefeed.sources.mysql.changes import PARTITION, TOPIC
from changefeed.sources.mysql.column_rules import check_columns
from changefeed.sources.mysql.connection import Address, LostLogError
from changefeed.sources.mysql.copying_again import check
from changefeed.sources.mysql.failover import moved
from changefeed.sources.mysql.first_copy import SchemaChangedError
from changefeed.sources.mysql.planning import Plan, Planner
from changefeed.sources.mysql.reader import read, read_parts
from changefeed.sources.mysql.rights import unreadable
from changefeed.sources.mysql.section import MySqlSource
from changefeed.sources.mysql.server import AnotherServerError, Server
from changefeed.sources.mysql.signal_topic import SignalTopic
from changefeed.sources.mysql.signals import copies_of
from changefeed.sources.mysql.source_offset import LogPosition, SourceOffset
from changefeed.sources.mysql.source_offset import read as read_offset
from changefeed.sources.mysql.tables import Captured, Name, all_keys, list_tables
from changefeed.sources.mysql.unlogged import check_tables
from changefeed.ticdc.dispatch.matcher import TableFilter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from changefeed.frames.chunks import Dated
    from changefeed.frames.slices import Slices
    from changefeed.model.definition import Table
    from changefeed.sources.mysql.stream import MySqlStream

_PROBE_SECONDS = 3.0
_TRIES = 5  # of planning, while the schema changes
CAPABILITIES = Capabilities(
    carries=frozenset({
        "op.insert", "op.update", "op.delete", "op.read", "names", "keys", "before", "after", "delete.keys", "delete.before",
        "values", "types", "members", "irregular", "commit_ts", "commit_time", "delete.commit_ts", "delete.commit_time", "order",
        "schema", "schema.ddl", "schema.commit_ts", "schema.commit_time", "resolved",
    }),
    cuts="marks",
    broadcast=True,
    session_database=True,
    binlog_places=True,
    copies_again=True,
)  # fmt: skip


@dataclass(slots=True)
class MySqlTables:
    """The source `mysql`; see the head of this file and `sources.Source`."""

    section: MySqlSource
    address: Address
    _server: Server | None = field(default=None, repr=False)
    _signals: SignalTopic | None = field(default=None, repr=False)

    capabilities = CAPABILITIES
    title = "MySQL binary log"
    redefinition = None  # the log has the types that the tables have
    offset_names_partitions = True

    def compared(self, spark: SparkSession | None, source_offset: str) -> Compared:
        """See `Stream`."""
        known = read_offset(source_offset)
        server = self._ask()
        try:
            if known.server == server.identity:
                server.check_has(known.at)
            elif not known.is_first_copy:
                moved(server, known)
        except LostLogError:
            if not self.section.copies_lost_log:  # otherwise planning begins another copy
                raise
        selector = TableFilter(self.section.tables)
        notes = check_tables(server, selector, self.section.signal_table)
        notes += check_columns(server, selector, self.section.column_patterns)
        topic = self._signal_topic()
        return Compared(source_offset, notes=(*notes, *(topic.missing() if topic is not None else ())))

    def next_batch(
        self, spark: SparkSession, before: str | None, end: str | None, *, short_first: bool = False
    ) -> NextBatch | None:
        """See `Stream`; the first copy is read whatever `end` is, and the log at least to where it is complete.

        Raises:
            ConfigError: a setting of the server is not as the source needs it, or a table cannot be copied.
        """
        plan = self.plan(before, end)
        if plan is None:
            return None
        rows = spark.range(0, len(plan.parts), 1, max(1, len(plan.parts)))
        records = Mapped(rows, read_parts(plan.reading, plan.parts))
        ended = frozenset({(TOPIC, PARTITION)} if plan.caught_up else ())
        left = self._behind(self._ask(), plan.after, None if end is None else read_offset(end).at)
        return NextBatch(records, plan.after.text(), ended, plan.caught_up, left)

    def plan(self, before: str | None, end: str | None) -> Plan | None:
        """Plans a batch; None if there is nothing to read. Arguments and errors are those of `next_batch`."""
        for _ in range(_TRIES):
            try:
                return Planner(self.section, self.address, self._ask()).plan(before, end)
            except SchemaChangedError as error:
                reason = str(error)
            except AnotherServerError:
                self.close()  # the next try asks the new one
                raise
        raise SourceError(
            f"{self.address}: the schema changes again and again, and no first copy can begin: {reason}", transient=True
        )

    def end(self, spark: SparkSession, before: str | None) -> str:
        """See `Stream`."""
        server = self._ask()
        shift = 0 if before is None else read_offset(before).at.shift
        return SourceOffset(server.identity, replace(server.end(), shift=shift)).text()

    def backlog(self, before: str | None) -> Backlog:
        """See `Stream`: about the rows that the first copy has not read, then the bytes of the log."""
        known = None if before is None else read_offset(before)
        return self._behind(self._ask(), known)

    def _behind(self, server: Server, known: SourceOffset | None, end: LogPosition | None = None) -> Backlog:
        return backlog_of(server, self.section.tables, known, end, copies=self.section.copies_first)

    def unreachable(self) -> str | None:
        """See `Stream`."""
        try:
            Server.open(self.address, seconds=_PROBE_SECONDS).close()
        except SourceError as error:
            return str(error)
        except ChangefeedError:  # the run reports it
            return None
        return None

    def missing(self) -> Missing | None:
        """Returns all settings of the server and rights of the user that are missing, with the statements that put them right."""
        try:
            server = self._ask()
            copies = self.section.copies_first
            rights = server.missing_rights(copies=copies, locks=self._has_keyless)
            wrong = [*server.requirements(), *rights, *unreadable(server, TableFilter(self.section.tables))]
        except AccessError as error:
            return Missing(str(error), "the message has the way out")
        except SourceError:
            return None  # reading reports it
        if not wrong:
            return None
        states = "; ".join(f"{one.name} is {one.value}" for one in wrong)
        return Missing(f"{self.address}: {states}", "; ".join(one.fix for one in wrong))

    def _has_keyless(self) -> bool:
        server = self._ask()
        return not all_keys(server).keys() >= set(list_tables(server, TableFilter(self.section.tables)))

    def partitions(self, source_offset: str) -> set[tuple[str, int]]:
        """Returns the only partition."""
        return {(TOPIC, PARTITION)}

    def chunks(self, records: DataFrame | Mapped | Slices, dated: Dated, fragments: DataFrame | None) -> Mapped:
        """See `Source`: the tasks read chunks already."""
        assert isinstance(records, Mapped)
        return records

    def sample_chunks(self, limit: int) -> Iterator[pa.RecordBatch]:
        """Yields the definitions of the tables, and the first rows, as if these were all."""
        try:
            plan = Planner(self.section, self.address, self._ask()).begin(exact=False)
        except SchemaChangedError as error:
            raise SourceError(f"{self.address}: {error} at this moment", transient=True) from error
        for part in plan.parts:
            for chunks in read(plan.reading, part) if limit > 0 else ():
                counted = chunks.select(["kind", "rows"]).to_pylist()
                limit -= sum(chunk["rows"] for chunk in counted if chunk["kind"] == "read")
                yield chunks
                if limit <= 0:
                    break
        low = plan.reading.low
        mark = replace(self._ask().end(), shift=low.shift)  # behind the rows of tables without a key, too
        yield from read(plan.reading, LogSlice(low, low, events=(), mark=mark))

    def check_copy(self, request: CopyRequest) -> None:
        """See `CopyingSource`."""
        if not self.section.follows_log:
            raise ConfigError(
                f"with `snapshot.mode: {self.section.snapshot_mode}` this pipeline does not follow the log, and tables cannot be "
                "copied again: set it to `initial`, or start a new pipeline"
            )
        server = self._ask()
        check(server, Captured(tuple(self.section.tables), {}), request)

    @property
    def copies_unknown(self) -> bool:
        """See `CopyingSource`."""
        return self.section.copies_lost_log

    def with_copies(self, source_offset: str, requests: Sequence[CopyRequest]) -> str:
        """See `CopyingSource`."""
        before = read_offset(source_offset)
        return replace(before, requests=(*before.requests, *requests)).text()

    def with_signals(self, source_offset: str) -> str:
        """See `CopyingSource`: those of the signal topic."""
        topic = self._signal_topic()
        if topic is None:
            return source_offset
        before = read_offset(source_offset)
        signals, offsets = topic.after(before.signals)
        if offsets == before.signals:
            return source_offset
        requests = copies_of(signals, lambda: list_tables(self._ask(), TableFilter(self.section.tables)))
        return replace(before, signals=offsets, requests=(*before.requests, *requests)).text()

    def copies_at_start(self, source_offset: str) -> tuple[CopyRequest, ...]:
        """See `CopyingSource`."""
        known = read_offset(source_offset)
        if known.is_copying or known.requests:
            return ()
        names = list[Name]()
        if self.section.snapshot_mode == "always":
            names = list_tables(self._ask(), TableFilter(self.section.tables))
        elif self.section.recovers:
            names = Planner(self.section, self.address, self._ask()).changed_outside(known)
        return (CopyRequest(tuple(names)),) if names else ()

    def copies(self, source_offset: str) -> tuple[CopyRequest, ...]:
        """See `CopyingSource`."""
        return read_offset(source_offset).requests

    def close(self) -> None:
        """See `Stream`."""
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._signals is not None:
            self._signals.close()
            self._signals = None

    def _signal_topic(self) -> SignalTopic | None:
        if self._signals is None and self.section.signal_topic is not None:
            self._signals = SignalTopic(self.section)
        return self._signals

    def _ask(self) -> Server:
        if self._server is None or not self._server.connection.open:
            self._server = Server.open(self.address)
        return self._server


def open_changes(section: MySqlSource) -> MySqlTables:
    """Opens the source of a `type: mysql` section."""
    return MySqlTables(section, _address(section))


def open_stream(section: MySqlSource, tables: Mapping[str, Table]) -> MySqlStream:
    """Opens the stream of a `type: mysql` section; see `sources.EventStream`."""
    from changefeed.sources.mysql.stream import MySqlStream

    return MySqlStream(section, _address(section), tables)


def _address(section: MySqlSource) -> Address:
    return Address(
        section.host, section.port, section.user, section.read_password(),
        section.ssl_mode, section.ssl_ca, section.ssl_cert, section.ssl_key,
    )  # fmt: skip


__all__ = ["MySqlTables", "Plan", "open_changes"]
