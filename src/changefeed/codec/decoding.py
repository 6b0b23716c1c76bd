"""The door to the Rust kernel: fast where the kernel knows the bytes, the reference decoder everywhere else.

    records ─▶ kernel ─▶ rows of the shapes it has learned
                  └─ odd records ─▶ reference ─▶ changes, control, dead letters
                        ▲                └─ new shapes ─▶ the kernel learns them
                        └── what is still odd goes round again

Rule 1. The result is the reference's: same events, same shapes, one batch a shape, in order.
Rule 2. A record is the kernel's as a whole or not at all. It decides nothing and explains nothing.
Rule 3. Shapes come from the reference alone and are taught in the order in which it makes them: a row that agrees with
        several joins the first, here as there. So odd records are handed over in order, few at first, and what is taught of
        a table ends where a shape of it is beyond the kernel: a later one would get rows that agree with both. What the
        reference remembers, how much, and until when, is the same with the kernel and without: see `columnar.families`.
Rule 4. Without the kernel everything works, slower; that is said once.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, Literal
from typing import Protocol as Interface

import pyarrow as pa

from changefeed.codec.defects import Door, door
from changefeed.codec.placement import (
    Places,
    Taught,
    by_first_row,
    completed,
    description,
    headers_of,
    joined,
    met,
    placed,
)
from changefeed.errors import ConfigError
from changefeed.model.batch import Decoded, TableBatch
from changefeed.model.event import Control, DeadLetter
from changefeed.model.table import TableShape
from changefeed.protocols import protocol
from changefeed.protocols.base import Decoder, Options, Stores
from changefeed.ticdc.zone import ahead, zone
from changefeed.wire import base64_text


def _installed() -> Any:
    try:
        return import_module("changefeed_kernel")
    except ModuleNotFoundError:
        return None


changefeed_kernel = _installed()
_log = logging.getLogger(__name__)
INSTALL = "pip install ./kernel (needs cargo)"
_FIRST_ODD = 2
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
            why = "is not installed: " + INSTALL if twin else f"has no decoder for {name} with these options"
            raise ConfigError(f"the kernel {why}")
        if twin is not None:
            _say_slow()
        return door(name, reference())
    pair: type[Pair] = import_module(_PAIRS[name]).Grouped if name in _PAIRS else Pair
    return pair(name, reference(), twin)


@functools.cache
def _say_slow() -> None:
    _log.warning("the kernel is not installed, decoding in Python is about 100 times slower: %s", INSTALL)


def _ticdc_open(options: Any) -> Callable[[], Kernel] | None:
    """The twin for these options; None where values are not plain JSON of today's form."""
    if options.large_message_handle_compression != "none" or options.legacy_v4:
        return None
    clock = ahead(zone(options.time_zone))
    return lambda: changefeed_kernel.TicdcOpen(upsert=not options.output_old_value, ahead=clock)


def _ticdc_avro(options: Any) -> Callable[[], Kernel]:
    clock = ahead(zone(options.time_zone))
    return lambda: changefeed_kernel.TicdcAvro(ahead=clock)


def _ticdc_debezium(options: Any) -> Callable[[], Kernel] | None:
    """The twin for these options; None where values are compressed."""
    plain = options.large_message_handle_compression == "none"
    return (lambda: changefeed_kernel.TicdcDebezium()) if plain else None


def _debezium_mysql(options: Any) -> Callable[[], Kernel] | None:
    """The twin for these options, of Avro where there is some; None where values have no envelope."""
    if options.unwrap:
        return None
    absent = options.unavailable_value_placeholder
    texts, numeric = [absent, base64_text.write(absent.encode())], options.decimal_format == "NUMERIC"
    avro = options.converter == "avro" or options.schema_registry is not None
    name = "DebeziumMysqlAvro" if avro else "DebeziumMysql"
    return lambda: getattr(changefeed_kernel, name)(placeholders=texts, numeric=numeric)


def _tencent_dts(options: Any) -> Callable[[], Kernel]:
    most = min(options.max_data_bytes, options.max_group_bytes)
    return lambda: changefeed_kernel.TencentDts(signed=options.bit64_signed, most=most)


_KERNELS: dict[str, Callable[[Any], Callable[[], Kernel] | None]] = {
    "debezium-mysql": _debezium_mysql,
    "tencent-dts": _tencent_dts,
    "ticdc-avro": _ticdc_avro,
    "ticdc-debezium": _ticdc_debezium,
    "ticdc-open": _ticdc_open,
}
_PAIRS = {"tencent-dts": "changefeed.codec.record_groups"}  # where records are not read one by one


class Pair(Door):
    """A kernel and the reference that teaches it.

    Where the topic decides too what a record is, the kernel has TOPICS: it is given them, and taught in which of them a
    shape was met.

    Attributes:
        odd: how many records went to the reference so far.
    """

    def __init__(self, name: str, reference: Decoder, kernel: Callable[[], Kernel]) -> None:
        super().__init__(name, reference)
        self.odd = 0
        self._make = kernel
        self._start_over()

    def forget(self) -> None:
        """Lets go of the shapes, here and in the kernel; see `protocols.base.Decoder`."""
        super().forget()
        self._start_over()

    def _start_over(self) -> None:
        self._kernel = self._make()
        self._by_topic = getattr(self._kernel, "TOPICS", False)
        self._seen: set[tuple[TableShape, str | None]] = set()
        self._shapes: list[Taught] = []
        self._beyond: set[tuple[str, str, str]] = set()

    def _decode(self, records: pa.RecordBatch) -> Decoded:
        tables: list[TableBatch] = []
        control: list[Control] = []
        dead: list[DeadLetter] = []
        odd = self._run_kernel(records, None, tables)
        count = _FIRST_ODD
        while len(odd):
            asked, odd = odd[:count], odd[count:]
            self.odd += len(asked)
            answer = placed(self._reference.decode(records.take(asked)), asked)
            tables += answer.tables
            control += answer.control
            dead += answer.dead
            if self._teach(answer.tables) and len(odd):
                odd = self._run_kernel(records, odd, tables)
            count *= 2
        return Decoded(joined(tables), control, dead)

    def _run_kernel(self, records: pa.RecordBatch, rows: pa.Array | None, tables: list[TableBatch]) -> pa.Array:
        """Appends what the kernel can decode to `tables`; returns the rows of the other records."""
        more = {"topics": records.column("topic").cast(pa.binary())} if self._by_topic else {}
        if getattr(self._kernel, "HEADERS", False):
            more["headers"] = headers_of(records)
        found, odd = self._kernel.decode(records.column("key"), records.column("value"), rows, **more)
        places = Places(records)
        tables += completed([(self._shapes[number], batch) for number, batch in found], places)
        return odd

    def _teach(self, tables: list[TableBatch]) -> bool:
        """Teaches the kernel what it has not seen; tells whether it learned anything."""
        before = len(self._shapes)
        for shape, topic in met(tables) if self._by_topic else ((t.shape, None) for t in by_first_row(tables)):
            if (shape, topic) in self._seen:
                continue
            self._seen.add((shape, topic))
            family = (shape.database, shape.table, shape.wire)
            if shape.before is not None or shape.after is not None or family in self._beyond:
                continue
            if any("\0" in name for name in shape.by_name):  # Arrow's C interface, which ends names there
                self._beyond.add(family)
            elif self._kernel.learn(description(shape, topic)) is not None:
                self._shapes.append(Taught(shape))
            else:
                self._beyond.add(family)
        return len(self._shapes) > before
