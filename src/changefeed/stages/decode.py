"""decode: records -> chunks.

The decoder is built where it runs, from the protocol's name and options, once a task. A row that carries its key alone
because the producer found it too large cannot be applied and must not be lost: it leaves here as a dead letter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.frames.chunks import CHUNKS_DDL, pack
from changefeed.kernel import decoder
from changefeed.model.batch import Decoded, TableBatch
from changefeed.model.event import DeadLetter
from changefeed.model.position import Place
from changefeed.protocols import protocol as spoken
from changefeed.stores import stores_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KEY_ONLY = '"ohk":true'


def decode(records: DataFrame, protocol: str, options: Mapping[str, Any]) -> DataFrame:
    """The chunks that the records mean; `records` has the columns of Spark's Kafka source with headers."""
    return records.mapInArrow(worker(protocol, dict(options)), CHUNKS_DDL)


def worker(protocol: str, options: Mapping[str, Any]) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that runs in Spark's Python workers; it ships a name and options, nothing else."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        read = reader(protocol, options)
        for records in batches:
            yield pack(read(records), records)

    return run


def reader(protocol: str, options: Mapping[str, Any]) -> Callable[[pa.RecordBatch], Decoded]:
    """The function that decodes records where it is called, claim checks included."""
    chosen = spoken(protocol).read_options(options)
    decodes = decoder(protocol, chosen, stores_of(chosen))
    return lambda records: _without_key_only(decodes.decode(records), records, protocol)


def _without_key_only(decoded: Decoded, records: pa.RecordBatch, protocol: str) -> Decoded:
    tables, dead = [], list(decoded.dead)
    for table in decoded.tables:
        key_only = pc.and_(
            pc.fill_null(pc.match_substring(table.rows.column("origin"), _KEY_ONLY), False),
            pc.not_equal(table.rows.column("op"), "delete"),
        )
        if not pc.any(key_only).as_py():
            tables.append(table)
            continue
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
