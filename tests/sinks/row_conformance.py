"""The cases of `conformance.py` about each kind of write, and the rows that a table then has."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from changefeed.errors import SinkError
from changefeed.model.types import ColumnType
from changefeed.sinks.base import TableSink
from changefeed.sinks.writes import (  # fmt: skip
    AddColumns,
    Append,
    Constant,
    ConvertedFrom,
    Copy,
    Create,
    Import,
    IrregularUpdate,
    Load,
    Null,
    Restore,
    Rewrite,
    Touch,
    Upsert,
    WriteId,
)
from tests.sinks.contract import (
    LOG,
    ONE,
    ORDERS,
    PATH,
    TWO,
    Harness,
    Row,
    apply,
    changed,
    commit_count,
    loaded,
    revision,
    sorted_rows,
    table,
    write,
)  # fmt: skip

# A table with a column of most kinds, and two rows with values that a less exact type would change.
KINDS = table(
    "*shop int", "*number varchar(10)", "counter bigint unsigned", "amount decimal(30,10)", "ratio double", "raw varbinary(20)",
    "day date", "wall datetime(6)", "moment timestamp(6)", "flag tinyint(1)", "doc json", "kind enum('a','b')",
    name="kinds",
)  # fmt: skip
FIRST: Row = {
    "shop": 1, "number": "A", "counter": Decimal(2**64 - 1), "amount": Decimal("12345678901234567890.0123456789"),
    "ratio": 0.1, "raw": b"\x00\xff\xfe", "day": date(1000, 1, 1), "wall": datetime(2026, 1, 31, 8, 0, 0, 123456),
    "moment": datetime(2026, 1, 31, 8, 0, 0, 654321, UTC), "flag": 1, "doc": '{"a": "\u00e4"}', "kind": "b",
}  # fmt: skip
SECOND: Row = {**dict.fromkeys(FIRST), "shop": 1, "number": "B", "amount": Decimal("-0.0000000001"), "raw": b""}


def _same(*columns: str) -> tuple[ConvertedFrom, ...]:
    """The expressions of columns of `ORDERS` that keep their values."""
    kinds = {column.name: column.type for column in ORDERS.columns}
    return tuple(ConvertedFrom(column=name, type=kinds[name]) for name in columns)


def _written(sink: TableSink, kind: Any) -> None:
    """Makes one write of a kind to the table of `loaded`, in step 3 of epoch 1."""
    fields: dict[str, Any] = {}
    match kind.__name__:
        case "Copy":
            apply(sink, write(Load, path="shop/other"), changed(TWO), WriteId(1, 2, 1), "{}")
            fields = {"source": "shop/other"}
        case "Import":
            apply(sink, write(Load, path="shop/other"), changed(TWO), WriteId(1, 2, 1), "{}")
            fields = {"source": sink.location("shop/other")}
        case "Rewrite":
            fields = {"expressions": _same("id", "note", "total")}
        case "Restore":
            fields = {"revision": revision(sink)}
    apply(sink, write(kind, **fields), changed(TWO) if kind in (Load, Upsert) else None, WriteId(1, 3, 1), "{}")


class RowConformance:
    """The tests. A subclass has the fixture `harness`."""

    # Each kind of write.

    def test_create_makes_an_empty_table_in_place_of_any(self, harness: Harness) -> None:
        sink = loaded(harness, ONE)
        apply(sink, write(Create, LOG), None, WriteId(1, 2, 1), "{}")
        there = sink.snapshot(PATH)
        assert there is not None
        assert (there.columns, harness.rows(PATH)) == (("at", "note"), [])

    def test_upsert_updates_inserts_and_deletes_by_key(self, harness: Harness) -> None:
        sink = loaded(harness, ONE, TWO)
        three = {"id": 3, "note": None, "total": Decimal("3.50")}
        changes = changed({**ONE, "note": "new"}, three, deleted=({"id": 2}, {"id": 9}))
        apply(sink, write(Upsert), changes, WriteId(1, 2, 1), "{}")
        assert sorted_rows(harness.rows(PATH)) == [{**ONE, "note": "new"}, three]

    def test_a_partial_upsert_keeps_what_it_does_not_carry(self, harness: Harness) -> None:
        sink = loaded(harness, ONE)
        changes = changed({"id": 1, "note": None}, {"id": 4, "note": "four"}, carried=("id", "note"))
        apply(sink, write(Upsert), changes, WriteId(1, 2, 1), "{}")
        assert sorted_rows(harness.rows(PATH)) == [{**ONE, "note": None}, {"id": 4, "note": "four", "total": None}]

    def test_append_adds_rows_that_are_equal_too(self, harness: Harness) -> None:
        sink, row = harness.sink(), {"at": 1, "note": "same"}
        apply(sink, write(Create, LOG), None, WriteId(1, 1, 1), "{}")
        apply(sink, write(Append, LOG), changed(row, row, of=LOG), WriteId(1, 1, 2), "{}")
        apply(sink, write(Append, LOG), changed(row, of=LOG), WriteId(1, 2, 1), "{}")
        assert harness.rows(PATH) == [row, row, row]

    def test_add_columns_are_null_and_at_their_places(self, harness: Harness) -> None:
        sink = loaded(harness, ONE)
        wider = table("*id int", "added datetime(3)", "note varchar(20)", "total decimal(10,2)", "last int")
        apply(sink, write(AddColumns, wider), None, WriteId(1, 2, 1), "{}")
        there = sink.snapshot(PATH)
        assert there is not None
        assert there.columns == ("id", "added", "note", "total", "last")
        assert harness.rows(PATH) == [{"id": 1, "added": None, "note": "one", "total": Decimal("1.00"), "last": None}]

    def test_rewrite_converts_renames_drops_and_fills(self, harness: Harness) -> None:
        sink = loaded(harness, ONE, TWO)
        after = table("*id bigint", "it's varchar(20)", "new varchar(5)", "nothing date")
        int_, text = ColumnType("int"), ColumnType("varchar", length=20)
        expressions = (
            ConvertedFrom(column="id", type=int_), ConvertedFrom(column="note", type=text), Constant(value="it's \\ ok"), Null(),
        )  # fmt: skip
        apply(sink, write(Rewrite, after, expressions=expressions), None, WriteId(1, 2, 1), "{}")
        there = {"new": "it's \\ ok", "nothing": None}
        assert sorted_rows(harness.rows(PATH)) == [{"id": 1, "it's": "one", **there}, {"id": 2, "it's": "two", **there}]
        assert sink.differences(PATH, after) == []

    def test_the_types_declare_their_conversions(self, harness: Harness) -> None:
        """A sink chooses its conversions, apart from those of a column that stays as it is and of a wider integer."""
        types, int_ = harness.sink().types, ColumnType("int")
        assert types.conversion(int_, int_) == "none"
        assert types.conversion(int_, ColumnType("bigint")) in ("none", "rewrite")
        assert types.sink_type(int_).lossy is None

    def test_copy_and_import_take_the_rows_of_another_table(self, harness: Harness) -> None:
        sink = loaded(harness, ONE)
        apply(sink, write(Copy, path="shop/copied", source=PATH), None, WriteId(1, 2, 1), "{}")
        apply(sink, write(Import, path="shop/other", source=sink.location(PATH)), None, WriteId(1, 2, 1), "{}")
        assert (harness.rows("shop/copied"), harness.rows("shop/other"), harness.rows(PATH)) == ([ONE], [ONE], [ONE])

    def test_restore_brings_a_version_back(self, harness: Harness) -> None:
        sink = loaded(harness, ONE)
        first = revision(sink)
        apply(sink, write(Create, LOG), None, WriteId(1, 2, 1), "{}")
        apply(sink, write(Restore, revision=first), None, WriteId(1, 3, 1), "{}")
        there = sink.snapshot(PATH)
        assert there is not None
        assert (commit_count(sink), there.columns, harness.rows(PATH)) == (3, ("id", "note", "total"), [ONE])

    def test_touch_changes_nothing_and_takes_a_table_over(self, harness: Harness) -> None:
        loaded(harness, ONE)
        other = harness.sink("changefeed:other:2")
        apply(other, write(Touch, table("*x int")), None, WriteId(1, 1, 0), "{}")
        there = other.snapshot(PATH)
        assert there is not None
        assert (there.columns, harness.rows(PATH)) == (("id", "note", "total"), [ONE])
        assert (there.write_id, len(there.owners)) == (WriteId(1, 1, 0), 2)

    def test_metadata_columns_come_with_the_rows(self, harness: Harness) -> None:
        names = ["_commit_ts", "_op", "_position", "_irregular"]
        sink = loaded(harness, ONE, metadata=names)
        there = sink.snapshot(PATH)
        assert there is not None
        assert there.columns == ("id", "note", "total", *names)
        [row] = harness.rows(PATH)
        assert [row["_commit_ts"], row["_op"], row["_position"], dict(row["_irregular"])] == [
            7,
            "insert",
            "t:0:0:0",
            {"total": "x"},
        ]

    def test_irregular_texts_follow_their_columns_in_a_rewrite(self, harness: Harness) -> None:
        sink = loaded(harness, ONE, metadata=["_irregular"])
        after = table("*id int", "note varchar(20)", "sum decimal(10,2)", "day date")
        kinds = {column.name: column.type for column in ORDERS.columns}
        expressions = (*(ConvertedFrom(column=name, type=kinds[name]) for name in ("id", "note", "total")), Null())
        texts = IrregularUpdate(renamed={"total": "sum"}, added={"day": "0000-00-00"})
        apply(sink, write(Rewrite, after, expressions=expressions, texts=texts), None, WriteId(1, 2, 1), "{}")
        [row] = harness.rows(PATH)
        assert dict(row["_irregular"]) == {"sum": "x", "day": "0000-00-00"}

    def test_names_of_columns_are_data(self, harness: Harness) -> None:
        names = ["a.b", "it's", "back`tick", 'quo"te', "ünï", "select"]
        sink, unusual = harness.sink(), table("*id int", "x int")
        number, x = unusual.columns
        unusual = replace(unusual, columns=(number, *(replace(x, name=name) for name in names)))
        assert sink.refusal(unusual) is None
        row, after = ({"id": 1} | {name: start + i for i, name in enumerate(names)} for start in (0, 10))
        apply(sink, write(Load, unusual), changed(row, of=unusual), WriteId(1, 1, 1), "{}")
        apply(sink, write(Upsert, unusual), changed(after, of=unusual), WriteId(1, 2, 1), "{}")
        assert harness.rows(PATH) == [after]

    # Values and keys.

    def test_values_of_every_kind_come_back(self, harness: Harness) -> None:
        sink, path = harness.sink(), "shop/kinds"
        apply(sink, write(Load, KINDS, path), changed(SECOND, of=KINDS), WriteId(1, 1, 1), "{}")
        apply(sink, write(Upsert, KINDS, path), changed(FIRST, of=KINDS), WriteId(1, 2, 1), "{}")
        assert sorted_rows(harness.rows(path)) == sorted_rows([FIRST, SECOND])

    def test_rows_are_matched_by_all_columns_of_the_key(self, harness: Harness) -> None:
        sink, pairs = harness.sink(), table("*a int", "*b varchar(10)", "v int", name="pairs")
        rows: list[Row] = [{"a": a, "b": b, "v": 0} for a in (1, 2) for b in ("x", "y")]
        apply(sink, write(Load, pairs), changed(*rows, of=pairs), WriteId(1, 1, 1), "{}")
        changes = changed({"a": 1, "b": "y", "v": 5}, of=pairs, deleted=({"a": 2, "b": "x"},))
        apply(sink, write(Upsert, pairs), changes, WriteId(1, 2, 1), "{}")
        left = [{"a": 1, "b": "x", "v": 0}, {"a": 1, "b": "y", "v": 5}, {"a": 2, "b": "y", "v": 0}]
        assert sorted_rows(harness.rows(PATH)) == left

    def test_constants_are_values_of_their_columns(self, harness: Harness) -> None:
        sink = loaded(harness, ONE)
        constants: dict[str, tuple[str, str | dict[str, str], Any]] = {
            "n": ("int", "-12", -12),
            "d": ("decimal(10,2)", "12.50", Decimal("12.50")),
            "f": ("double", "0.5", 0.5),
            "b": ("varbinary(9)", {"base64": "AP8="}, b"\x00\xff"),
            "day": ("date", "2026-01-31", date(2026, 1, 31)),
            "wall": ("datetime(3)", "2026-01-31 08:00:00.5", datetime(2026, 1, 31, 8, 0, 0, 500_000)),
            "moment": ("timestamp", "2026-01-31T08:00:00Z", datetime(2026, 1, 31, 8, tzinfo=UTC)),
        }
        after = table("*id int", *(f"{name} {kind}" for name, (kind, _, _) in constants.items()))
        expressions = (*_same("id"), *(Constant(value=text) for _, text, _ in constants.values()))
        apply(sink, write(Rewrite, after, expressions=expressions), None, WriteId(1, 2, 1), "{}")
        assert harness.rows(PATH) == [{"id": 1} | {name: value for name, (_, _, value) in constants.items()}]

    # Metadata columns.

    def test_times_and_positions_come_with_the_rows(self, harness: Harness) -> None:
        sink, time = harness.sink(metadata=["_commit_time", "_position"]), datetime(2026, 1, 31, 8, tzinfo=UTC)
        apply(sink, write(Load), changed(ONE, _time=time, _offset=None, _index=None), WriteId(1, 1, 1), "{}")
        assert [(row["_commit_time"], row["_position"]) for row in harness.rows(PATH)] == [(time, "t:0")]
        apply(sink, write(Upsert), changed(ONE, _offset=5), WriteId(1, 2, 1), "{}")
        assert [(row["_commit_time"], row["_position"]) for row in harness.rows(PATH)] == [(None, "t:0:5:0")]

    def test_metadata_columns_keep_their_values_in_a_rewrite(self, harness: Harness) -> None:
        sink = loaded(harness, ONE, metadata=["_commit_ts", "_op"])
        rewrite = write(Rewrite, table("*id int"), expressions=_same("id"))
        apply(sink, rewrite, None, WriteId(1, 2, 1), "{}")
        assert harness.rows(PATH) == [{"id": 1, "_commit_ts": 7, "_op": "insert"}]

    def test_a_partial_change_keeps_the_irregular_texts_of_other_columns(self, harness: Harness) -> None:
        sink, texts = loaded(harness, ONE, metadata=["_irregular"]), list[Row]()
        for step, (name, irregular) in enumerate((("note", {"note": "y"}), ("total", {}), ("note", {})), 2):
            changes = changed(ONE, carried=("id", name), _irregular=list(irregular.items()))
            apply(sink, write(Upsert), changes, WriteId(1, step, 1), "{}")
            [row] = harness.rows(PATH)
            texts.append(dict(row["_irregular"] or {}))
        assert texts == [{"total": "x", "note": "y"}, {"note": "y"}, {}]

    # Versions and write ids.

    def test_old_versions_stay_readable_after_every_kind_of_write(self, harness: Harness) -> None:
        sink, wider = loaded(harness, ONE), replace(ORDERS, columns=(*ORDERS.columns, table("x int").columns[0]))
        cuts = [(revision(sink), harness.rows(PATH))]
        expressions = (*_same("id", "note", "total"), Constant(value="9"))
        writes = [
            (write(Upsert), changed({**ONE, "note": "new"}, TWO)),
            (write(Upsert), changed(deleted=({"id": 1},))),
            (write(AddColumns, wider), None),
            (write(Rewrite, wider, expressions=expressions), None),
            (write(Create), None),
        ]
        for step, (each, changes) in enumerate(writes, 2):
            apply(sink, each, changes, WriteId(1, step, 1), "{}")
            cuts.append((revision(sink), harness.rows(PATH)))
        for number, rows in cuts:
            assert sorted_rows(harness.rows(PATH, number)) == sorted_rows(rows)

    @pytest.mark.parametrize("kind", [Create, Load, Copy, Import, Restore, Rewrite, Upsert])
    def test_every_write_keeps_the_write_ids_of_other_pipelines(self, harness: Harness, kind: Any) -> None:
        sink, other = loaded(harness, ONE), harness.sink("changefeed:other:2")
        apply(other, write(Touch), None, WriteId(4, 1, 0), "{}")
        _written(sink, kind)
        own, foreign = sink.snapshot(PATH), other.snapshot(PATH)
        assert own is not None
        assert foreign is not None
        assert (own.write_id, foreign.write_id, len(foreign.owners)) == (WriteId(1, 3, 1), WriteId(4, 1, 0), 2)
        commits = sink.commits(PATH, -1, own.revision)
        assert sum(commit.write_id is not None for commit in commits) == 2, (
            "a commit for each write; compaction has none"
        )

    @pytest.mark.parametrize("kind", [Upsert, Append, AddColumns, Touch])
    def test_a_write_that_needs_a_table_creates_none(self, harness: Harness, kind: Any) -> None:
        sink = harness.sink()
        with pytest.raises(SinkError):
            apply(sink, write(kind), changed(ONE) if kind in (Upsert, Append) else None, WriteId(1, 1, 1), "{}")
        assert (sink.snapshot(PATH), list(sink.tables())) == (None, [])
