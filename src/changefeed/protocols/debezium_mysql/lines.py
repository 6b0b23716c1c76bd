"""Rows whose keys and values are written already, as records: by whole columns what `encoder` does row by row.

key │ value │ headers         a row
key │ NULL  │ headers         its tombstone, if it is a delete: one offset behind
"""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.model.batch import RECORDS, record_columns
from changefeed.model.table import TableShape
from changefeed.protocols.debezium_mysql import elsewhere, headers
from changefeed.protocols.debezium_mysql.options import Options
from changefeed.protocols.debezium_mysql.rows import is_ours

_HEADERS = RECORDS.field("headers").type
# What differs from row to row, and says nothing of headers.
_PLACE, _CLOCK = r'"(?:file|pos|row|thread|gtid|query|server_id)":(?:"[^"]*"|-?\d+),', r'"envelope":\{[^}]*\},'


def records(
    shape: TableShape, rows: pa.RecordBatch, keys: pa.Array | None, values: pa.Array, options: Options
) -> pa.RecordBatch:
    """The records of rows, with a column `ordinal`."""
    renamed = options.topic_prefix is not None and not is_ours(shape.wire)
    topic = pa.repeat(elsewhere.schema_name(shape, options), len(rows)) if renamed else rows.column("topic")
    batch = record_columns(
        len(rows),
        topic=topic,
        partition=rows.column("partition"),
        offset=rows.column("offset"),
        key=pa.nulls(len(rows), pa.binary()) if keys is None else keys,
        value=values,
        headers=_headers(shape, rows.column("origin"), options),
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


def _headers(shape: TableShape, origin: pa.Array, options: Options) -> pa.Array:
    """The headers that origins tell by their context: the origins of a batch tell few."""
    said = pc.if_else(pc.match_substring(origin, '"context"'), origin, pa.scalar(None, pa.string()))
    if said.null_count == len(said):
        return pa.array([[]] * len(said), _HEADERS)
    said = pc.replace_substring_regex(pc.replace_substring_regex(said, _PLACE, ""), _CLOCK, "").dictionary_encode()
    found: list[list[dict[str, object]]] = []
    for text in said.dictionary.to_pylist():
        told = json.loads(text)
        told = told if is_ours(shape.wire) else elsewhere.source(told, options)
        found.append([{"key": name, "value": data} for name, data in headers.write(told)])
    nothing = pa.scalar(len(found), said.indices.type)
    return pa.array([*found, []], _HEADERS).take(pc.coalesce(said.indices, nothing))
