r"""Rows by whole columns, where the kernel writes their keys and values: columns for their templates, and their records.

    {"version":"3.6.3.Final",…,"file":"mysql-bin.000003","pos":4,…,"envelope":{"ts_ns":…},"context":{…}}       an origin

Rule 1. An origin is *flat* when its members are numbers and texts of plain characters, but for `query`, which may be any text
        if it is not written, and `envelope` and `context` at its end: its members are then found by their names. Rows whose
        origin is not flat are left to the encoder.
Rule 2. Members that a row's origin does not have are as `envelope` and `foreign` write them.
Rule 3. The records are those that `encoder` makes row by row:

    key │ value │ headers         a row
    key │ NULL  │ headers         its tombstone, if it is a delete: one offset behind
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.columnar import templates
from changefeed.connect import java_json
from changefeed.model.batch import RECORDS, TableBatch, record_columns
from changefeed.model.table import TableShape
from changefeed.mysql.gtid import GTID
from changefeed.protocols.debezium_mysql import foreign, foreign_shapes, headers
from changefeed.protocols.debezium_mysql.envelope import CLOCK, INTEGERS, TEXTS, TRANSACTION
from changefeed.protocols.debezium_mysql.options import Options
from changefeed.protocols.debezium_mysql.rows import is_ours

_NANOS = r"[1-8]?\d{1,18}"
_TEXT, _NUMBER = r'"[ !#-\[\]-~]*"', r"(?:0|-?[1-9]\d{0,17})"
_ANY_TEXT = r'"(?:[^"\\]|\\.)*"'
_FLAT = (
    rf'^\{{(?:"\w+":(?:{_TEXT}|{_NUMBER}),?)*(?:"envelope":\{{"ts_ns":{_NANOS}\}},?)?'
    rf'(?:"context":\{{(?:"\w+":(?:{_TEXT}|false),?)*\}})?\}}$'
)
_ROW = r'"row":\d{1,17}([,}])'
_QUERY = rf'([{{,])"query":{_ANY_TEXT},'
_KNOWN = "sequence|gtid|file|query|server_id|pos|row|thread|envelope|snapshot|context"
# Of the protocol's own rows; `ts_ns` alone stands in `envelope`, too.
_LEFT, _LEFT_NS = "sent|key|absent|unwrapped|headers|ts_ms|ts_us", r'^\{"ts_ns"|,"ts_ns"'
_DEFAULTS = {"file": '""', "server_id": "0", "pos": "0", "row": "0"}
_ESCAPED = r"[\x00-\x1f\x{10000}-\x{10ffff}]"  # which Kafka Connect escapes, besides quotes and backslashes
_MOST_US = 2**63 // 1000


@dataclass(frozen=True, slots=True)
class _Origins:
    """The origins of rows, each text once: those of an event of the log differ in the number of the row alone.

    Attributes:
        texts: the different texts; the number of the row in them is any.
        indices: the text of each row; None if `texts` has one for each.
    """

    texts: pa.Array
    indices: pa.Array | None

    @classmethod
    def of(cls, origin: pa.Array, *, with_query: bool) -> _Origins:
        """Returns the origins, without the query if it does not matter."""
        encoded = pc.replace_substring_regex(origin, _ROW, r'"row":0\1', max_replacements=1).dictionary_encode()
        texts, indices = encoded.dictionary, encoded.indices
        if 2 * len(texts) > len(origin):
            texts, indices = origin, None
        return cls(texts if with_query else pc.replace_substring_regex(texts, _QUERY, r"\1"), indices)

    @property
    def none(self) -> bool:
        """Whether no row has an origin."""
        return bool(self.texts.null_count == len(self.texts))

    def spread(self, values: pa.Array) -> pa.Array:
        """Returns the values of the texts for each row."""
        return values if self.indices is None else values.take(self.indices)


def of(table: TableBatch, options: Options) -> dict[str, pa.Array]:
    """The columns that the templates of the table's shape name."""
    rows, ours = table.rows, is_ours(table.shape.wire)
    origin = _Origins.of(rows.column("origin"), with_query=ours or options.include_query)
    times = _times(rows)
    clock = times if origin.none else _clock(origin, times)
    unsent = pa.repeat("", len(rows)) if origin.none else origin.spread(_unsent(origin.texts, ours))
    if not ours:
        unsent = pc.if_else(_same_key(rows, table.shape, options), unsent, _no_text())
    members = (*TEXTS, *INTEGERS, "snapshot")
    sources = {f"source.{name}": _member(name, rows, origin, ours, options) for name in members}
    transactions = ours or options.provide_transaction_metadata
    return {
        **sources,
        **{f"source.{name}": times[name] for name in CLOCK},
        **{f"clock.{name}": clock[name] for name in CLOCK},
        "transaction": _transaction(rows.column("transaction"), ours) if transactions else pa.repeat("null", len(rows)),
        "unsent": unsent,
        **({} if ours or options.connector != "mysql" else _compacted(table)),
    }


