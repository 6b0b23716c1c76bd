"""Declared types: the history without schema blocks, with the columns of its DDL, equals the other histories."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from changefeed.columnar.events import Row, in_order
from changefeed.errors import SchemaError
from changefeed.model.event import SchemaChange
from changefeed.model.types import ColumnType
from changefeed.model.values import IrregularError, reader, writer
from changefeed.protocols.ticdc_debezium.redefine import redefine
from tests.protocols.conformance.cases import History, decode, histories

HISTORIES = {str(h).split("/")[-1].split(".jsonl")[0]: h for h in histories() if h.protocol.startswith("ticdc-")}
Redefine = Callable[[ColumnType, ColumnType], Callable[[Any], Any]]
Types = dict[tuple[int | None, str | None], dict[str, ColumnType]]


def defined_at(history: History) -> Types:
    """The columns of each table after each schema change that has columns."""
    changes = [e for e in decode(history).control if isinstance(e, SchemaChange) and e.columns]
    return {(e.commit_ts, e.table): {c.name: c.type for c in e.columns or ()} for e in changes}


def under(types: Types, row: Row) -> dict[str, ColumnType]:
    """The columns of the row's table when it changed."""
    known = [key for key in types if key[1] == row.shape.table and (key[0] or 0) <= (row.commit_ts or 0)]
    return types[max(known, key=lambda key: key[0] or 0)]


def canonical_rows(history: History, types: Types, to: Redefine) -> list[str]:
    """Every row's images under the definition at its commit_ts, in an order that all histories share."""
    texts = []
    for row in in_order(decode(history)):
        if isinstance(row, Row):
            defined = under(types, row)
            images = [
                None
                if image is None
                else {n: redefined(to, row.shape.by_name[n].type, defined[n], v) for n, v in sorted(image.items())}
                for image in (row.before, row.after)
            ]
            texts.append(json.dumps([row.shape.table, row.commit_ts, row.op, images]))
    return sorted(texts)


def redefined(to: Redefine, inferred: ColumnType, defined: ColumnType, value: Any) -> Any:
    if value is None:
        return None
    shown = writer(defined)(to(inferred, defined)(value))
    return float(shown) if defined.name == "decimal" else shown


def from_open(inferred: ColumnType, defined: ColumnType) -> Callable[[Any], Any]:
    """Converts values of Open Protocol to a declared type: by their canonical text, except members and decimals."""
    members = ("", *(defined.members or ()))
    if inferred.name == "enum":
        return lambda index: members[index]
    if inferred.name == "set":
        return lambda bits: ",".join(m for place, m in enumerate(members[1:]) if bits >> place & 1)
    return lambda value: reader(defined)(writer(inferred)(value))


@pytest.mark.heavy
def test_all_histories_are_the_same_under_their_definitions() -> None:
    types = defined_at(HISTORIES["dbz-noschema.newarch"])
    bare = canonical_rows(HISTORIES["dbz-noschema.newarch"], types, redefine)
    assert len(bare) == 4629
    assert bare == canonical_rows(HISTORIES["dbz-schema.classic"], types, redefine)
    assert bare == canonical_rows(HISTORIES["open-3.newarch"], types, from_open)


@pytest.mark.parametrize(
    "inferred, defined, value, expected",
    [
        ("bigint", "bigint unsigned", -1, 18446744073709551615),
        ("bigint", "bigint unsigned", 7, 7),
        ("bigint", "datetime", 1000, "1970-01-01 00:00:01"),
        ("bigint", "datetime(4)", 1000, "1970-01-01 00:00:00.0010"),
        ("bigint", "time(3)", -1_500_000, "-00:00:01.500"),
        ("bigint", "time", 1_000_000, "00:00:01"),
        ("bigint", "date", -1, "1969-12-31"),
        ("bigint", "decimal(12,2)", 3, "3.00"),
        ("double", "decimal(12,2)", 2.5, "2.50"),
        ("double", "float", 0.1, 0.1),
        ("bigint", "double", 3, 3.0),
        ("decimal", "decimal(38,10)", "2766810929277971700000", "2766810929277971700000.0000000000"),
        ("text", "varbinary(9)", "AAE=", {"base64": "AAE="}),
        ("text", "bit(10)", "AQE=", 257),
        ("bit(1)", "bit(1)", 1, 1),
        ("text", "timestamp(3)", "2026-01-02T03:04:05.100Z", "2026-01-02T03:04:05.100Z"),
        ("text", "vector", "[1,2.5]", [1.0, 2.5]),
        ("text", "enum('a','b')", "b", "b"),
        ("smallint", "tinyint unsigned", 255, 255),
        ("datetime(3)", "datetime", 1_000_000, "1970-01-01 00:00:01"),
        ("time(6)", "time(3)", "-00:00:01.500000", "-00:00:01.500"),
    ],
)
def test_a_value_is_converted_to_its_declared_type(inferred: str, defined: str, value: Any, expected: Any) -> None:
    t = ColumnType.parse(defined)
    assert writer(t)(redefine(ColumnType.parse(inferred), t)(value)) == expected


@pytest.mark.parametrize(
    "inferred, defined, value, error, message",
    [
        ("double", "decimal(3,2)", 123.5, IrregularError, "'123.50' does not fit decimal(3,2)"),
        ("time(6)", "time(1)", "00:00:01.550000", IrregularError, "'00:00:01.550000' has more than 1 fraction digits"),
        ("text", "varbinary(9)", "AAE", SchemaError, "'AAE' is not base64"),
        ("text", "int", "x", SchemaError, "'x' is not an int"),  # prose: the decoder's message
        ("bigint", "tinyint", 128, SchemaError, "128 is not a tinyint"),
    ],
)
def test_a_value_that_its_declared_type_cannot_have_is_an_error(
    inferred: str, defined: str, value: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        redefine(ColumnType.parse(inferred), ColumnType.parse(defined))(value)
    assert str(caught.value) == message
