"""Bounds, and the errors of records that exceed them; the conformance suite has the bombs."""

from __future__ import annotations

import pytest

from changefeed.columnar.families import LIMIT
from changefeed.model.batch import record_batch
from changefeed.protocols.tencent_dts.shapes import Described, Family
from changefeed.wire.protobuf import sized
from tests.protocols.tencent_dts.records import (
    ID,
    data_of,
    decoder,
    dml,
    entry,
    envelope,
    inserted,
    number,
    record,
    string,
)

MIB = 1024 * 1024
NESTED = b"x"
for _ in range(1000):
    NESTED = sized(4, NESTED)
COLUMNS = sized(1, sized(1, b"\x18\x02") + sized(2, sized(2, b"\x12\0" * (MIB // 2))))
PAIRS = sized(1, sized(1, b"\x18\x02" + b"\x7a\0" * (MIB // 2)) + sized(2, sized(2, b"")))
VALUES = sized(
    1, sized(1, b"\x18\x02") + sized(2, sized(2, b"\x12\x02\x0a\0\x1a" + b"\x80\x80\x40" + b"\x12\0" * (MIB // 2)))
)


@pytest.mark.parametrize(
    "value, error",
    [
        (envelope(b"\x0a\0" * (MIB // 2)), "Entries has more than 65536 items at byte 131080"),
        (
            envelope(b"\x0a\0" * 60_000),
            "more than 100 entries cannot be read, the last: the entry has neither header nor event",
        ),
        (envelope(COLUMNS), "DMLEvent has more than 4096 columns"),
        (envelope(PAIRS), "Header has more than 32 properties"),
        (envelope(VALUES), "RowChange has more than 4096 newColumns"),
        (NESTED, "envelope has version 0, expected 1"),
        (envelope(b"", 2**32 - 1, 2**32 - 2), "envelope 4294967295 of 4294967295 has no data"),
        (envelope(data_of(inserted("int", number(3, "9" * MIB)))), f"a number has {MIB} characters"),
        (envelope(data_of(inserted("decimal(65,30)", number(12, "1e999999999")))), None),
        (envelope(data_of(inserted("double", number(10, "0." + "0" * 1000 + "1e999999999")))), None),
        (envelope(data_of(inserted("enum(" + "'" * MIB, string(b"x")))), None),
        (envelope(data_of(inserted("decimal(" + "9" * MIB + ")", string(b"x")))), None),
        (envelope(data_of(inserted("int" + "(" * MIB, string(b"x")))), None),
        (envelope(data_of(entry(3, {"ddlEvent": {"sql": "(" * 100_000}}))), None),
        (envelope(data_of(entry(3, {"ddlEvent": {"sql": "CREATE TABLE t (" + "a int," * 100_000}}))), None),
        (envelope(data_of(dml([ID], *({} for _ in range(200_000))))), "DMLEvent has more than 131072 rows"),
    ],
    ids=range(16),
)
def test_a_record_that_exceeds_a_bound_is_named(value: bytes, error: str | None) -> None:
    changes = decoder().decode(record_batch([record(value)]))
    if error is None:
        assert not changes.dead
    else:
        assert f"tencent-dts: {error}" in changes.dead[0].error


def test_shapes_of_one_table_are_bounded() -> None:
    family = Family("shop", "t", (Described("v", "text", False, "{}"),), False, None, None)
    for n in range(LIMIT + 9):
        family.shape([(13, f"charset{n}")])
    assert len(family.shapes) == LIMIT