def _compacted(table: TableBatch) -> dict[str, pa.Array]:
    """The columns of JSON in both images as texts in JSON, of a log without spaces; NULL for texts that need other escapes."""
    columns = dict[str, pa.Array]()
    is_of_log = pc.coalesce(pc.match_substring(table.rows.column("origin"), '"file":'), False)
    for side, carried in (("before", table.shape.before_columns), ("after", table.shape.after_columns)):
        for column in carried:
            if column.type.name == "json":
                text = pc.struct_field(table.rows.column(side), column.name)
                compact = pc.replace_substring_regex(text, foreign.JSON_SPACE.pattern, r"\1")
                text = pc.if_else(is_of_log, compact, text)
                quoted = pc.replace_substring(pc.replace_substring(text, "\\", "\\\\"), '"', '\\"')
                written = pc.coalesce(pc.binary_join_element_wise('"', quoted, '"', ""), "null")
                is_plain = pc.coalesce(pc.invert(pc.match_substring_regex(text, _ESCAPED)), True)
                columns[f"{side}.{column.name}"] = pc.if_else(is_plain, written, _no_text())
    return columns


def _unsent(origin: pa.Array, ours: bool) -> pa.Array:
    """Returns an empty text for each origin that has no members except those that a template writes; else NULL."""
    flat = pc.coalesce(pc.match_substring_regex(origin, _FLAT), False)
    if ours:
        parts = pc.and_(flat, pc.and_not(templates.silent(origin, _LEFT), pc.match_substring_regex(origin, _LEFT_NS)))
    else:
        parts = pc.or_(flat, templates.silent(origin, _KNOWN))
    return pc.if_else(pc.coalesce(parts, False), "", _no_text())


def _member(name: str, rows: pa.RecordBatch, origin: _Origins, ours: bool, options: Options) -> pa.Array:
    """The JSON of a member of the source block."""
    if not ours and name in ("version", "connector", "name"):
        own = {"version": options.version, "connector": options.connector, "name": foreign.prefix(options)}
        return pa.repeat(java_json.string(own[name]), len(rows))
    usual = pa.repeat("null" if ours else _DEFAULTS.get(name, "null"), len(rows))
    if name == "snapshot":
        usual = pc.if_else(pc.and_(pc.equal(rows.column("op"), "read"), not ours), '"true"', '"false"')
    if name == "gtid" and not ours:
        id_ = pc.struct_field(rows.column("transaction"), "id")
        named = pc.coalesce(pc.match_substring_regex(id_, GTID), False)
        usual = pc.if_else(named, pc.binary_join_element_wise('"', id_, '"', ""), usual)
    if origin.none or (name == "query" and not ours and not options.include_query):
        return usual
    form = f"{_TEXT}|{_NUMBER}" if ours else _NUMBER if name in INTEGERS else _TEXT
    texts = rows.column("origin") if name == "row" else origin.texts
    member = pc.struct_field(pc.extract_regex(texts, rf'[{{,]"{name}":(?P<v>{form})[,}}]'), "v")
    return pc.coalesce(member if name == "row" else origin.spread(member), usual)


def _times(rows: pa.RecordBatch) -> dict[str, pa.Array]:
    """The time of each change as the source block has it; NULL for none."""
    unit, column = rows.schema.field("commit_time").type.unit, rows.column("commit_time").cast(pa.int64())
    us = pc.multiply(column, {"s": 10**6, "ms": 1000, "us": 1}[unit])
    us = pc.if_else(pc.and_(pc.greater_equal(column, 0), pc.less(us, _MOST_US)), us, pa.scalar(None, pa.int64()))
    columns = {"ts_ms": pc.divide(us, 1000).cast(pa.string())}
    fine = {"ts_us": us.cast(pa.string()), "ts_ns": pc.multiply(us, 1000).cast(pa.string())}
    return columns | (fine if unit == "us" else dict.fromkeys(fine, pa.repeat("null", len(rows))))


