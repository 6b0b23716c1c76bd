"""The kernel's classes for the Debezium-shaped protocols: the records that they take, and that they match the reference."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changefeed.codec import decoding
from changefeed.codec.kernel_decoder import KernelDecoder
from changefeed.errors import ConfigError
from changefeed.model.batch import record_batch
from tests.protocols.conformance.cases import History, compiled, decode, histories, lines

SHOP = [h for h in histories() if h.file.startswith("shop/") and "debezium" in h.file]
AVRO = [h for h in histories() if h.protocol == "debezium-mysql" and h.options.get("converter") == "avro"]
# Rows of a history that the kernel leaves to the reference once it has the shapes: integers of more than 64 bits, doubles from
# 1e21 on or half way between two texts; in Avro geometries, isostring times, and labels that are empty or have escapes.
UNMATCHED = {
    "dbz-noschema.newarch": 24,
    "dbz-schema.classic": 39,
    "mariadb-10.11-schema": 0,
    "mysql-8.0.33-noschema": 0,
}
UNMATCHED |= {"avro-made": 8, "mariadb-3.5.0-avro": 73, "mysql-3.6.1-avro": 0, "mariadb-3.5.0-names": 0}
CONTEXT = {"connectorLogicalName": "srv1", "taskId": "0", "connectorName": "mysql", "runId": "a-b"}
SOURCE = {"version": "3.6", "connector": "mysql", "name": "srv1", "ts_ms": 1, "db": "d", "ts_us": 1500, "table": "t"}


@pytest.mark.heavy
@pytest.mark.parametrize("history", SHOP + AVRO, ids=str)
def test_once_the_shapes_are_known_only_control_records_and_few_rows_are_unmatched(history: History) -> None:
    twin = compiled(history)
    assert isinstance(twin, KernelDecoder)
    twin.decode(history.records)
    before, again = twin.unmatched, twin.decode(history.records)
    name = history.file.split("/")[-1].removesuffix(".jsonl.gz")
    assert twin.unmatched - before == len(again.control) + UNMATCHED[name]
    assert lines(again) == lines(decode(history))


def _context(**other: str) -> list[dict[str, Any]]:
    texts = CONTEXT | other
    return [{"key": f"__debezium.context.{n}", "value": json.dumps(text).encode()} for n, text in texts.items()]


def _row(headers: list[dict[str, Any]] | None, source: dict[str, Any] = SOURCE, **columns: Any) -> dict[str, Any]:
    tree = {"before": None, "after": {"id": 7, **columns}, "source": source, "op": "c", "ts_ms": 2}
    value = json.dumps(tree, separators=(",", ":"), ensure_ascii=False).encode()
    return {"key": b'{"id":7}', "value": value, "topic": "t", "partition": 0, "offset": 0, "headers": headers}


def _agree(rows: list[dict[str, Any]], times: Any = 2, **options: str) -> KernelDecoder:
    named = {name.replace("_", "."): value for name, value in options.items()}
    try:
        twin = decoding.decoder("debezium-mysql", named, kernel="on")
    except ConfigError as error:
        pytest.skip(str(error))
    assert isinstance(twin, KernelDecoder)
    for _ in range(times):
        reference = decoding.decoder("debezium-mysql", named, kernel="off")
        assert lines(twin.decode(record_batch(rows))) == lines(reference.decode(record_batch(rows)))
    return twin


def test_headers_are_those_of_the_record_whatever_came_before_it() -> None:
    unmatched = {**_row(_context(taskId="9")), "value": b'{"ts_ms":1}'}
    rows = [_row(_context()), unmatched, _row(_context(taskId="9")), _row([]), _row(None), _row(_context(runId="c"))]
    rows += [_row([{"key": "a", "value": None}, *_context()]), _row([{"key": "a", "value": b"\xff"}]), _row(_context())]
    rows += [_row(_context(connectorName="other")), _row(_context(), SOURCE | {"name": "srv2"}), _row(_context()[:3])]
    _agree(rows * 3)


def test_rows_whose_time_has_other_digits_are_batches_of_their_own() -> None:
    _agree([_row([]), _row([], SOURCE | {"ts_us": None})] * 20)


def test_shapes_are_registered_in_the_order_of_their_rows_whatever_digits_times_have() -> None:
    _agree([_row([], v=None), {**_row([], SOURCE | {"ts_us": None}, v="a"), "offset": 1}])


@pytest.mark.heavy
@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from([{}, {"v": "x"}, {"v": 1}, {"w": 2.5}]), st.booleans()),
        min_size=1,
        max_size=60,
    )
)
def test_tables_with_the_same_columns_keep_their_rows(rows: list[tuple[str, dict[str, Any], bool]]) -> None:
    """Such tables share the kernel's columns."""
    _agree([_row([], SOURCE | {"table": table, "ts_us": 1500 if fine else None}, **more) for table, more, fine in rows])


def test_a_row_without_a_column_is_decoded_by_the_reference() -> None:
    rows = [_row([], v="a"), _row([], v="__debezium_unavailable_value"), _row([], v="Z29uZQ=="), _row([], v="gone")]
    twin = _agree(rows * 5)
    assert twin.unmatched > 10
    _agree(rows * 5, unavailable_value_placeholder="gone")


def test_rows_that_lack_columns_make_no_shape_for_whole_ones() -> None:
    rows = [_row([], v=v, w=w) for v, w in (("__debezium_unavailable_value", None), ("a", "b"), ("a", None))]
    _agree(rows, times=1)


@pytest.mark.parametrize("options", [{"converter": "avro"}, {"schema-registry": "schemas.json"}])
def test_json_where_values_may_be_avro_is_decoded_by_the_reference(options: dict[str, str]) -> None:
    assert _agree([_row([], v="a")] * 20, **options).unmatched == 40


@pytest.mark.parametrize(
    "base, name, time", [("int32", "Time", 2**31), ("int32", "Time", -(2**31)), ("int64", "MicroTime", -(2**63))]
)
def test_a_time_with_another_spelling_is_decoded_by_the_reference(base: str, name: str, time: int) -> None:
    types = {"id": ("int64", ""), "v": (base, f"io.debezium.time.{name}")}
    fields = [{"type": t, "optional": True, "name": n, "field": f} for f, (t, n) in types.items()]
    image = {"type": "struct", "fields": fields, "optional": True}
    source = {"type": "struct", "fields": [{"type": "string", "field": n} for n in SOURCE], "field": "source"}
    around = [{"type": "string", "field": "op"}, {"type": "int64", "field": "ts_ms"}]
    value = {"type": "struct", "fields": [{**image, "field": "before"}, {**image, "field": "after"}, source, *around]}
    rows = [_row([], v=0), _row([], v=time)]
    for at, row in enumerate(rows):
        wrapped = json.dumps(value, separators=(",", ":")).encode(), row["value"]
        row |= {"key": None, "value": b'{"schema":%b,"payload":%b}' % wrapped, "offset": at}
    assert _agree(rows).unmatched == 3


def test_rows_of_a_shape_that_the_kernel_does_not_support_are_decoded_by_the_reference() -> None:
    rows = [_row([], v="1.500"), _row([], v="-0.001"), _row([], v="null")]
    for row in rows:  # not by Python's JSON, which would change the digits
        row["value"] = row["value"].replace(b'"v":"', b'"v":').replace(b'"},"source', b'},"source')
    _agree(rows, decimal_format="NUMERIC")
