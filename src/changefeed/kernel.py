"""The door to the Rust kernel: fast where the kernel knows the bytes, the reference decoder everywhere else.

    records ─▶ kernel ─▶ rows of the shapes it has learned
                  └─ odd records ─▶ reference ─▶ changes, control, dead letters
                        ▲                └─ new shapes ─▶ the kernel learns them
                        └── what is still odd goes round again

Rule 1. The result is the reference's: same events, same shapes, one batch a shape, in order.
Rule 2. A record is the kernel's as a whole or not at all. It decides nothing and explains nothing.
Rule 3. Shapes come from the reference alone and are taught in the order in which it makes them: a row that agrees with
        several joins the first, here as there. So odd records are handed over in order, few at first.
Rule 4. Without the kernel everything works, slower; that is said once.
"""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta, timezone
from importlib import import_module
from types import MappingProxyType
from typing import Any, Literal
from typing import Protocol as Interface

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.errors import ConfigError
from changefeed.model.batch import RECORDS, Decoded, TableBatch, table_schema
from changefeed.model.event import Control, DeadLetter
from changefeed.model.position import Place
from changefeed.model.table import TableShape
from changefeed.protocols import protocol
from changefeed.protocols.base import Decoder, Options, Stores
from changefeed.wire import base64_text, tso
from changefeed.wire.zone import zone


def _installed() -> Any:
    try:
        return import_module("changefeed_kernel")
    except ModuleNotFoundError:
        return None


changefeed_kernel = _installed()
_log = logging.getLogger(__name__)
_INSTALL = "pip install ./kernel (needs cargo)"
_FIRST_ODD = 8
_MAX_SHAPES = 4096
_PLACE = pa.schema([RECORDS.field(name) for name in ("topic", "partition", "offset")])
_LOGICAL_BITS, _MILLISECONDS = pa.scalar(tso.LOGICAL_BITS, pa.uint64()), pa.timestamp("ms", tz="UTC")
_NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})


class Kernel(Interface):
    """The compiled twin of one protocol's decoder; see `changefeed_kernel.pyi`."""

    def learn(self, shape: str) -> int | None:
        """The number of a shape, from 0; None when it is beyond the kernel."""
        ...

    def decode(
        self, keys: pa.Array, values: pa.Array, rows: pa.Int32Array | None = None, **more: pa.Array
    ) -> tuple[list[tuple[int, pa.RecordBatch]], pa.Int32Array]:
        """Rows by shape number, and the rows of the records that are odd.

        `topics` go to a class that has TOPICS, `headers` to one that has HEADERS.
        """
        ...


def decoder(
    name: str,
    options: Mapping[str, Any] | Options = _NO_OPTIONS,
    stores: Stores | None = None,
    *,
    kernel: Literal["auto", "on", "off"] = "auto",
) -> Decoder:
    """The decoder of a protocol: kernel and reference together where the kernel has a twin, else the reference.

    Args:
        name: of the protocol.
        options: as the protocol's `Options`, or a mapping that is checked to become that.
        stores: what lies outside of the records, as claim-check bodies.
        kernel: `off` takes the reference alone, `on` fails where `auto` makes do with it.

    Raises:
        ConfigError: protocol or options are unknown, or the kernel is `on` and not there.
    """
    spoken = protocol(name)
    chosen = options if isinstance(options, Options) else spoken.read_options(options)
    reference = functools.partial(spoken.decoder, chosen, stores or Stores())
    twin = _KERNELS[name](chosen) if kernel != "off" and name in _KERNELS else None
    if twin is None or changefeed_kernel is None:
        if kernel == "on":
            why = "is not installed: " + _INSTALL if twin else f"has no decoder for {name} with these options"
            raise ConfigError(f"the kernel {why}")
        if twin is not None:
            _say_slow()
        return reference()
    return Pair(reference, twin)


@functools.cache
def _say_slow() -> None:
    _log.warning("the kernel is not installed, decoding in Python is about 100 times slower: %s", _INSTALL)


def _ticdc_open(options: Any) -> Callable[[], Kernel] | None:
    """The twin for these options; None where values are not plain JSON of today's form."""
    if options.large_message_handle_compression != "none" or options.legacy_v4:
        return None
    ahead = _ahead(options.time_zone)
    return lambda: changefeed_kernel.TicdcOpen(upsert=not options.output_old_value, ahead=ahead)


