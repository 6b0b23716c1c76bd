"""decode: records -> chunks.

The decoder is built in the worker, from the protocol's name and options, once per task. A row that contains only its key,
because it was too large for the producer, cannot be applied and must not be lost: it becomes a dead letter.

The cost of sending records from the JVM to Python grows with the number of columns: a column of NULLs takes a tenth of
the time of the whole record. No decoder uses a record's timestamp, so it is not sent. NULLs in a column of lists cost
Spark's Arrow writer time quadratic in the size of the batch: three times as long as everything else. So headers are sent
as lists without NULLs if the protocol uses them. Otherwise only dead letters contain headers, and the few that exist are
appended to the topic as text. Records of a record log, and those of Kafka where librdkafka reads the cluster, are not sent:
the task that decodes them reads them (`frames.slices`, `frames.mapped`).

If an event may span several records, or if the position of a row in the order follows from its neighbours (`missing_ts`),
each task reads whole partitions in order. Tasks that read Kafka do so already. A record log is read by a few tasks, each of which
keeps the records of its own partitions: reading a record costs a tenth of sending it, and Parquet statistics allow to skip
the partitions of other tasks. Incomplete fragments of the previous batch come first; those that are left at the end become
chunks for the next batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from changefeed.codec.decoding import decoder
from changefeed.frames.chunks import RECORDS_DDL, Dated, pack, pack_dated, pack_waiting, unpack_records
from changefeed.frames.mapped import Mapped, Work
from changefeed.frames.sent import KEYLESS
from changefeed.frames.slices import Slices
from changefeed.model.batch import RECORDS, Decoded, TableBatch, no_headers, record_batch
from changefeed.model.event import Control, DeadLetter, Heartbeat, Resolved, SchemaChange
from changefeed.model.position import Place
from changefeed.model.shared_rows import adjacent, column_of_tables, with_column
from changefeed.protocols import origin
from changefeed.protocols import protocol as protocol_named
from changefeed.protocols.base import FragmentDecoder, unfinished
from changefeed.stages import lone_tombstones
from changefeed.stages.missing_ts import TimestampEstimator
from changefeed.stores import stores_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MAX_TS = 2**63 - 2  # one more is an int64, too, see `missing_ts`
_PLACE = ["topic", "partition", "offset", "index", "record"]
_NO_DATED: Dated = {}  # pickled for the workers, so not a mapping proxy
_COLUMNS = ("key", "value", "topic", "partition", "offset")
_WAITING_DDL = (
    "key binary, value binary, topic string, partition int, offset bigint, "
    "headers array<struct<key: string, value: binary>>"
)
_ROWS_PER_TABLE = 512  # for fewer rows, the cost of a table outweighs that of its rows
_MAX_GATHERED_BYTES = 128 * 2**20  # of records in one batch
_MAX_LOG_READERS = 4  # tasks that read one record log
_RESENT = "again"  # column: the record is an incomplete fragment of the previous batch
_SEPARATOR = "\x00"  # between topic and headers; not allowed in a topic's name


def decode(
    records: DataFrame | Mapped | Slices,
    protocol: str,
    options: Mapping[str, Any],
    dated: Dated = _NO_DATED,
    waiting: DataFrame | None = None,
    *,
    whole: bool = False,
) -> Mapped:
    """Decodes the records into chunks, with the columns of `frames.chunks`.

    Args:
        records: with the columns of Spark's Kafka source with headers, or records that are read in the tasks that decode them,
            or slices of record logs.
        protocol, options: the protocol of the records, and its options.
        dated: the records before these that bound the commit_ts of rows without one, and of tombstones, from the `dated` chunks
            of earlier batches and `lone_tombstones.with_latest`.
        waiting: the `waiting` chunks (incomplete fragments) of the previous batch, if any.
        whole: each task of `records` contains whole partitions, in order.
    """
    options, capabilities = dict(options), protocol_named(protocol).capabilities
    in_order = capabilities.fragments or capabilities.missing_commit_ts
    if isinstance(records, Slices):
        whole = in_order and waiting is None
        records = records.by_partition(_MAX_LOG_READERS) if whole else records.each()
    if isinstance(records, Mapped):
        if waiting is None and (whole or not in_order):
            return records.then(worker(protocol, options, dated))
        records = records.frame(RECORDS_DDL)
    sent = _sent(records, lists=capabilities.headers or in_order)
    if in_order and not (whole and waiting is None):
        sent = _in_order(sent, waiting)
    return Mapped(sent, worker(protocol, options, dated))


def _in_order(records: DataFrame, waiting: DataFrame | None) -> DataFrame:
    from pyspark.sql import functions as f

    if waiting is not None:
        resent = waiting.select("payload").mapInArrow(_unpacked, _WAITING_DDL)
        records = records.withColumn(_RESENT, f.lit(False)).unionByName(resent.withColumn(_RESENT, f.lit(True)))
    return records.repartition("topic", "partition").sortWithinPartitions("topic", "partition", "offset")


def _unpacked(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for payload in batch.column(0):
            yield unpack_records(payload.as_py()).select([*_COLUMNS, "headers"])


def _sent(records: DataFrame, *, lists: bool) -> DataFrame:
    from pyspark.sql import functions as f

    if lists:
        return records.select(*_COLUMNS, f.expr("coalesce(headers, array())").alias("headers"))
    topic = f.expr(f"if(size(headers) > 0, concat(topic, '{_SEPARATOR}', to_json(headers)), topic)")
    return records.select(*(topic.alias(name) if name == "topic" else name for name in _COLUMNS))


def worker(
    protocol: str,
    options: Mapping[str, Any],
    dated: Dated = _NO_DATED,
) -> Work:
    """Returns the function that runs in Spark's Python workers; only names and options are pickled with it.

    Args:
        protocol, options, dated: as in `decode`.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        read, gathered = RecordReader(protocol, options, dated), Gathered(batches)

        def chunks(batch: pa.RecordBatch) -> pa.RecordBatch:
            records = arrived(batch)
            fresh = records.filter(pc.invert(batch.column(_RESENT))) if _RESENT in batch.schema.names else None
            decoded = read(records)
            gathered.tables = len(decoded.tables)
            return read.pack(decoded, records, fresh)

        yield from map(chunks, gathered)  # which keeps no batch while the next is read
        yield pack_waiting(read.waiting())
        yield pack_dated(read.dated())

    return run


