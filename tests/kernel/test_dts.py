"""The kernel for tencent-dts against the reference: values of every type, marks, and envelopes unmatched in part."""

from __future__ import annotations

from typing import Any

import pytest

from changefeed.model.batch import record_batch
from tests.kernel.grouping import Grouping, counted, plain
from tests.protocols.tencent_dts.records import (
    ID,
    NA,
    NIL,
    checkpoint,
    data_of,
    dml,
    entry,
    envelope,
    inserted,
    number,
    record,
    split,
    string,
)

POINT = b"\xe6\x10\0\0wkb"
# One value of each type and form that the kernel takes, and whether it takes it.
_TAKEN: list[tuple[str, dict[str, Any], bool]] = [
    ("tinyint", number(1, "-128"), True),
    ("tinyint(1)", number(1, "1"), True),
    ("tinyint unsigned", number(5, "255"), True),
    ("smallint", number(2, "-32768"), True),
    ("mediumint", number(3, "8388607"), True),
    ("mediumint", number(3, "8388608"), False),
    ("mediumint unsigned", number(7, "16777215"), True),
    ("int(11)", number(3, "+5"), False),
    ("int(11)", number(3, "05"), False),
    ("int(11)", number(3, "-0"), False),
    ("int(10) unsigned zerofill", number(7, "5"), True),
    ("INT", number(3, "7"), True),
    ("int", number(4, "7"), True),
    ("bigint", number(4, "-9223372036854775808"), True),
    ("bigint unsigned", number(8, "18446744073709551615"), True),
    ("bigint unsigned", number(8, "18446744073709551616"), False),
    ("year", number(4, "2155"), True),
    ("year", number(4, "0"), True),
    ("year", number(4, "0000"), False),
    ("bit(8)", number(4, "255"), True),
    ("bit(8)", number(4, "256"), False),
    ("bit(64)", number(4, "-1"), True),
    ("bit(64)", number(4, "9223372036854775808"), False),
    ("bit(64)", number(4, "-9223372036854775808"), True),
    ("float", number(9, "0.1"), True),
    ("float", number(9, "1e+21"), True),
    ("float", number(9, "1.0"), False),
    ("float", number(9, "Inf"), False),
    ("double", number(10, "12.836240950403488"), True),
    ("double", number(10, "1e-07"), True),
    ("double", number(10, "1e-7"), False),
    ("double", number(10, "-0"), True),
    ("decimal(5,2)", number(12, "-123.45"), True),
    ("decimal(5,2)", number(12, "0.05"), True),
    ("decimal(5,2)", number(12, "-0.00"), False),
    ("decimal(5,2)", number(12, "1234.00"), False),
    ("decimal(5,2)", number(12, "1.5e1"), False),
    ("decimal(5,5)", number(12, "0.12345"), True),
    ("decimal(5)", number(12, "12345"), True),
    ("decimal(38,10)", number(12, "-" + "9" * 28 + "." + "9" * 10), True),
    ("decimal(65,30)", number(12, "-" + "9" * 35 + "." + "9" * 30), True),
    ("decimal", number(12, "12.50"), True),
    ("char(3)", string(b""), True),
    ("varchar(9)", string("naïve 北京 🐟".encode(), "utf8mb4"), True),
    ("varchar(9)", string(b"\xff", "utf8mb4"), False),
    ("varchar(9)", string(b"x", "utf8mb4_general_ci"), True),
    ("text", string(b"plain", "latin1"), True),
    ("text", string(bytes(range(1, 256)), "latin1"), True),
    ("enum('caf\xe9')", string(b"caf\xe9", "latin1_swedish_ci"), True),
    ("text", string(b"caf\xe9", "latin2"), False),
    ("text", string(b"caf\xe9", "ascii"), False),
    ("text", string("中".encode("gbk"), "gbk"), False),
    ("text", string("x".encode("utf-16-be"), "utf16"), False),
    ("text", string(b"x", "klingon"), True),
    ("text", string(b"x", "binary"), True),
    ("text", string(b"x", ""), True),
    ("longtext", {"dataType": 11, "bv": b"x"}, True),
    ("longtext", {"dataType": 11, "bv": b"x", "charset": "utf8"}, False),
    ("enum('a','b,c')", string(b"b,c"), True),
    ("enum('a','2')", string(b"2"), False),
    ("enum('a')", string(b""), True),
    ("set('a','b')", string(b"a,b"), True),
    ("set('a','b')", string(b"3"), False),
    ("date", string(b"2026-01-02"), True),
    ("date", string(b"0000-00-00"), False),
    ("time(3)", string(b"-838:59:59.000"), True),
    ("time", string(b"839:00:00"), False),
    ("datetime", string(b"2026-01-02 03:04:05"), True),
    ("datetime(3)", string(b"2026-01-02 03:04:05.100"), True),
    ("datetime(3)", string(b"2026-01-02 03:04:05"), False),
    ("datetime", string(b"2026-01-02T03:04:05"), False),
    ("timestamp(6)", string(b"2026-01-02 03:04:05.123456 +00:00"), True),
    ("timestamp", string(b"2026-01-02 03:04:05 +00:00"), True),
    ("timestamp", string(b"2026-01-02 03:04:05 +08:00"), False),
    ("timestamp", string(b"2026-01-02 03:04:05"), False),
    ("binary(2)", {"dataType": 11, "bv": b"\0\xff"}, True),
    ("varbinary(2)", string(b"\xff", "binary"), True),
    ("blob", {"dataType": 11}, True),
    ("json", {"dataType": 11, "bv": b'{"a": 1}'}, True),
    ("json", {"dataType": 11, "bv": b"\xff"}, False),
    ("point", {"dataType": 11, "bv": POINT}, True),
    ("geometry", {"dataType": 11, "bv": b"abc"}, False),
    ("nonsense", number(3, "7"), True),
    ("nonsense", NIL, False),
    ("vector(3)", string(b"[1]"), True),
    ("int", NA, False),
    ("int", NIL, True),
]  # fmt: skip