def _ticdc_avro(options: Any) -> Callable[[], Kernel]:
    ahead = _ahead(options.time_zone)
    return lambda: changefeed_kernel.TicdcAvro(ahead=ahead)


def _ahead(time_zone: str) -> int | None:
    """Microseconds by which the zone is ahead of UTC; None when that depends on the day."""
    where = zone(time_zone)
    return where.utcoffset(None) // timedelta(microseconds=1) if isinstance(where, timezone) else None


def _ticdc_debezium(options: Any) -> Callable[[], Kernel] | None:
    """The twin for these options; None where values are compressed."""
    plain = options.large_message_handle_compression == "none"
    return (lambda: changefeed_kernel.TicdcDebezium()) if plain else None


def _debezium_mysql(options: Any) -> Callable[[], Kernel] | None:
    """The twin for these options; None where values are Avro."""
    if options.converter == "avro" or options.schema_registry is not None:
        return None
    absent = options.unavailable_value_placeholder
    texts, numeric = [absent, base64_text.write(absent.encode())], options.decimal_format == "NUMERIC"
    return lambda: changefeed_kernel.DebeziumMysql(placeholders=texts, numeric=numeric)


_KERNELS: dict[str, Callable[[Any], Callable[[], Kernel] | None]] = {
    "debezium-mysql": _debezium_mysql,
    "ticdc-avro": _ticdc_avro,
    "ticdc-debezium": _ticdc_debezium,
    "ticdc-open": _ticdc_open,
}


class Pair:
    """A kernel and the reference that teaches it.

    Where the topic decides too what a record is, the kernel has TOPICS: it is given them, and taught in which of them a
    shape was met.

    Attributes:
        odd: how many records went to the reference so far.
    """

    def __init__(self, reference: Callable[[], Decoder], kernel: Callable[[], Kernel]) -> None:
        self.odd = 0
        self._make = (reference, kernel)
        self._start_over()

    def _start_over(self) -> None:
        self._reference, self._kernel = self._make[0](), self._make[1]()
        self._by_topic = getattr(self._kernel, "TOPICS", False)
        self._seen: set[tuple[TableShape, str | None]] = set()
        self._shapes: list[_Taught] = []

    def decode(self, records: pa.RecordBatch) -> Decoded:
        """What the records mean; see `protocols.base.Decoder`."""
        if len(self._seen) > _MAX_SHAPES:
            self._start_over()
        tables: list[TableBatch] = []
        control: list[Control] = []
        dead: list[DeadLetter] = []
        odd = self._run_kernel(records, None, tables)
        count = _FIRST_ODD
        while len(odd):
            asked, odd = odd[:count], odd[count:]
            self.odd += len(asked)
            answer = _at(self._reference.decode(records.take(asked)), asked)
            tables += answer.tables
            control += answer.control
            dead += answer.dead
            if self._teach(answer.tables) and len(odd):
                odd = self._run_kernel(records, odd, tables)
            count *= 2
        return Decoded(_joined(tables), control, dead)

    def _run_kernel(self, records: pa.RecordBatch, rows: pa.Array | None, tables: list[TableBatch]) -> pa.Array:
        """Appends what the kernel can decode to `tables`; returns the rows of the other records."""
        more = {"topics": records.column("topic").cast(pa.binary())} if self._by_topic else {}
        if getattr(self._kernel, "HEADERS", False):
            more["headers"] = _headers(records)
        found, odd = self._kernel.decode(records.column("key"), records.column("value"), rows, **more)
        places = records.select(_PLACE.names).cast(_PLACE)
        tables += (self._shapes[number].completed(batch, places) for number, batch in found)
        return odd

    def _teach(self, tables: list[TableBatch]) -> bool:
        """Teaches the kernel what it has not seen; tells whether it learned anything."""
        before = len(self._shapes)
        for shape, topic in _met(tables) if self._by_topic else ((t.shape, None) for t in tables):
            if (shape, topic) in self._seen:
                continue
            self._seen.add((shape, topic))
            whole = shape.before is None and shape.after is None
            if whole and self._kernel.learn(_description(shape, topic)) is not None:
                self._shapes.append(_Taught(shape))
        return len(self._shapes) > before