def _clock(origin: _Origins, times: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """The connector's clock: its reading in the origin, else the time of the change."""
    parts = pc.extract_regex(origin.texts, rf'"envelope":\{{"ts_ns":(?P<ns>{_NANOS})\}}')
    ns = pc.struct_field(parts, "ns").cast(pa.int64())
    read = {
        name: origin.spread(pc.divide(ns, by).cast(pa.string()))
        for name, by in zip(CLOCK, (10**6, 1000, 1), strict=True)
    }
    return {name: pc.coalesce(read[name], times[name]) for name in CLOCK}


def _transaction(transaction: pa.Array, ours: bool) -> pa.Array:
    """The transaction block; NULL for one of this protocol without all members, or whose id has other than plain characters."""
    columns = {name: pc.struct_field(transaction, known) for name, known in TRANSACTION.items()}
    nothing = functools.reduce(pc.and_ if ours else pc.or_, map(pc.is_null, columns.values()))
    texts = {name: column.cast(pa.string()) for name, column in columns.items()}
    quoted = pc.binary_join_element_wise('"', texts["id"], '"', "")
    texts["id"] = pc.if_else(_plain(texts["id"]), quoted, _no_text())
    members = (part for name, text in texts.items() for part in (f',"{name}":', text))
    block = pc.binary_join_element_wise("{", *members, "}", "")
    return pc.if_else(nothing, "null", pc.replace_substring(block, "{,", "{", max_replacements=1))


def _plain(text: pa.Array) -> pa.Array:
    return pc.coalesce(pc.match_substring_regex(text, r"^[ !#-\[\]-~]*$"), False)


def _same_key(rows: pa.RecordBatch, shape: TableShape, options: Options) -> pa.Array:
    """Whether both images have the same key, where there are two."""
    before, after = rows.column("before"), rows.column("after")
    same = pc.or_(pc.is_null(before), pc.is_null(after))
    alike = pa.repeat(pa.scalar(True), len(rows))
    for name in foreign_shapes.keys(shape, options):
        old, new = pc.struct_field(before, [name]), pc.struct_field(after, [name])
        both = pc.and_(pc.is_null(old), pc.is_null(new))
        alike = pc.and_(alike, pc.or_(pc.coalesce(pc.equal(old, new), False), both))
    return pc.or_(same, alike)


@cache
def _no_text() -> pa.Scalar:
    """NULL; made when it is first wanted, as pyarrow then looks for pandas."""
    return pa.scalar(None, pa.string())


_HEADERS = RECORDS.field("headers").type
# Members that differ from row to row, and do not matter for headers.
_PLACE, _CLOCK = rf'"(?:file|pos|row|thread|gtid|query|server_id)":(?:{_ANY_TEXT}|-?\d+),', r'"envelope":\{[^}]*\},'


def records(
    shape: TableShape, rows: pa.RecordBatch, keys: pa.Array | None, values: pa.Array, options: Options
) -> pa.RecordBatch:
    """Returns the records of rows, with a column `ordinal`: the number of the row."""
    renamed = options.topic_prefix is not None and not is_ours(shape.wire)
    topic = pa.repeat(foreign.schema_name(shape, options), len(rows)) if renamed else rows.column("topic")
    batch = record_columns(
        len(rows),
        topic=topic,
        partition=rows.column("partition"),
        offset=rows.column("offset"),
        key=pa.nulls(len(rows), pa.binary()) if keys is None else keys,
        value=values,
        headers=_record_headers(shape, rows.column("origin"), options),
    ).append_column("ordinal", rows.column("ordinal"))
    deletes = pc.indices_nonzero(pc.equal(rows.column("op"), "delete"))
    if not len(deletes) or not options.tombstones_on_delete:
        return batch
    behind = batch.take(deletes)
    for name, column in (
        ("offset", pc.add(behind.column("offset"), 1)),
        ("value", pa.nulls(len(behind), pa.binary())),
    ):
        at = behind.schema.get_field_index(name)
        behind = behind.set_column(at, batch.schema.field(at), column)
    whole = pa.concat_batches([batch, behind])
    return whole.take(pc.sort_indices(whole.column("ordinal")))


def _record_headers(shape: TableShape, origin: pa.Array, options: Options) -> pa.Array:
    """The headers of each record, from the context in its origin; most origins have none."""
    whole = _Origins.of(origin, with_query=True)
    texts = pc.if_else(pc.match_substring(whole.texts, '"context"'), whole.texts, pa.scalar(None, pa.string()))
    if texts.null_count == len(texts):
        return pa.array([[]] * len(origin), _HEADERS)
    origins = pc.replace_substring_regex(pc.replace_substring_regex(texts, _PLACE, ""), _CLOCK, "").dictionary_encode()
    headers_of_rows: list[list[dict[str, object]]] = []
    for text in origins.dictionary.to_pylist():
        member = json.loads(text)
        member = member if is_ours(shape.wire) else foreign.source(member, options)
        headers_of_rows.append([{"key": name, "value": data} for name, data in headers.write(member)])
    nothing = pa.scalar(len(headers_of_rows), origins.indices.type)
    indices = pc.coalesce(whole.spread(origins.indices), nothing)
    return pa.array([*headers_of_rows, []], _HEADERS).take(indices)
