"""Tables of a MySQL or MariaDB server as a source: a first copy, then its binary log. No topic and no connector is needed.

    first_copy.py   chunks of tables  ─┐
    batches.py      slices of the log ─┴─▶ reader.py, in tasks: dump.py ─▶ changes.py, columns.py ─▶ chunks
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

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from changefeed.errors import AccessError, ChangefeedError, ConfigError, SourceError
from changefeed.frames.mapped import Mapped
from changefeed.mysql.binlog import Parser
from changefeed.mysql.binlog.events import Query
from changefeed.protocols.base import Capabilities
from changefeed.sources import Backlog, Compared, Missing, NextBatch
from changefeed.sources.mysql import first_copy
from changefeed.sources.mysql.backlog import backlog_of
from changefeed.sources.mysql.batches import LogSlice, divide
from changefeed.sources.mysql.changes import PARTITION, TOPIC
from changefeed.sources.mysql.connection import Address
from changefeed.sources.mysql.dump import LogEvent, dump, of_same_log
from changefeed.sources.mysql.failover import moved, position_after, shifted
from changefeed.sources.mysql.first_copy import CopyChunk, Definitions, SchemaChangedError
from changefeed.sources.mysql.reader import Part, Reading, read, read_parts
from changefeed.sources.mysql.section import MySqlSource
from changefeed.sources.mysql.server import AnotherServerError, Server
from changefeed.sources.mysql.source_offset import CopyProgress, LogPosition, SourceOffset
from changefeed.sources.mysql.source_offset import read as read_offset
from changefeed.sources.mysql.statements import meaning
from changefeed.sources.mysql.tables import Captured, Name, mariadb_types

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
    binlog_places=True,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Plan:
    """A batch: what its tasks read, and where the next one begins.

    Attributes:
        parts: each is read by one task.
        after: the source offset after them.
        caught_up: see `NextBatch`.
    """

    reading: Reading
    parts: tuple[Part, ...]
    after: SourceOffset
    caught_up: bool = False


@dataclass(slots=True)
class MySqlTables:
    """The source `mysql`; see the head of this file and `sources.Source`."""

    section: MySqlSource
    address: Address
    _server: Server | None = field(default=None, repr=False)

    capabilities = CAPABILITIES
    title = "MySQL binary log"
    redefinition = None  # the log has the types that the tables have
    offset_names_partitions = True

    def compared(self, spark: SparkSession | None, source_offset: str) -> Compared:
        """See `Stream`."""
        known = read_offset(source_offset)
        server = self._ask()
        if known.server == server.identity:
            server.check_has(known.at)
        elif known.copy is None and known.complete is None:
            moved(server, known)
        return Compared(source_offset)

    def next_batch(
        self, spark: SparkSession, before: str | None, end: str | None, *, short_first: bool = False
    ) -> NextBatch | None:
        """See `Stream`; the first copy is read whatever `end` is, and the log at least to where it is complete.

        Raises:
            ConfigError: a setting of the server is not as the source needs it, or a table has no key.
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
                return self._planned(self._ask(), before, end)
            except SchemaChangedError as error:
                reason = str(error)
            except AnotherServerError:
                self.close()  # the next try asks the new one
                raise
        raise SourceError(
            f"{self.address}: the schema changes again and again, and no first copy can begin: {reason}", transient=True
        )

    def _planned(self, server: Server, before: str | None, end: str | None) -> Plan | None:
        limit = None if end is None else read_offset(end)
        last = limit.at if limit is not None and limit.server == server.identity else None
        if before is None:
            start = self._start(server)
            return self._begin(server, ()) if start is None else self._log(server, start, last)
        known = read_offset(before)
        if known.server != server.identity:
            self._check_settings(server)
            if known.copy is not None or known.complete is not None:  # its positions are of the other server
                return self._begin(server, known.copy.tables if known.copy is not None else (), after=known.at)
            known = moved(server, known)
        try:
            if known.copy is not None and known.copy.table < len(known.copy.tables):
                return self._copy(server, known, known.copy)
            if known.copy is not None and known.complete is None:
                known = replace(known, complete=replace(server.end(), shift=known.at.shift))
            return self._log(server, known, last)
        except SchemaChangedError:
            return self._begin(server, known.copy.tables if known.copy is not None else (), after=known.at)

    def _start(self, server: Server) -> SourceOffset | None:
        """Returns the position in the log that the definition names; None if it names none.

        Raises:
            SourceError: the log does not have it.
        """
        start = self.section.start
        if start is None:
            return None
        self._check_settings(server)
        if isinstance(start, str):
            return SourceOffset(server.identity, position_after(server, start), gtids=start)
        server.check_has(start)
        return SourceOffset(server.identity, start, gtids=server.gtids_at(start))

    def _check_settings(self, server: Server) -> None:
        if wrong := server.requirements():
            raise ConfigError(f"{self.address} is not set up for capture: {'; '.join(map(str, wrong))}")

    def _begin(
        self, server: Server, earlier: tuple[Name, ...], *, after: LogPosition | None = None, exact: bool = True
    ) -> Plan:
        """The first batch: definitions, and the first chunks.

        Args:
            server: the server.
            earlier: tables of a copy that began before.
            after: where that was; positions of the new copy count as higher.
            exact: see `first_copy.begin`.

        Raises:
            SchemaChangedError: the schema changes at this moment.
        """
        self._check_settings(server)
        section, captured = self.section, self._captured(server)
        copies = section.snapshot_mode != "no_data"
        low, gtids, defined = first_copy.begin(server, captured, copies=copies, earlier=earlier, exact=exact)
        low = low if after is None else shifted(low, after)
        progress = first_copy.begun(defined, copies=copies)
        chunks, progress = first_copy.next_chunks(server, progress, section.chunk_rows, section.max_records_per_batch)
        offset = SourceOffset(server.identity, low, copy=progress, gtids=gtids)
        return Plan(self._reading(server, low), (defined, *chunks), offset)

    def _copy(self, server: Server, known: SourceOffset, progress: CopyProgress) -> Plan:
        """A batch of chunks."""
        section = self.section
        chunks, progress = first_copy.next_chunks(server, progress, section.chunk_rows, section.max_records_per_batch)
        return Plan(self._reading(server, known.at), tuple(chunks), replace(known, copy=progress))

    def _log(self, server: Server, known: SourceOffset, end: LogPosition | None) -> Plan | None:
        """A batch of the log.

        Raises:
            SchemaChangedError: a captured table changes before the first copy is complete.
        """
        section, complete = self.section, known.complete
        if complete is not None and end is not None and end.number < complete.number:
            end = complete
        if section.snapshot_mode == "initial_only":
            if complete is None:
                return None
            end = complete
        if (end or replace(server.end(), shift=known.at.shift)).number <= known.at.number and complete is None:
            return None
        reading = self._reading(server, known.at)
        look = _Look(reading.captured, complete)
        sent = dump(self.address, known.at, section.server_id, server.identity)
        batch = divide(
            of_same_log(sent, known, self.address), known.at, known.maps, section.max_bytes_per_batch,
            end=end, complete=complete, look=look, gtids=known.gtids,
        )  # fmt: skip
        parts = list[Part](batch.slices)
        is_complete = complete is None or batch.end.number >= complete.number
        if not parts and complete is not None and is_complete:
            parts = [LogSlice(known.at, batch.end, known.maps, events=())]  # nothing was written during the copy
        if not parts:
            return None
        after = SourceOffset(
            known.server,
            batch.end,
            batch.begun,
            batch.maps,
            None if is_complete else known.copy,
            None if is_complete else complete,
            batch.gtids,
        )
        return Plan(reading, tuple(parts), after, batch.caught_up)

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
        return backlog_of(server, self._captured(server), known, end, copies=self.section.snapshot_mode != "no_data")

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
            copies = self.section.snapshot_mode != "no_data"
            wrong = [*server.requirements(), *server.missing_rights(copies=copies)]
        except AccessError as error:
            return Missing(str(error), "the message has the way out")
        except SourceError:
            return None  # reading reports it
        if not wrong:
            return None
        states = "; ".join(f"{one.name} is {one.value}" for one in wrong)
        return Missing(f"{self.address}: {states}", "; ".join(one.fix for one in wrong))

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
            plan = self._begin(self._ask(), (), exact=False)
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
        yield from read(plan.reading, LogSlice(low, low, events=()))

    def close(self) -> None:
        """See `Stream`."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def _ask(self) -> Server:
        if self._server is None or not self._server.connection.open:
            self._server = Server.open(self.address)
        return self._server

    def _captured(self, server: Server) -> Captured:
        return Captured(tuple(self.section.tables), mariadb_types(server))

    def _reading(self, server: Server, low: LogPosition) -> Reading:
        return Reading(self.address, server.identity, self._captured(server), server.kind, low, self.section.server_id)


class _Look:
    """Looks at the statements of the log while the first copy is not complete."""

    def __init__(self, captured: Captured, complete: LogPosition | None) -> None:
        self._selector, self._complete = captured.selector(), complete

    def __call__(self, event: LogEvent) -> None:
        """Raises SchemaChangedError for a schema change of a captured table."""
        if self._complete is None or event.at.number >= self._complete.number:
            return
        for query in Parser(checksum=event.has_checksum).feed(event.data):
            if isinstance(query, Query) and meaning(query.text, query.database or None, self._selector) == "change":
                raise SchemaChangedError(query.text)


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


__all__ = ["CopyChunk", "Definitions", "MySqlTables", "open_changes"]
