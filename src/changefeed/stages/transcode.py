"""transcode: records -> records of another protocol.

Rule 1. Each partition of a topic has its own decoder and encoder, and is read in the order of its offsets. Their state
        (batches, groups of records, sequence numbers) never mixes partitions, however Spark schedules the tasks.
Rule 2. Records read from a partition are written to the same partition, even if the encoder sends all foreign events to
        partition 0. Options that distribute rows to other partitions need one encoder for all of them, and are refused.
Rule 3. Dead letters are left out and counted; at most `SHOWN` of them are printed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from changefeed.codec.decoding import decoder
from changefeed.codec.encoding import encoder
from changefeed.errors import ConfigError
from changefeed.frames.chunks import RECORDS_DDL
from changefeed.frames.mapped import Work
from changefeed.model.batch import RECORDS, Decoded
from changefeed.model.text import lines
from changefeed.protocols import protocol
from changefeed.protocols.base import ClosingEncoder, Options, unfinished
from changefeed.stages.decode import arrived
from changefeed.stages.definitions import definitions
from changefeed.stores import stores_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHOWN = 100
_COLUMNS = ("key", "value", "topic", "partition", "offset")


@dataclass(frozen=True, slots=True)
class Language:
    """A protocol's name, and its options as the user wrote them."""

    name: str
    options: Mapping[str, Any]


def transcode(records: DataFrame, source: Language, target: Language, dead: Callable[[list[str]], None]) -> DataFrame:
    """Decodes the records as `source` and encodes their events as `target`.

    Args:
        records: with the columns of Spark's Kafka source with headers.
        source, target: protocol and options of the records, and of the result.
        dead: called in the workers with the lines of dead letters.

    Raises:
        ConfigError: an option of the target sends rows to partitions other than their own.
    """
    from pyspark.sql import functions as f

    options = protocol(target.name).read_options(target.options)
    refuse_dispatch(target.name, options, ", or transcode without --spark")
    sent = records.select(*_COLUMNS, f.expr("coalesce(headers, array())").alias("headers"))
    whole = sent.repartition("topic", "partition").sortWithinPartitions("topic", "partition", "offset")
    if options.one_writer:
        whole = whole.coalesce(1)
    return whole.mapInArrow(worker(source, target, dead), RECORDS_DDL)


def refuse_dispatch(name: str, options: Options, or_else: str = "") -> None:
    """Refuses options of an encoder by which it chooses the topic or the partition of a row.

    Raises:
        ConfigError: one of these options is set.
    """
    if options.dispatches:
        raise ConfigError(
            f"{name}: option {', '.join(options.dispatches)} is not supported on Spark: it sends rows to other topics or "
            f"partitions, but each partition has an encoder of its own. Remove it{or_else}"
        )


def worker(source: Language, target: Language, dead: Callable[[list[str]], None]) -> Work:
    """Returns the function for `mapInArrow`, which runs in Spark's Python workers."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = (part for batch in batches for part in _parts(arrived(batch)))
        for (_, number), run in groupby(parts, key=lambda part: part[0]):
            for written in _partition((records for _, records in run), source, target, dead):
                if len(written):
                    yield in_partition(written, number)

    return run


def _parts(batch: pa.RecordBatch) -> Iterator[tuple[tuple[str, int], pa.RecordBatch]]:
    """Splits the batch into runs of one topic and partition."""
    places = list(zip(batch.column("topic").to_pylist(), batch.column("partition").to_pylist(), strict=True))
    cuts = [0, *(n for n, (a, b) in enumerate(pairwise(places), 1) if a != b), len(places)]
    for start, end in pairwise(cuts):
        if end > start:
            yield places[start], batch.slice(start, end - start)


def _partition(
    parts: Iterable[pa.RecordBatch], source: Language, target: Language, dead: Callable[[list[str]], None]
) -> Iterator[pa.RecordBatch]:
    reads = protocol(source.name).read_options(source.options)
    writes = protocol(target.name).read_options(target.options)
    decodes = decoder(source.name, reads, stores_of(reads))
    encodes = encoder(target.name, writes, stores_of(writes))
    defined = definitions(protocol(source.name), reads, target.name)
    for records in parts:
        decoded = decodes.decode(records)
        dead(list(lines(Decoded(dead=decoded.dead))))
        yield encodes.encode(defined(decoded))
    dead(list(lines(Decoded(dead=unfinished(decodes, source.name)))))
    if isinstance(encodes, ClosingEncoder):
        yield encodes.finish()


def in_partition(records: pa.RecordBatch, number: int) -> pa.RecordBatch:
    """The records in the partition of this number."""
    at = RECORDS.get_field_index("partition")
    return records.set_column(at, RECORDS.field(at), pa.array([number] * len(records), pa.int32()))
