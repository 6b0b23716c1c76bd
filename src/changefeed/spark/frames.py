"""`decode` and `encode`: conversion between a DataFrame of records, as of Spark's Kafka source and sink, and changes.

The meaning of a record may depend on earlier records of its partition. Most protocols only need each partition's records in
the order of their offsets within a task, as Spark's Kafka source returns them:

    capability of the protocol     batch                              stream
    none of the two below          tasks as they are                  tasks as they are
    fragments, missing_commit_ts   each partition whole, in order     the same, and between batches the state of each partition
                                                                      in Spark's state store: records that wait for their
                                                                      remainder, and the last records with a commit_ts

Schema changes are read from the records once (`known.py`): for a batch from the batch itself, for a stream from `sample`. A
later schema change that gives values another meaning ends the query. Start it again with a sample that contains the schema
change: it continues from its checkpoint.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.errors import ConfigError
from changefeed.frames.partitions import by_partition
from changefeed.protocols import protocol as protocol_by_name
from changefeed.spark.known import Known, Look, split_name
from changefeed.spark.options import ReadOptions, decode_options, split
from changefeed.spark.reading import ReadPlan, Rows, one_table
from changefeed.spark.shapes import AllTables
from changefeed.spark.types import spark_schema
from changefeed.spark.writing import WritePlan, writing
from changefeed.spark_runtime.python import use_this_python
from changefeed.stages.decode import arrived
from changefeed.stages.transcode import Language

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    Work = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_NEEDED = ("key", "value", "topic", "partition", "offset")
_HEADERS = "array<struct<key:string,value:binary>>"
_WRITTEN = f"key binary, value binary, topic string, partition int, headers {_HEADERS}"
_PACKED = "topic string, partition int, first bigint, records binary"


def decode(
    records: DataFrame,
    protocol: str,
    table: str | None = None,
    *,
    schema: StructType | str | None = None,
    sample: DataFrame | None = None,
    **options: Any,
) -> DataFrame:
    """Decodes a DataFrame of records to a DataFrame of changes; a batch or a stream.

    Args:
        records: records with the columns of Spark's Kafka source: key, value, topic, partition, offset; optionally headers.
        protocol: the protocol of the records.
        table: `database.table`: the result has its changes in its own columns. None: all tables, with images as VARIANT.
        schema: the columns of the table, instead of those that the records show.
        sample: a batch of records that shows the table's columns and definitions; for a stream, which cannot be read
            before it runs.
        options: options of a read (`before`, `dead_letters`, `irregular`, `schema_records`) and of the protocol; write `_`
            for `-` and `.` in their names.

    Raises:
        ConfigError: an option is unknown, a column is missing, or the records do not show the table; or the workers run a
            Python without changefeed.
    """
    _own_python(records)
    settings = {"protocol": protocol, "table": table, **options}
    chosen, own = decode_options({name: value for name, value in settings.items() if value is not None})
    language = chosen.language(own)
    travelling = _travelling(records)
    reading = ReadPlan(language, AllTables(chosen.dead_letters == "rows"))
    if table is not None:
        known = _known(travelling, sample, chosen, language, required=schema is None)
        reading = ReadPlan(language, one_table(chosen, known, _parsed(schema)), known)
    if records.isStreaming and reading.in_order:
        return _with_state(travelling, reading)
    if reading.in_order:
        travelling = travelling.repartition("topic", "partition")
        travelling = travelling.sortWithinPartitions("topic", "partition", "offset")
    return travelling.mapInArrow(_worker(reading, ends=not records.isStreaming), spark_schema(reading.schema))


def encode(
    changes: DataFrame,
    protocol: str,
    table: str | None = None,
    *,
    default_topic: str = "changefeed",
    keys: Mapping[str, Sequence[str]] | None = None,
    **options: Any,
) -> DataFrame:
    """Encodes a DataFrame of changes to a DataFrame of records, with the columns that Spark's Kafka sink takes.

    Rows of one partition are written in the order of their positions. Rows without a position are all in one partition, in
    the order of the DataFrame.

    Args:
        changes: changes of all tables or of one table, as `decode` and the data source return them.
        protocol: the protocol to write.
        table: `database.table`, if the rows are of one table; None for changes of all tables.
        default_topic: the topic for rows without a position.
        keys: `database.table` -> its key columns, if the metadata of the columns do not mark them.
        options: options of the protocol; write `_` for `-` and `.` in their names.

    Raises:
        ConfigError: an option is unknown, or the columns are not those of changes; or the workers run a Python without
            changefeed.
    """
    from pyspark.sql import functions as f

    _own_python(changes)
    _, own = split(options, protocol, ())
    key = {name: tuple(columns) for name, columns in (keys or {}).items()}
    work = writing(Language(protocol, own), table, changes.schema, default_topic, key)
    position = "position" if table is None else "_position"
    if position in changes.columns and not changes.isStreaming:
        places = [f.col(position)[name] for name in ("topic", "partition", "offset", "index")]
        changes = changes.repartition(*places[:2]).sortWithinPartitions(*places)
    elif position not in changes.columns:
        changes = changes.coalesce(1)
    if protocol_by_name(protocol).read_options(own).one_writer:
        changes = changes.coalesce(1)
    return changes.mapInArrow(_encoder(work), _WRITTEN)


def _own_python(frame: DataFrame) -> None:
    """Makes the workers run this Python, where Spark would choose one by the PATH."""
    if (context := getattr(frame.sparkSession, "_sc", None)) is not None:  # a client of Spark Connect has none
        use_this_python(context)


def _encoder(work: WritePlan) -> Work:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for records in work.records(batches):
            yield records.select(["key", "value", "topic", "partition", "headers"])

    return run


def _travelling(records: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    missing = [name for name in _NEEDED if name not in records.columns]
    if missing:
        raise ConfigError(
            f"changefeed: the records do not have column {', '.join(missing)}. Pass the columns of Spark's Kafka source: "
            f"{', '.join(_NEEDED)}, and headers if the records have any (option includeHeaders)"
        )
    headers = "coalesce(headers, array())" if "headers" in records.columns else "array()"
    return records.select(*_NEEDED, f.expr(f"cast({headers} as {_HEADERS})").alias("headers"))


def _parsed(schema: StructType | str | None) -> StructType | None:
    from pyspark.sql.types import StructType

    if not isinstance(schema, str):
        return schema
    parsed = StructType.fromDDL(schema)
    assert isinstance(parsed, StructType)
    return parsed


def _known(
    records: DataFrame, sample: DataFrame | None, options: ReadOptions, language: Language, *, required: bool
) -> Known:
    assert options.table is not None
    split_name(options.table)
    if sample is not None:
        records = _travelling(sample)
    if records.isStreaming:
        if sample is not None:
            raise ConfigError(
                "changefeed: `sample` is a stream. Pass a batch, such as the result of spark.read.format('kafka')"
            )
        if required:
            raise ConfigError(
                f"changefeed: the columns of {options.table} are not known, because a stream cannot be read before it runs. "
                "Pass a batch of its records as `sample`, or the columns as `schema`"
            )
        return Known()
    look = Look(options.table)
    for row in records.mapInArrow(_looker(options, language), "look binary").collect():
        look.join(pickle.loads(row.look))  # what our own tasks have made
    return look.known(language)


def _looker(options: ReadOptions, language: Language) -> Work:
    name, limit = str(options.table), options.schema_records

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        look = Look(name).read(_first(map(arrived, batches), limit), language)
        yield pa.record_batch([pa.array([pickle.dumps(look)], pa.binary())], ["look"])

    return run


def _first(batches: Iterable[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    """Takes the first records of each partition."""
    left: dict[tuple[str, int], int] = {}
    for batch in batches:
        for topic, partition, records in by_partition(batch):
            some = left.setdefault((topic, partition), limit)
            left[topic, partition] = max(0, some - len(records))
            if some:
                yield records.slice(0, some)


def _worker(reading: ReadPlan, *, ends: bool) -> Work:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = reading.start()
        yield from rows.read(map(arrived, batches))
        if ends:
            yield from rows.finish()

    return run


# A stream that keeps something of each partition from one batch to the next. Its rows are Arrow streams in one column:
# Spark passes state only to functions on pandas, and records should not be converted to pandas.


def _with_state(records: DataFrame, reading: ReadPlan) -> DataFrame:
    packed = records.mapInArrow(_pack, _PACKED)
    kept = packed.groupBy("topic", "partition").applyInPandasWithState(
        _stateful(reading), "rows binary", "waiting binary, dated string", "append", "NoTimeout"
    )
    return kept.mapInArrow(_unpack, spark_schema(reading.schema))


def _pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in map(arrived, batches):
        parts = [(t, p, pc.min(some.column("offset")).as_py(), _stream(some)) for t, p, some in by_partition(batch)]
        if parts:
            names = ["topic", "partition", "first", "records"]
            kinds = [pa.string(), pa.int32(), pa.int64(), pa.binary()]
            columns = zip(zip(*parts, strict=True), kinds, strict=True)
            yield pa.record_batch([pa.array(column, kind) for column, kind in columns], names)


def _unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for rows in batch.column(0):
            yield from _batches(rows.as_py())


def _stateful(reading: ReadPlan) -> Any:
    def run(key: tuple[str, int], frames: Iterable[Any], state: Any) -> Iterator[Any]:
        import pandas as pd

        waiting, dated = state.get if state.exists else (None, None)
        rows = Rows(reading, {key[0]: {key[1]: json.loads(dated)}} if dated is not None else {})
        came = sorted(pair for frame in frames for pair in zip(frame["first"], frame["records"], strict=True))
        streams = []
        for records in ([waiting] if waiting else []) + [records for _, records in came]:
            for batch in _batches(records):
                streams += [_stream(one) for one in rows.rows(rows.decode(batch))]
        kept, last = rows.waiting(), rows.dated().get(key[0], {}).get(key[1])
        state.update((_stream(kept) if len(kept) else None, json.dumps(last) if last is not None else dated))
        yield pd.DataFrame({"rows": streams})

    return run


def _stream(batch: pa.RecordBatch) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, batch.schema) as writer:
        writer.write_batch(batch)
    data: bytes = out.getvalue().to_pybytes()
    return data


def _batches(data: bytes) -> Iterator[pa.RecordBatch]:
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        yield from reader
