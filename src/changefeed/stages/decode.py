"""decode: records -> chunks.

The decoder is built where it runs, from the protocol's name and options, once a task. A row that carries its key alone
because the producer found it too large cannot be applied and must not be lost: it leaves here as a dead letter.

The trip into Python costs by the column: one of NULLs takes a tenth as long as the whole record. No decoder asks for
a record's timestamp, so that stays behind. NULLs in a column of lists take Spark's Arrow writer time that grows with the
square of the batch: three times as long as all the rest. So headers travel as lists, without NULL, where the protocol
says something in them; else only dead letters want them, and the few that there are travel as text behind the topic.
Records of a log do not make that trip: they are read where they are decoded (`frames.slices`).

Where an event may lie in several records, or a row's place in the order follows from those around it (`undated`), a task
has whole partitions, in order. Kafka's tasks have them so. Of a log a few tasks read everything, each for partitions of
its own: to read a record costs a tenth of what the trip does, and what Parquet tells to be of others is not read. What the
batch before left waiting comes first, and what waits at the end leaves as chunks for the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from changefeed.codec.decoding import decoder
from changefeed.frames import slices
from changefeed.frames.chunks import CHUNKS_DDL, RECORDS_DDL, pack, pack_waiting, unpack_records
from changefeed.frames.slices import Work
from changefeed.model.batch import RECORDS, Decoded, TableBatch, record_batch
from changefeed.model.event import Control, DeadLetter, Heartbeat, Resolved, SchemaChange
from changefeed.model.position import Place
from changefeed.protocols import origin
from changefeed.protocols import protocol as spoken
from changefeed.protocols.base import FragmentDecoder, unfinished
from changefeed.stages.undated import Dates
from changefeed.stores import stores_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NOTHING: Mapping[str, Mapping[int, int]] = {}  # shipped, so no proxy of one
_COLUMNS = ("key", "value", "topic", "partition", "offset")
_WAITING_DDL = (
    "key binary, value binary, topic string, partition int, offset bigint, "
    "headers array<struct<key: string, value: binary>>"
)
_ROWS_A_TABLE = 512  # that are worth the work of a table
_MOST_BYTES = 32 * 2**20  # of records that are put together
_READERS = 4  # of one log, at most
_AGAIN = "again"  # the record came with the batch before
_BEHIND = "\x00"  # no topic has it


def decode(
    records: DataFrame,
    protocol: str,
    options: Mapping[str, Any],
    latest: Mapping[str, Mapping[int, int]] = _NOTHING,
    waiting: DataFrame | None = None,
    *,
    whole: bool = False,
) -> DataFrame:
    """The chunks that the records mean.

    Args:
        records: with the columns of Spark's Kafka source with headers, or slices of logs.
        protocol, options: what they are in.
        latest: the highest commit_ts of each partition before these records.
        waiting: the `waiting` chunks that the batch before has left, if any.
        whole: each task of `records` has whole partitions, in order.
    """
    options, can = dict(options), spoken(protocol).capabilities
    in_order = can.fragments or can.undated
    of_logs = slices.are_slices(records)
    if of_logs and not in_order:
        return records.mapInArrow(worker(protocol, options, latest, slices.read), CHUNKS_DDL)
    if of_logs and waiting is None:
        return _by_partition(records, partial(worker, protocol, options, latest))
    if of_logs:
        records = records.mapInArrow(slices.read, RECORDS_DDL)
    travelling = _travelling(records, lists=can.headers or in_order)
    if in_order and not (whole and waiting is None):
        travelling = _in_order(travelling, waiting)
    return travelling.mapInArrow(worker(protocol, options, latest), CHUNKS_DDL)


def _by_partition(found: DataFrame, work: Callable[[Work], Work]) -> DataFrame:
    """The chunks from a few tasks that read all of the slices, each for partitions of its own."""
    spark = found.sparkSession
    tasks = min(spark.sparkContext.defaultParallelism, _READERS)
    everything = [slices.Slice(**row.asDict()) for row in found.collect()]
    return spark.range(0, tasks, 1, tasks).mapInArrow(work(slices.read_share(everything, tasks)), CHUNKS_DDL)


def _in_order(records: DataFrame, waiting: DataFrame | None) -> DataFrame:
    from pyspark.sql import functions as f

    found = records
    if waiting is not None:
        found = records.withColumn(_AGAIN, f.lit(False))
        again = waiting.select("payload").mapInArrow(_unpacked, _WAITING_DDL)
        found = found.unionByName(again.withColumn(_AGAIN, f.lit(True)))
    return found.repartition("topic", "partition").sortWithinPartitions("topic", "partition", "offset")


def _unpacked(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for payload in batch.column(0):
            yield unpack_records(payload.as_py()).select([*_COLUMNS, "headers"])


def _travelling(records: DataFrame, *, lists: bool) -> DataFrame:
    from pyspark.sql import functions as f

    if lists:
        return records.select(*_COLUMNS, f.expr("coalesce(headers, array())").alias("headers"))
    topic = f.expr(f"if(size(headers) > 0, concat(topic, '{_BEHIND}', to_json(headers)), topic)")
    return records.select(*(topic.alias(name) if name == "topic" else name for name in _COLUMNS))


def worker(
    protocol: str,
    options: Mapping[str, Any],
    latest: Mapping[str, Mapping[int, int]] = _NOTHING,
    records_of: Work = iter,
) -> Work:
    """The function that runs in Spark's Python workers; it ships names and options, nothing else.

    Args:
        protocol, options, latest: as in `decode`.
        records_of: batches that came from Spark -> records.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        read, gathered = Reader(protocol, options, latest), Gathered(records_of(batches))
        for batch in gathered:
            records = arrived(batch)
            fresh = records.filter(pc.invert(batch.column(_AGAIN))) if _AGAIN in batch.schema.names else None
            decoded = read(records)
            gathered.tables = len(decoded.tables)
            yield read.pack(decoded, records, fresh)
        yield pack_waiting(read.waiting())

    return run