@pytest.mark.parametrize("original, data, taken", _TAKEN)
def test_values_of(original: str, data: dict[str, Any], taken: bool) -> None:
    both = Grouping()
    first, other = (plain(inserted(original, one)) for one in (data, NIL))
    records = counted(
        [
            first,
            other,
            first,
            plain(dml([ID, ("v", original, False)], {"oldColumns": [number(3, "1"), data]}, op=2)),
            first,
        ]
    )
    both.decode(record_batch(records[:2]))
    assert both.unmatched_of(*records[2:]) == (0 if taken else 3)


@pytest.mark.parametrize("text", ["-1", "9223372036854775808"])
def test_bits_that_are_written_without_sign(text: str) -> None:
    both = Grouping(bit64_signed="false")
    records = counted([plain(inserted("bit(64)", number(4, text)))] * 2)
    both.decode(record_batch(records[:1]))
    assert both.unmatched_of(*records[1:]) == (text == "-1")


def test_a_null_joins_the_first_shape_whatever_came_before_it() -> None:
    utf8, latin1, null = (plain(inserted("text", one)) for one in (string(b"x"), string(b"x", "latin1"), NIL))
    both = Grouping()
    records = counted([latin1, utf8, null, utf8, latin1, null])
    both.decode(record_batch(records[:2]))
    assert both.unmatched_of(*records[2:]) == 0


def test_a_null_may_join_a_shape_that_the_kernel_does_not_have() -> None:
    utf16, utf8, null = (plain(inserted("text", one)) for one in (string(b"\0x", "utf16"), string(b"x"), NIL))
    both = Grouping()
    records = counted([utf16, utf8, null, utf8, null])
    both.decode(record_batch(records[:2]))
    assert both.unmatched_of(*records[2:]) == 3


def test_a_null_joins_no_shape_of_dead_rows() -> None:
    utf8, null = (plain(inserted("text", one)) for one in (string(b"x"), NIL))
    columns = [ID, ("v", "text", False)]
    changes = [{"newColumns": [number(3, text), string(b"x", "latin1")]} for text in ("1", "one")]
    both = Grouping()
    both.decode(record_batch(counted([plain(dml(columns, *changes)), utf8, null, utf8])))
    assert both.unmatched == 2


@pytest.mark.parametrize("rest", [b"\x08\x05", b"\x0a\x05", b"\x10"], ids=["no entry", "cut", "a tag alone"])
def test_a_null_joins_no_shape_of_a_group_that_is_dead(rest: bytes) -> None:
    latin1, null, utf8 = (inserted("text", one) for one in (string(b"x", "latin1"), NIL, string(b"x")))
    dead = envelope(data_of(entry(0, _BEGIN), latin1) + rest)
    both = Grouping()
    answer = both.decode(record_batch(counted([dead, plain(null), plain(utf8)])))
    assert len(answer.dead) == 1
    both.decode(record_batch(counted([plain(null), plain(utf8)], first=4)))


def test_column_without_name_and_type_is_a_column() -> None:
    """The column's description is empty. Rows of a table without the column must not join its shapes."""
    row = {"newColumns": [number(3, "1"), string(b"x")]}
    both = Grouping()
    named, nameless = (plain(dml([ID, *more], row)) for more in ([], [("", "", False)]))
    both.decode(record_batch(counted([nameless, nameless])))
    assert both.unmatched == 1
    changes = both.decode(record_batch(counted([named], first=3)))
    assert [letter.reason for letter in changes.dead] == ["schema"]