def _met(tables: list[TableBatch]) -> list[tuple[TableShape, str]]:
    """Shapes with the topics that they were met in, in the order of the first row of each."""
    met: list[tuple[int, TableShape, str]] = []
    for table in tables:
        rows = zip(table.rows.column("topic").to_pylist(), table.rows.column("record").to_pylist(), strict=True)
        first = dict(reversed(list(rows)))
        met += ((record, table.shape, topic) for topic, record in first.items())
    return [(shape, topic) for _, shape, topic in sorted(met, key=lambda one: one[0])]


def _headers(records: pa.RecordBatch) -> pa.Array:
    column, kind = records.column("headers"), RECORDS.field("headers").type
    return column if column.type == kind else column.cast(kind)


def _description(shape: TableShape, topic: str | None) -> str:
    """The shape in JSON; its wire text, which is JSON, stands in it as it is: there may be bytes to compare with."""
    columns = [{"name": c.name, "type": str(c.type), "key": c.key} for c in shape.columns]
    said = {"database": shape.database, "table": shape.table, "columns": columns}
    described = json.dumps(said if topic is None else said | {"topic": topic})
    return f'{described[:-1]},"wire":{shape.wire or "null"}}}'


class _Taught:
    """A shape that the kernel knows, and how its rows are completed: with what is worked out once for all batches."""

    def __init__(self, shape: TableShape) -> None:
        self.shape = shape
        self._schema = functools.cache(functools.partial(table_schema, shape))

    def completed(self, rows: pa.RecordBatch, places: pa.RecordBatch) -> TableBatch:
        """The kernel's rows with the columns that it leaves out: what follows from the record and from commit_ts, or is empty."""
        columns, count = dict(zip(rows.schema.names, rows.columns, strict=True)), len(rows)
        each = count == len(places) and columns["index"].null_count == count  # a row for each record, in order
        columns |= zip(_PLACE.names, (places if each else places.take(columns["record"])).columns, strict=True)
        if "commit_time" not in columns:
            ms = pc.shift_right(columns["commit_ts"], _LOGICAL_BITS)
            columns["commit_time"] = ms.cast(pa.int64()).cast(_MILLISECONDS)
        if "irregular" not in columns:
            columns["irregular"] = _nothing(count.bit_length()).slice(0, count)
        schema = self._schema(columns["commit_time"].type.unit)
        arrays = [columns[f.name] if f.name in columns else pa.nulls(count, f.type) for f in schema]
        return TableBatch(self.shape, pa.RecordBatch.from_arrays(arrays, schema=schema))


@functools.cache
def _nothing(bits: int) -> pa.MapArray:
    """As many empty maps as there are numbers of so many bits."""
    ends = pa.repeat(pa.scalar(0, pa.int32()), (1 << bits) + 1)
    return pa.MapArray.from_arrays(ends, pa.array([], pa.string()), pa.array([], pa.binary()))


def _at(answer: Decoded, rows: pa.Array) -> Decoded:
    """The reference's answer about some of the records, with their rows in the whole batch."""
    numbers = rows.to_pylist()

    def moved(place: Place) -> Place:
        return replace(place, record=numbers[place.record])

    def placed(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.set_column(0, batch.schema.field(0), rows.take(batch.column(0)))

    tables = [TableBatch(t.shape, placed(t.rows)) for t in answer.tables]
    control = [replace(event, place=moved(event.place)) for event in answer.control]
    return Decoded(tables, control, [replace(letter, place=moved(letter.place)) for letter in answer.dead])


def _joined(tables: Iterable[TableBatch]) -> list[TableBatch]:
    """One batch a shape and unit of time, its rows in order, in the order in which the shapes are first met."""
    by_shape: dict[tuple[TableShape, pa.DataType], list[pa.RecordBatch]] = {}
    for table in tables:
        by_shape.setdefault((table.shape, table.rows.column("commit_time").type), []).append(table.rows)
    joined = [TableBatch(shape, _in_order(batches)) for (shape, _), batches in by_shape.items()]
    return sorted(joined, key=lambda t: (t.rows.column("record")[0].as_py(), t.rows.column("index")[0].as_py() or 0))


def _in_order(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    rows = pa.concat_batches(batches)
    return rows.take(pc.sort_indices(rows, sort_keys=[("record", "ascending"), ("index", "ascending")]))