class Gathered:
    """Batches of records, put together where many tables share them: each table of a batch costs as much as hundreds of rows.

    Attributes:
        tables: how many there were in the last batch; whoever decodes them sets it.
    """

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self.tables = 0
        self._batches = batches

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        parts, rows, size = list[pa.RecordBatch](), 0, 0
        for batch in self._batches:
            if parts and batch.schema != parts[0].schema:
                yield _put_together(parts)
                parts, rows, size = [], 0, 0
            parts.append(batch)
            rows += batch.num_rows
            size += batch.nbytes
            if rows >= self.tables * _ROWS_A_TABLE or size >= _MOST_BYTES:
                yield _put_together(parts)
                parts, rows, size = [], 0, 0
        if parts:
            yield _put_together(parts)


def _put_together(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    return parts[0] if len(parts) == 1 else pa.concat_batches(parts)


def arrived(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Records as they were before they travelled, but for their timestamps."""
    columns = {name: batch.column(name) for name in batch.schema.names}
    if "headers" not in columns:
        columns["topic"], columns["headers"] = _parted(columns["topic"])
    arrays = [columns[f.name].cast(f.type) if f.name in columns else pa.nulls(len(batch), f.type) for f in RECORDS]
    return pa.RecordBatch.from_arrays(arrays, schema=RECORDS)


def _parted(topics: pa.StringArray) -> tuple[pa.Array, pa.Array]:
    """Topics, and the headers that travelled behind them."""
    kind = RECORDS.field("headers").type
    if not _mentions(topics, _BEHIND):
        nothing = pa.repeat(pa.scalar(0, pa.int32()), len(topics) + 1)
        return topics, pa.ListArray.from_arrays(nothing, pa.array([], kind.value_type))
    parts = [topic.partition(_BEHIND) for topic in topics.to_pylist()]
    lists = [msgspec.json.decode(text, type=list[_Header]) if text else [] for _, _, text in parts]
    headers = [[{"key": h.key, "value": h.value} for h in headers] for headers in lists]
    return pa.array([topic for topic, _, _ in parts], topics.type), pa.array(headers, kind)


def _mentions(texts: pa.StringArray, part: str) -> bool:
    """Whether any of the texts may have this part: one search through all their bytes, no look at each."""
    data = texts.buffers()[2]
    return data is not None and part.encode() in data.to_pybytes()


class _Header(msgspec.Struct):
    """A header as Spark's `to_json` writes it: bytes in base64, NULL left out."""

    key: str
    value: bytes | None = None


class Reader:
    """Decodes records where it is called, claim checks and schema registry included; `protocol` says in what language."""

    def __init__(
        self, protocol: str, options: Mapping[str, Any], latest: Mapping[str, Mapping[int, int]] = _NOTHING
    ) -> None:
        chosen, can = spoken(protocol).read_options(options), spoken(protocol).capabilities
        self._protocol = protocol
        self._transactions, self._key_only = can.cuts == "transactions", can.key_only
        self._dates = Dates(latest) if can.undated else None
        self._decoder = decoder(protocol, chosen, stores_of(chosen))

    def __call__(self, records: pa.RecordBatch) -> Decoded:
        """What the records mean, all of it with its place in one order: see `ordered`."""
        decoded = ordered(self._decoder.decode(records), places=self._transactions)
        if self._dates is not None:
            decoded = self._dates.date(decoded)
        return _without_key_only(decoded, records, self._protocol) if self._key_only else decoded

    def pack(self, decoded: Decoded, records: pa.RecordBatch, fresh: pa.RecordBatch | None = None) -> pa.RecordBatch:
        """The chunks that say what `records` meant, with all that this protocol's cuts rest on; see `frames.chunks`."""
        return pack(decoded, records, fresh, transactions=self._transactions)

    def waiting(self) -> pa.RecordBatch:
        """The records whose remainder has not come yet."""
        return self._decoder.waiting() if isinstance(self._decoder, FragmentDecoder) else record_batch([])

    def unfinished(self) -> list[DeadLetter]:
        """The letters that they are when nothing more comes."""
        return unfinished(self._decoder, self._protocol)


def ordered(decoded: Decoded, *, places: bool = False) -> Decoded:
    """The same with `sequence` as the commit_ts where there is none; what follows knows one order only.

    A heartbeat with a sequence promises what a resolved mark does, and becomes one.

    Args:
        places: sequences are places in a binlog. A snapshot's schema changes and rows all have the place up to which it
            was taken, and the rows come after the schema changes. So each schema change is put right before its place:
            no event begins in the 19 bytes there, which are the end of the event before.
    """
    before = 1 if places else 0
    return replace(
        decoded,
        tables=[TableBatch(table.shape, _ordered(table.rows)) for table in decoded.tables],
        control=[_ordered_event(event, before) for event in decoded.control],
    )


def _ordered(rows: pa.RecordBatch) -> pa.RecordBatch:
    sequence, at = rows.column("sequence"), rows.schema.get_field_index("commit_ts")
    if sequence.null_count == len(sequence):
        return rows
    return rows.set_column(at, rows.schema.field(at), pc.coalesce(rows.column(at), sequence))


def _ordered_event(event: Control, before: int) -> Control:
    match event:
        case SchemaChange(commit_ts=None, sequence=int(sequence)):
            return replace(event, commit_ts=max(sequence - before, 0))
        case Heartbeat(sequence=int(sequence)):
            return Resolved(sequence, event.place, event.commit_time, event.origin)
    return event


def _without_key_only(decoded: Decoded, records: pa.RecordBatch, protocol: str) -> Decoded:
    tables, dead = [], list(decoded.dead)
    for table in decoded.tables:
        found = origin.key_only(table.rows.column("origin"))
        if found is None:
            tables.append(table)
            continue
        key_only = pc.and_(found, pc.not_equal(table.rows.column("op"), "delete"))
        tables.append(TableBatch(table.shape, table.rows.filter(pc.invert(key_only))))
        dead.extend(_letters(TableBatch(table.shape, table.rows.filter(key_only)), records, protocol))
    return replace(decoded, tables=[t for t in tables if len(t)], dead=dead)


def _letters(table: TableBatch, records: pa.RecordBatch, protocol: str) -> Iterator[DeadLetter]:
    name = f"{table.shape.database}.{table.shape.table}"
    for row in table.rows.select(["record", "topic", "partition", "offset", "index"]).to_pylist():
        place = Place(row["topic"], row["partition"], row["offset"], row["index"], row["record"])
        yield DeadLetter(
            reason="handle-key-only",
            error=(
                f"{protocol}: the row of {name} was too large for a message and holds its key only ({place}). Raise the "
                "producer's max-message-bytes, or let it use claim-check"
            ),
            protocol=protocol,
            place=place,
            key=records.column("key")[place.record].as_py(),
            value=records.column("value")[place.record].as_py(),
            database=table.shape.database,
            table=table.shape.table,
        )