def test_tables_in_one_envelope_are_read_by_their_own_columns() -> None:
    def of(table: str, columns: list[tuple[str, str, bool]], n: int) -> Any:
        made = dml(columns, {"newColumns": [number(3, str(n))] * len(columns)})
        made.header.tableName = table
        return made

    narrow, wide = [ID], [ID, ("v", "int", False)]
    value = plain(*(of(table, columns, n) for n in range(3) for table in "ab" for columns in (narrow, wide)))
    both = Grouping()
    assert both.unmatched_of(*counted([value] * 3)) == 0


def test_type_texts_of_postgres_are_decoded_by_the_reference() -> None:
    column, both = [("v", "bigint", False)], Grouping()
    made = [plain(dml(column, {"newColumns": [number(3, "7")]}, sourceType=source)) for source in (2, 1)]
    both.decode(record_batch(counted(made * 4)))
    assert both.unmatched_of(*counted(made * 4, 9)) == 4


_BEGIN = {"beginEvent": {"threadId": 7}}
_HEADERS = {"serverId": 1001, "fileName": "bin.7", "position": 844, "eventIndex": 3, "version": 1}


@pytest.mark.parametrize(
    "made, unmatched",
    [
        (entry(0, _BEGIN), 0),
        (entry(0, _BEGIN, **_HEADERS), 0),
        (entry(0, {"beginEvent": {"transactionId": "x"}}, gtid="", schemaName="shop", tableName="t"), 0),
        (entry(0, _BEGIN, serverId=-1, timestamp=0), 0),
        (entry(0, {"beginEvent": {"threadId": -7}}), 1),
        (entry(0, _BEGIN, fileName='"'), 1),
        (entry(0, _BEGIN, fileName="ü\u2028"), 0),
        (entry(0, _BEGIN, isLast=False), 1),
        (entry(0, _BEGIN, properties=[{"key": "k", "value": "v"}]), 1),
        (entry(1, {"commitEvent": {"transactionId": "9"}}), 0),
        (entry(1, {"commitEvent": {}}), 0),
        (entry(1, {}), 1),
        (entry(3, {"ddlEvent": {"sql": "create table t (id int)"}}), 1),
        (checkpoint(3), 1),
    ],
)
def test_marks(made: Any, unmatched: int) -> None:
    both = Grouping()
    assert both.unmatched_of(*counted([plain(made), plain(made, made)])) == unmatched
    assert both.unmatched_of(*counted([plain(made, made)] * 3, 3)) == 0


_GOOD = inserted("int", number(3, "7"))
_PLUS = inserted("int", number(3, "+7"))
_DEAD = inserted("int", number(3, "seven"))
_ROLLBACK = entry(4, {"rollbackEvent": {}})


@pytest.mark.parametrize(
    "entries, unmatched",
    [
        ([_GOOD, _PLUS, _GOOD], 0),
        ([_PLUS, entry(0, _BEGIN), _GOOD, _PLUS, _PLUS], 0),
        ([_GOOD, inserted("text", string(b"x")), _PLUS, inserted("text", NIL)], 0),
        ([_GOOD, inserted("text", string("中".encode("gbk"), "gbk")), inserted("text", NIL), _GOOD], 0),
        ([checkpoint(3), _GOOD], 0),
        ([_GOOD, entry(3, {"ddlEvent": {"sql": "drop table t"}}), _GOOD], 0),
        ([_GOOD, *[_PLUS] * 70], 1),
        ([_GOOD, _DEAD, _PLUS], 1),
        ([_PLUS, _GOOD, _DEAD], 1),
        ([_GOOD, _ROLLBACK], 1),
        ([_ROLLBACK, _GOOD, _ROLLBACK], 1),
        ([_ROLLBACK], 1),
        ([_PLUS], 1),
        ([_DEAD], 1),
        ([entry(1, {"beginEvent": {}}), _GOOD], 1),
    ],
)
def test_unmatched_entries_of_an_envelope_are_decoded_by_the_reference(entries: list[Any], unmatched: int) -> None:
    both, value = Grouping(), data_of(*entries)
    both.decode(record_batch(counted([plain(_GOOD)])))
    assert both.unmatched_of(record(envelope(value), 2, 2), *counted([plain(_GOOD)], 3)) == unmatched
    assert both.unmatched_of(*split(value, 100, 4, 4)) == unmatched


def test_rows_of_an_entry_have_their_numbers() -> None:
    made = plain(dml([ID], *({"newColumns": [number(3, str(n))]} for n in range(20))))
    both = Grouping()
    both.decode(record_batch(counted([made])))
    assert both.unmatched_of(*counted([made] * 2, 2)) == 0