class Gathered:
    """Concatenates batches of records if they contain many tables: each table of a batch costs as much as hundreds of rows.

    Attributes:
        tables: number of tables in the last batch; the caller sets it after decoding.
    """

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self.tables = 0
        self._batches = batches

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        parts, rows, size = list[pa.RecordBatch](), 0, 0
        for batch in self._batches:
            if parts and batch.schema != parts[0].schema:
                yield _taken(parts)
                rows, size = 0, 0
            rows += batch.num_rows
            size += batch.nbytes
            parts.append(batch)
            del batch
            if rows >= self.tables * _ROWS_PER_TABLE or size >= _MAX_GATHERED_BYTES:
                yield _taken(parts)
                rows, size = 0, 0
        if parts:
            yield _taken(parts)


def _taken(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Joins the batches, and leaves none: they are not in memory while their records are decoded."""
    joined = parts[0] if len(parts) == 1 else pa.concat_batches(parts)
    parts.clear()
    return joined


def arrived(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Restores the records from the columns that Spark sent; their timestamps are NULL."""
    columns = {name: batch.column(name) for name in batch.schema.names}
    if "headers" not in columns:
        columns["topic"], columns["headers"] = _split_headers(columns["topic"])
    arrays = [columns[f.name].cast(f.type) if f.name in columns else pa.nulls(len(batch), f.type) for f in RECORDS]
    return pa.RecordBatch.from_arrays(arrays, schema=RECORDS)


def _split_headers(topics: pa.StringArray) -> tuple[pa.Array, pa.Array]:
    """Splits topics from the headers that are appended to them."""
    if not _any_contains(topics, _SEPARATOR):
        return topics, no_headers(len(topics))
    parts = [topic.partition(_SEPARATOR) for topic in topics.to_pylist()]
    lists = [msgspec.json.decode(text, type=list[_Header]) if text else [] for _, _, text in parts]
    headers = [[{"key": h.key, "value": h.value} for h in headers] for headers in lists]
    return pa.array([topic for topic, _, _ in parts], topics.type), pa.array(headers, RECORDS.field("headers").type)


def _any_contains(texts: pa.StringArray, part: str) -> bool:
    """Whether any of the texts may contain `part`: one search through their shared buffer, not one per text."""
    data = texts.buffers()[2]
    return data is not None and part.encode() in data.to_pybytes()


class _Header(msgspec.Struct):
    """A header as Spark's `to_json` writes it: bytes in base64, NULL omitted."""

    key: str
    value: bytes | None = None


class RecordReader:
    """Decodes records of `protocol` in the calling process; fetches claim checks and schemas as needed."""

    def __init__(self, protocol: str, options: Mapping[str, Any], dated: Dated = _NO_DATED) -> None:
        chosen = protocol_named(protocol).read_options(options)
        capabilities = protocol_named(protocol).capabilities
        self._protocol = protocol
        self._transactions, self._key_only = capabilities.cuts == "transactions", capabilities.key_only
        self._keyed = any(KEYLESS in named for of in dated.values() for named in of.values())
        known = lone_tombstones.of_tables(dated)
        self._estimator = TimestampEstimator(known) if capabilities.missing_commit_ts else None
        self._tombstones = lone_tombstones.LoneTombstones(dated) if self._transactions else None
        self._decoder = decoder(protocol, chosen, stores_of(chosen))

    def __call__(self, records: pa.RecordBatch) -> Decoded:
        """Decodes the records; every event has a commit_ts or a sequence in its place: see `ordered`."""
        return self.complete(self._decoder.decode(records), records)

    def complete(self, decoded: Decoded, records: pa.RecordBatch) -> Decoded:
        """Sets the commit_ts of decoded events, and makes dead letters of those that cannot be applied."""
        decoded = _in_range(ordered(decoded, places=self._transactions), records, self._protocol)
        if self._tombstones is not None:
            decoded = self._tombstones.placed(decoded, records)
        if self._estimator is not None:
            decoded = self._estimator.fill(decoded)
        return _without_key_only(decoded, records, self._protocol) if self._key_only else decoded

    def pack(self, decoded: Decoded, records: pa.RecordBatch, fresh: pa.RecordBatch | None = None) -> pa.RecordBatch:
        """Packs the decoded records into chunks, with the marks that this protocol's cuts require; see `frames.chunks`."""
        return pack(decoded, records, fresh, transactions=self._transactions, keyed=self._keyed)

    def waiting(self) -> pa.RecordBatch:
        """The incomplete fragments: records of events whose remainder has not been read."""
        return self._decoder.waiting() if isinstance(self._decoder, FragmentDecoder) else record_batch([])

    def dated(self) -> Dated:
        """The records that bound the commit_ts of later rows without one, and those by which later tombstones are placed."""
        if self._tombstones is not None:
            return self._tombstones.dated()
        return self._estimator.dated() if self._estimator is not None else {}

    def unfinished(self) -> list[DeadLetter]:
        """The dead letters for incomplete fragments, if no more records follow."""
        return unfinished(self._decoder, self._protocol)


def ordered(decoded: Decoded, *, places: bool = False) -> Decoded:
    """Sets commit_ts to `sequence` where it is missing, because the following stages support one order only.

    A heartbeat with a sequence makes the same promise as a resolved event, and becomes one.

    Args:
        places: sequences are positions in a binlog. All schema changes and rows of a snapshot have the binlog position at
            which it was taken, and the rows come after the schema changes. So each schema change is moved one before
            that position: no other event starts there, because an event has at least 19 bytes.
    """
    before = 1 if places else 0
    return replace(
        decoded,
        tables=_ordered_tables(adjacent(decoded.tables)),
        control=[_ordered_event(event, before) for event in decoded.control],
    )


def _ordered_tables(tables: list[TableBatch]) -> list[TableBatch]:
    """Computed for all tables together: a batch may contain a thousand tables with a few rows each."""
    if not tables:
        return tables
    sequence = column_of_tables(tables, "sequence")
    if sequence.null_count == len(sequence):
        return tables
    return with_column(tables, "commit_ts", pc.coalesce(column_of_tables(tables, "commit_ts"), sequence))


def _ordered_event(event: Control, before: int) -> Control:
    match event:
        case SchemaChange(commit_ts=None, sequence=int(sequence)):
            return replace(event, commit_ts=max(sequence - before, 0))
        case Heartbeat(sequence=int(sequence)):
            return Resolved(sequence, event.place, event.instant, event.origin)
    return event


def _in_range(decoded: Decoded, records: pa.RecordBatch, protocol: str) -> Decoded:
    """The decoded records, with dead letters for rows and events above the highest commit_ts."""

    def error(place: Place, ts: int) -> str:
        return f"{protocol}: commit_ts {ts} is above {_MAX_TS}, the highest that a table can reach ({place})"

    tables, dead, control = list[TableBatch](), list(decoded.dead), list[Control]()
    any_above = _highest(decoded.tables) > _MAX_TS
    for table in decoded.tables:
        if not any_above or _highest([table]) <= _MAX_TS:
            tables.append(table)
            continue
        ts = table.rows.column("commit_ts")
        above = pc.fill_null(pc.greater(ts, pa.scalar(_MAX_TS, ts.type)), False)
        tables.append(TableBatch(table.shape, table.rows.filter(pc.invert(above))))
        for row in table.rows.filter(above).select([*_PLACE, "commit_ts"]).to_pylist():
            place = Place(*(row[name] for name in _PLACE))
            text, of = error(place, row["commit_ts"]), (table.shape.database, table.shape.table)
            dead.append(_dead_letter(text, protocol, place, records, *of, reason="protocol"))
    for event in decoded.control:
        if not isinstance(event, SchemaChange | Resolved) or (event.commit_ts or 0) <= _MAX_TS:
            control.append(event)
            continue
        names = (event.database, event.table) if isinstance(event, SchemaChange) else (None, None)
        text = error(event.place, event.commit_ts or 0)
        dead.append(_dead_letter(text, protocol, event.place, records, *names, reason="protocol"))
    return replace(decoded, tables=[t for t in tables if len(t)], control=control, dead=dead)


def _highest(tables: list[TableBatch]) -> int:
    """The highest commit_ts of all tables; 0 without any."""
    return (pc.max(column_of_tables(tables, "commit_ts")).as_py() or 0) if tables else 0


def _without_key_only(decoded: Decoded, records: pa.RecordBatch, protocol: str) -> Decoded:
    tables, dead = [], list(decoded.dead)
    for table in decoded.tables:
        flagged = origin.key_only(table.rows.column("origin"))
        if flagged is None:
            tables.append(table)
            continue
        key_only = pc.and_(flagged, pc.not_equal(table.rows.column("op"), "delete"))
        tables.append(TableBatch(table.shape, table.rows.filter(pc.invert(key_only))))
        dead.extend(_dead_letters(TableBatch(table.shape, table.rows.filter(key_only)), records, protocol))
    return replace(decoded, tables=[t for t in tables if len(t)], dead=dead)


def _dead_letters(table: TableBatch, records: pa.RecordBatch, protocol: str) -> Iterator[DeadLetter]:
    name = f"{table.shape.database}.{table.shape.table}"
    for row in table.rows.select(_PLACE).to_pylist():
        place = Place(*(row[column] for column in _PLACE))
        error = (
            f"{protocol}: the row of {name} was too large for a message and holds its key only ({place}). Raise the "
            "producer's max-message-bytes, or let it use claim-check"
        )
        names = (table.shape.database, table.shape.table)
        yield _dead_letter(error, protocol, place, records, *names, reason="handle-key-only")


def _dead_letter(
    error: str,
    protocol: str,
    place: Place,
    records: pa.RecordBatch,
    database: str | None,
    table: str | None,
    *,
    reason: str,
) -> DeadLetter:
    key, value = (records.column(column)[place.record].as_py() for column in ("key", "value"))
    return DeadLetter(
        reason=reason, error=error, protocol=protocol, place=place, key=key, value=value, database=database, table=table
    )
