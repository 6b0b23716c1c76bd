"""The kernel for tencent-dts against the reference: values of every type, marks, and records that make groups."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from changefeed import kernel, record_log
from changefeed.kernel_groups import Grouped
from changefeed.model.batch import Decoded, record_batch
from changefeed.protocols.base import FragmentDecoder
from tests.kernel.agreement import Both
from tests.protocols.conformance.cases import DATA
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

NAMES = ("one-partition", "four-partitions-split")
HISTORY_ROWS = 4584
POINT = b"\xe6\x10\0\0wkb"


class Grouping(Both):
    """Both, of tencent-dts; what waits is the same, too."""

    def __init__(self, **options: Any) -> None:
        super().__init__("tencent-dts")
        named = {name: str(value) for name, value in options.items()}
        self.reference = kernel.decoder("tencent-dts", named, kernel="off")
        self.pair = kernel.decoder("tencent-dts", named, kernel="on")
        assert isinstance(self.pair, Grouped)

    def decode(self, records: pa.RecordBatch) -> Decoded:
        found = super().decode(records)
        assert isinstance(self.reference, FragmentDecoder)
        assert isinstance(self.pair, FragmentDecoder)
        assert self.pair.waiting().equals(self.reference.waiting())
        return found

    def odd_of(self, *records: dict[str, Any]) -> int:
        """How many of some records are odd."""
        before = self.odd
        self.decode(record_batch(records))
        return self.odd - before


def log(name: str) -> pa.RecordBatch:
    return (
        pa.Table.from_batches(record_log.read(DATA / "shop" / "tencent-dts" / f"{name}.jsonl.gz"))
        .combine_chunks()
        .to_batches()[0]
    )


def counted(values: list[bytes], first: int = 1, **more: Any) -> list[dict[str, Any]]:
    """Plain records with these values."""
    return [record(value, at, at, **more) for at, value in enumerate(values, first)]


def plain(*entries: Any) -> bytes:
    return envelope(data_of(*entries))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [9, 500, 10_000])
def test_kernel_and_reference_agree_on_a_history_in_batches_of(name: str, size: int) -> None:
    records, both = log(name), Grouping()
    found = [both.decode(records.slice(at, size)) for at in range(0, len(records), size)]
    assert sum(len(table) for decoded in found for table in decoded.tables) == HISTORY_ROWS
    assert not any(decoded.dead for decoded in found)


@pytest.mark.parametrize("name", NAMES)
def test_once_the_shapes_are_known_only_control_records_are_odd(name: str) -> None:
    records, both = log(name), Grouping()
    both.decode(records)
    unnumbered = records.set_column(7, "headers", pa.array([[]] * len(records), records.schema.field("headers").type))
    before = both.odd
    again = both.decode(unnumbered)
    alone = [event for event in again.control if type(event).__name__ in ("SchemaChange", "Heartbeat")]
    assert both.odd - before == len(alone)


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
    ("text", string(b"caf\xe9", "latin1"), False),
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
    assert both.odd_of(*records[2:]) == (0 if taken else 3)


@pytest.mark.parametrize("text", ["-1", "9223372036854775808"])
def test_bits_that_are_written_without_sign(text: str) -> None:
    both = Grouping(bit64_signed="false")
    records = counted([plain(inserted("bit(64)", number(4, text)))] * 2)
    both.decode(record_batch(records[:1]))
    assert both.odd_of(*records[1:]) == (text == "-1")


def test_a_null_joins_the_first_shape_whatever_came_before_it() -> None:
    utf8, latin1, null = (plain(inserted("text", one)) for one in (string(b"x"), string(b"x", "latin1"), NIL))
    both = Grouping()
    records = counted([latin1, utf8, null, utf8, latin1, null])
    both.decode(record_batch(records[:2]))
    assert both.odd_of(*records[2:]) == 0


def test_a_null_may_join_a_shape_that_the_kernel_does_not_have() -> None:
    utf16, utf8, null = (plain(inserted("text", one)) for one in (string(b"\0x", "utf16"), string(b"x"), NIL))
    both = Grouping()
    records = counted([utf16, utf8, null, utf8, null])
    both.decode(record_batch(records[:2]))
    assert both.odd_of(*records[2:]) == 3


def test_tables_in_one_envelope_are_read_by_their_own_columns() -> None:
    def of(table: str, columns: list[tuple[str, str, bool]], n: int) -> Any:
        made = dml(columns, {"newColumns": [number(3, str(n))] * len(columns)})
        made.header.tableName = table
        return made

    narrow, wide = [ID], [ID, ("v", "int", False)]
    value = plain(*(of(table, columns, n) for n in range(3) for table in "ab" for columns in (narrow, wide)))
    both = Grouping()
    assert both.odd_of(*counted([value] * 3)) == 0


def test_what_type_texts_of_postgres_mean_is_the_references() -> None:
    column, both = [("v", "bigint", False)], Grouping()
    made = [plain(dml(column, {"newColumns": [number(3, "7")]}, sourceType=source)) for source in (2, 1)]
    both.decode(record_batch(counted(made * 4)))
    assert both.odd_of(*counted(made * 4, 9)) == 4


_BEGIN = {"beginEvent": {"threadId": 7}}
_HEADERS = {"serverId": 1001, "fileName": "bin.7", "position": 844, "eventIndex": 3, "version": 1}


@pytest.mark.parametrize(
    "made, odd",
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
        (entry(1, {"beginEvent": {}}), 1),
        (entry(1, {}), 1),
        (entry(4, {"rollbackEvent": {}}), 1),
        (entry(3, {"ddlEvent": {"sql": "create table t (id int)"}}), 1),
        (checkpoint(3), 1),
    ],
)
def test_marks(made: Any, odd: int) -> None:
    both = Grouping()
    assert both.odd_of(*counted([plain(made), plain(made, made)])) == 2 * odd


def test_an_odd_entry_leaves_nothing_of_its_envelope_behind() -> None:
    good = inserted("int", number(3, "7"))
    both = Grouping()
    both.decode(record_batch(counted([plain(good)])))
    mixed = plain(entry(0, _BEGIN), good, good, inserted("int", number(3, "+7")), entry(1, {"commitEvent": {}}))
    assert both.odd_of(*counted([plain(good), mixed, plain(good), mixed], 2)) == 2


def test_rows_of_an_entry_have_their_numbers() -> None:
    made = plain(dml([ID], *({"newColumns": [number(3, str(n))]} for n in range(20))))
    both = Grouping()
    both.decode(record_batch(counted([made])))
    assert both.odd_of(*counted([made] * 2, 2)) == 0


def _lanes() -> Iterator[tuple[str, list[dict[str, Any]], int]]:
    """Records after one with ps 1 and offset 1; how many of them are odd."""
    value = plain(inserted("int", number(3, "7")))
    big = data_of(dml([ID, ("v", "int", False)], *({"newColumns": [number(3, str(n)), NIL]} for n in range(20))))
    group = split(big, 100, 2, 2)
    behind = 2 + len(group)
    yield "in order", counted([value] * 3, 2), 0
    yield "a repetition", [*counted([value] * 2, 2), *counted([value] * 4, 2)], 0
    yield "a gap", [*counted([value] * 2, 2), *counted([value] * 2, 7)], 1
    yield "no ps", [record(value, 2), record(value, 3)], 0
    yield "a ps that is none", [record(value, 2, headers=[{"key": "ps", "value": b"x"}])], 1
    yield "zeros in front", [record(value, 2, headers=[{"key": "ps", "value": b"02"}])], 0
    yield "other headers", [record(value, 2, headers=[{"key": "a", "value": None}])], 0
    yield "two ps", [record(value, 2, headers=[{"key": "ps", "value": b"2"}] * 2)], 1
    yield "a key", [record(value, 2, 2, key=b"k")], 0
    yield "partitions", [record(value, at, at - at // 4 * 4 + 1, partition=at // 4) for at in range(4, 20)], 0
    yield "shards", [record(value, at, at // 2 + 1, shard=b"s%d" % (at % 2)) for at in range(10)], 0
    yield "a shard begins again", [record(value, at, at % 3 + 1, shard=b"s") for at in range(9)], 0
    yield "a strange shard", [record(value, at, at, shard=b'\xff"') for at in range(2, 5)], 0
    yield "a group", [*group, *counted([value] * 2, behind)], 0
    yield "a group that waits", [*counted([value], 2), *split(big, 100, 3, 3)[:2]], 0
    yield "a group that is broken", [*group[:2], *counted([value] * 2, 4)], 1
    yield "a gap inside of a group", [*group[:1], *group[2:], *counted([value], behind)], len(group) - 2
    yield "total 0", [record(value.replace(b"\x10\x01", b"", 1), 2, 2)], 0
    yield "an odd group", [*split(big + data_of(checkpoint(7)), 100, 2, 2)], 1
    yield "no value", [record(None, 2, 2)], 1
    yield "no data", [record(envelope(b""), 2, 2)], 1
    yield "another version", [record(envelope(data_of(), version=2), 2, 2)], 1


@pytest.mark.parametrize("batches", [1, 2, 100])
@pytest.mark.parametrize("name, records, odd", list(_lanes()), ids=[name for name, *_ in _lanes()])
def test_records_follow_each_other_with(name: str, records: list[dict[str, Any]], odd: int, batches: int) -> None:
    both = Grouping()
    both.decode(record_batch(counted([plain(inserted("int", number(3, "7")))])))
    size = max(1, len(records) // batches)
    before = both.odd
    for at in range(0, len(records), size):
        both.decode(record_batch(records[at : at + size]))
    assert both.odd - before == odd


def test_a_gap_that_is_warned_of_goes_on() -> None:
    value = plain(inserted("int", number(3, "7")))
    both = Grouping(on_gap="warn")
    both.decode(record_batch(counted([value])))
    assert both.odd_of(*counted([value] * 2, 5), *counted([value] * 2, 9)) == 0


@pytest.mark.parametrize("options", [{"max_data_bytes": "40"}, {"max_group_bytes": "40"}])
def test_records_beyond_a_bound_are_not_plain(options: dict[str, str]) -> None:
    both = Grouping(**options)
    both.decode(record_batch(counted([plain(inserted("int", number(3, "7")))] * 5)))


def test_shapes_beyond_the_limit_are_forgotten_but_not_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "_MAX_SHAPES", 10)
    both, ps = Grouping(), 1
    for n in range(30):
        big = data_of(dml([ID, (f"v{n}", "int", False)], *({"newColumns": [number(3, "1"), NIL]} for _ in range(9))))
        group = split(big, 100, ps, ps)
        both.decode(record_batch(group[:1]))
        both.decode(record_batch(group[1:]))
        ps += len(group)
        assert len(both.pair._seen) <= 11
    assert both.odd == 0


Mutation = Callable[[random.Random, bytes], bytes]


def _flip(r: random.Random, data: bytes) -> bytes:
    at = r.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << r.randrange(8))]) + data[at + 1 :]


def _cut(r: random.Random, data: bytes) -> bytes:
    start, end = sorted(r.choices(range(len(data) + 1), k=2))
    return data[:start] + data[min(end, start + 8) :]


def _digit(r: random.Random, data: bytes) -> bytes:
    places = [at for at, byte in enumerate(data) if 48 <= byte <= 57]
    at = r.choice(places or [0])
    return data[:at] + b"%d" % r.randrange(10) + data[at + 1 :]


def _insert(r: random.Random, data: bytes) -> bytes:
    at = r.randrange(len(data) + 1)
    return data[:at] + r.choice([b"\0", b"\x80", b"\x08\x01", b"\x12\0", b"\x0a\0", b"\x7a\0", b"\xff"]) + data[at:]


_MUTATIONS: list[Mutation] = [_flip, _digit, _digit, _cut, _insert]


def test_kernel_and_reference_agree_on_mutated_envelopes() -> None:
    r, both = random.Random(3), Grouping(on_gap="warn")
    values = [value for value in log("one-partition").column("value").to_pylist() if len(value) < 3_000]
    dead = ps = 0
    for _ in range(20):
        made = [_in_data(r, r.choice(values)) for _ in range(100)]
        dead += len(both.decode(record_batch(counted(made, ps + 1))).dead)
        ps += len(made)
    assert dead > 500
    assert both.odd < 2_000, "some changes leave a sound row, which is the kernel's"


def _in_data(r: random.Random, value: bytes) -> bytes:
    """The value with its data mutated, and an envelope around it that is sound."""
    start = 6 if value[5] < 0x80 else 7
    return envelope(r.choice(_MUTATIONS)(r, value[start:]) or b"\0")
