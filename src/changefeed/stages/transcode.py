"""transcode: records -> records of another protocol.

Rule 1. A partition of a topic is one piece of work: read in the order of its offsets, by a decoder and an encoder of its
        own. What they remember (batches, groups of records, sequence numbers) is the partition's, whatever Spark does.
Rule 2. What was read from a partition is written to it, also by encoders that send all that comes from elsewhere to
        partition 0. Options that send rows elsewhere need one encoder for all partitions, and are refused.
Rule 3. What could not be decoded is left out, counted, and shown as far as `SHOWN` letters go.
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
from changefeed.frames.slices import Work
from changefeed.model.batch import RECORDS, Decoded
from changefeed.model.text import lines
from changefeed.protocols import protocol
from changefeed.protocols.base import ClosingEncoder, unfinished
from changefeed.stages.decode import arrived
from changefeed.stages.definitions import definitions
from changefeed.stores import stores_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHOWN = 100
_COLUMNS = ("key", "value", "topic", "partition", "offset")


@dataclass(frozen=True, slots=True)
class Language:
    """A protocol by its name, with options as they were given."""

    name: str
    options: Mapping[str, Any]


def transcode(records: DataFrame, source: Language, target: Language, dead: Callable[[list[str]], None]) -> DataFrame:
    """The records that say in `target` what `records` say in `source`.

    Args:
        records: with the columns of Spark's Kafka source with headers.
        source, target: what they are in, and what is wanted.
        dead: takes the lines of dead letters, in the workers.

    Raises:
        ConfigError: an option of the target sends rows to other partitions than they came from.
    """
    from pyspark.sql import functions as f

    options = protocol(target.name).read_options(target.options)
    if options.dispatches:
        raise ConfigError(
            f"{target.name}: {', '.join(options.dispatches)} sends rows to other topics or partitions, which needs one "
            "encoder for all of them; on Spark each partition has its own. Leave it out, or transcode without --spark"
        )
    travelling = records.select(*_COLUMNS, f.expr("coalesce(headers, array())").alias("headers"))
    whole = travelling.repartition("topic", "partition").sortWithinPartitions("topic", "partition", "offset")
    if options.one_writer:
        whole = whole.coalesce(1)
    return whole.mapInArrow(worker(source, target, dead), RECORDS_DDL)


def worker(source: Language, target: Language, dead: Callable[[list[str]], None]) -> Work:
    """The function that runs in Spark's Python workers."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = (part for batch in batches for part in _parts(arrived(batch)))
        for (_, number), run in groupby(parts, key=lambda part: part[0]):
            for written in _partition((records for _, records in run), source, target, dead):
                if len(written):
                    yield in_partition(written, number)

    return run


def _parts(batch: pa.RecordBatch) -> Iterator[tuple[tuple[str, int], pa.RecordBatch]]:
    """The batch, cut where another partition begins."""
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
