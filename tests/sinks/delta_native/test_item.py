"""The work of one task: it skips or rewrites files, and the rows are those of the history; without Spark."""

from __future__ import annotations

import hashlib
import os
import pickle
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from changefeed.errors import SinkError, UnsupportedError
from changefeed.frames.chunks import pack
from changefeed.model.batch import BatchBuilder, Decoded, record_batch
from changefeed.model.definition import Table
from changefeed.model.position import Place
from changefeed.model.table import Column, TableShape
from changefeed.model.types import ColumnType
from changefeed.sinks.apply.files import Limits
from changefeed.sinks.apply.item import unmatched, write_item
from changefeed.sinks.apply.spill import Spill
from changefeed.sinks.delta.native.commit import commit
from changefeed.sinks.writes import WriteId
from tests.examples import by_turns
from tests.sinks.delta_native.applying import SMALL, apply, create, item, opened, payloads, read
from tests.sinks.delta_native.histories import History, all_types, sorted_rows

KEYS: list[tuple[str, ...]] = [
    (),
    ("name",),
    ("clock", "moment"),
    ("dec38", "raw"),
    ("day", "double"),
    ("dec9", "bits64"),
]
HELD = pytest.mark.parametrize("held_bytes", [1, 20_000, 1 << 30], ids=["many parts", "a few parts", "in memory"])


def check(path: Path, history: History) -> None:
    wanted = history.expected()
    assert sorted_rows(read(path, wanted.column_names)) == sorted_rows(wanted)


@pytest.mark.heavy
@pytest.mark.slow
@HELD
@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("keys", by_turns(KEYS, 3, first=1), ids=str)
def test_histories_come_to_their_rows(tmp_path: Path, keys: tuple[str, ...], partial: bool, held_bytes: int) -> None:
    history = History(all_types(*keys), len(keys), partial=partial, irregular=True)
    create(tmp_path / "t", history.table)
    limits = replace(SMALL, held_bytes=held_bytes)
    for step in range(1, 4):
        written = apply(tmp_path / "t", history.table, history.step(80), step, partial=partial, limits=limits)
        assert written.read == 80
        check(tmp_path / "t", history)


@pytest.mark.heavy
@pytest.mark.slow
@HELD
@pytest.mark.parametrize("partial", [False, True])
def test_files_dealt_to_several_items_come_to_the_same_rows(tmp_path: Path, partial: bool, held_bytes: int) -> None:
    history = History(all_types("name"), 7, partial=partial, irregular=True)
    create(tmp_path / "t", history.table)
    apply(tmp_path / "t", history.table, history.step(400), 1, partial=partial)
    chunks, at = history.step(150), opened(tmp_path / "t")
    limits = replace(SMALL, held_bytes=held_bytes)
    whole = replace(item(at, history.table, partial=partial, limits=limits), alone=False)
    assert len(whole.files) > 3
    parts = [replace(whole, files=whole.files.slice(i, 1)) for i in range(len(whole.files))]
    done = [write_item(part, payloads(chunks)) for part in parts]
    shuffled = chunks.take(pa.array(list(reversed(range(len(chunks))))))  # a task may get its chunks in another order
    done.append(write_item(unmatched(whole, [w.matched or b"" for w in done]), payloads(shuffled)))
    commit(at, done, WriteId(1, 2, 1), "{}")
    check(tmp_path / "t", history)


@HELD
def test_a_table_is_replaced_in_one_commit(tmp_path: Path, held_bytes: int) -> None:
    history = History(all_types("name", "double"), 3, partial=True, irregular=True)
    create(tmp_path / "t", history.table)
    stale = History(history.table, 4)
    apply(tmp_path / "t", history.table, stale.step(60), 1)
    limits = replace(SMALL, held_bytes=held_bytes)
    apply(tmp_path / "t", history.table, history.step(300), 2, "replace", partial=True, limits=limits)
    assert DeltaTable(str(tmp_path / "t")).version() == 2
    check(tmp_path / "t", history)


def test_a_replaced_table_may_end_empty(tmp_path: Path) -> None:
    history = History(all_types(), 3)
    create(tmp_path / "t", history.table)
    apply(tmp_path / "t", history.table, history.step(10), 1)
    apply(tmp_path / "t", history.table, history.step(0), 2, "replace")
    assert read(tmp_path / "t").num_rows == 0
    assert opened(tmp_path / "t").write_id == WriteId(1, 2, 1)


def test_spilled_rows_keep_their_keys_together() -> None:
    with Spill(["k", "f"], 500) as spill:
        for _ in range(50):
            spill.add(pa.record_batch({"k": ["a", "b", "c", "d"], "f": [0.0, -0.0, 1.0, 2.0]}))
            spill.add(pa.record_batch({"k": ["b"], "f": [0.0]}))
        parts = [{tuple(row.values()) for row in part.to_pylist()} for part in spill.parts()]
        total = sum(map(len, parts))
        folder = spill._folder
        assert folder is not None
        assert folder.exists()
    assert total == 4, "0.0 is -0.0, and no key is in two parts"
    assert not folder.exists()


@pytest.mark.parametrize("most", [1, 100, 1 << 20])
def test_spilled_rows_without_a_key_keep_their_order(most: int) -> None:
    with Spill((), most) as spill:
        for n in range(20):
            spill.add(pa.record_batch({"n": [n, n + 100]}))
        assert spill.in_memory == (most > 1000)
        rows = [row["n"] for part in spill.parts() for row in part.to_pylist()]
    assert rows == [row for n in range(20) for row in (n, n + 100)]


_NUMBERS = pa.array(range(1000), pa.int64())


@pytest.mark.parametrize(
    "column",
    [
        _NUMBERS,
        *(
            _NUMBERS.cast(kind)
            for kind in (pa.string(), pa.float64(), pa.bool_(), pa.timestamp("us"), pa.decimal128(30, 2))
        ),
        _NUMBERS.cast(pa.string()).cast(pa.binary()),
        _NUMBERS.cast(pa.int32()).cast(pa.date32()),
    ],
    ids=lambda column: str(column.type),
)
def test_parts_do_not_depend_on_the_order_of_batches(column: pa.Array) -> None:
    rows = pa.record_batch({"k": column, "n": _NUMBERS})
    batches = [rows.slice(start, 100) for start in range(0, 1000, 100)]

    def parts(batches: list[pa.RecordBatch]) -> list[list[int]]:
        with Spill(["k"], 3_000) as spill:
            for batch in batches:
                spill.add(batch)
            return [sorted(part.column("n").to_pylist()) for part in spill.parts()]

    assert parts(batches) == parts(batches[::-1])
    assert sum(map(len, parts(batches))) == 1000
    assert (len(parts(batches)) > 2) == (column.type != pa.bool_())


def simple(*rows: tuple[int, str | None], delete: bool = False) -> tuple[Table, pa.RecordBatch]:
    """Upserts, or deletes, of a table with two columns."""
    table = Table(
        "app", "t", (Column("id", ColumnType.parse("bigint"), key=True), Column("v", ColumnType.parse("text"))), ("id",)
    )
    builder = BatchBuilder()
    for i, (key, value) in enumerate(rows):
        image = {"id": key, "v": value}
        builder.add(
            TableShape("app", "t", table.columns), Place("t", 0, i, None, i), "delete" if delete else "upsert",
            before=image if delete else None, after=None if delete else image, commit_ts=i + 1, commit_time=1,
        )  # fmt: skip
    records = record_batch([{"topic": "t", "partition": 0, "offset": i} for i in range(len(rows))])
    packed = pack(Decoded(builder.build(), [], []), records)
    return table, packed.filter(pa.compute.equal(packed.column("kind"), "rows"))


def filled(path: Path, *groups: range) -> Table:
    """A table with a file for each of the ranges of keys."""
    create(path, simple()[0], ())
    for step, group in enumerate(groups, 1):
        table, chunks = simple(*((key, hashlib.sha256(b"%d" % key).hexdigest()) for key in group))
        apply(path, table, chunks, step, "append", limits=Limits())
    return table


def test_files_without_the_keys_are_left_alone(tmp_path: Path) -> None:
    table = filled(tmp_path / "t", range(0, 10), range(10, 20), range(0, 20, 2))
    files = opened(tmp_path / "t").files()
    os.remove(tmp_path / "t" / files.column("path")[1].as_py())  # because of its bounds the file is not opened
    table, chunks = simple((3, "three"))
    written = apply(tmp_path / "t", table, chunks, 9)
    assert [w.rows for w in written.added] == [10]
    [(path, _)] = written.removed
    places = files.column("path").to_pylist()
    assert path in places
    assert places.index(path) != 1


def test_deletes_alone_may_leave_no_file(tmp_path: Path) -> None:
    table = filled(tmp_path / "t", range(3))
    written = apply(tmp_path / "t", table, simple((0, ""), (1, ""), (2, ""), (7, ""), delete=True)[1], 2)
    assert (written.added, len(written.removed)) == ((), 1)
    assert read(tmp_path / "t").num_rows == 0


def test_changes_of_unknown_keys_only_are_a_commit_without_files(tmp_path: Path) -> None:
    table = filled(tmp_path / "t", range(3))
    written = apply(tmp_path / "t", table, simple((7, ""), delete=True)[1], 2)
    assert (written.added, written.removed) == ((), ())
    assert opened(tmp_path / "t").write_id == WriteId(1, 2, 1)


def test_files_grow_to_the_target_and_stay_in_their_ranges(tmp_path: Path) -> None:
    table = filled(tmp_path / "t", range(0, 2000), range(2000, 4000))
    limits = Limits(file_bytes=20_000, group_bytes=10_000, batch_rows=100)
    written = apply(tmp_path / "t", table, simple((5, "x"), (2005, "x"))[1], 9, limits=limits)
    assert len(written.added) > 4
    bounds = opened(tmp_path / "t").files(["id"])
    ends = zip(bounds.column("low_0").to_pylist(), bounds.column("high_0").to_pylist(), strict=True)
    assert sum(low < 2000 <= high for low, high in ends) <= 1
    assert sum(w.rows for w in written.added) == 4000


def test_small_files_become_one(tmp_path: Path) -> None:
    table = filled(tmp_path / "t", *(range(n, n + 10) for n in range(0, 100, 10)))
    written = apply(tmp_path / "t", table, simple(*((n, "x") for n in range(0, 100, 10)))[1], 99, limits=Limits())
    assert ([w.rows for w in written.added], len(written.removed)) == ([100], 10)


def test_a_table_of_any_size_takes_little_memory(tmp_path: Path) -> None:
    create(tmp_path / "t", simple()[0], ())
    at = opened(tmp_path / "t")
    rows = pa.table({"id": pa.array(range(300_000), pa.int64()), "v": ["x" * 50 + f"{n}" for n in range(300_000)]})
    pq.write_table(rows, tmp_path / "t" / "one.parquet")  # one row group of 20 MB
    size = os.path.getsize(tmp_path / "t" / "one.parquet")
    table, chunks = simple((7, "seven"), (299_000, "last"))
    files = pa.table({"path": ["one.parquet"], "size": [size]})
    limits = Limits(group_bytes=1 << 20, batch_rows=4096)
    work = replace(item(at, table, limits=limits), files=files)
    before = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(before)
    pa.set_memory_pool(pool)
    try:
        written = write_item(work, payloads(chunks))
    finally:
        pa.set_memory_pool(before)
    assert sum(w.rows for w in written.added) == 300_000
    assert pool.max_memory() < 12 * 2**20, "the keys of a file, a row group that is written, a batch"


def test_a_column_that_is_younger_than_a_file_is_null_in_it(tmp_path: Path) -> None:
    table = filled(tmp_path / "t", range(3))
    from deltalake.schema import Field, PrimitiveType

    DeltaTable(str(tmp_path / "t")).alter.add_columns([Field("w", PrimitiveType("integer"))])
    wider = replace(table, columns=(*table.columns, Column("w", ColumnType.parse("int"))))
    apply(tmp_path / "t", wider, simple((1, "one"))[1], 9, partial=True)
    assert sorted(map(tuple, (r.values() for r in read(tmp_path / "t").to_pylist()))) == [
        (n, "one" if n == 1 else hashlib.sha256(b"%d" % n).hexdigest(), None) for n in range(3)
    ]


def test_without_a_key_every_row_is_added(tmp_path: Path) -> None:
    table, chunks = simple((1, "a"), (1, "a"), (2, None))
    keyless = replace(table, keys=(), columns=tuple(replace(c, key=None) for c in table.columns))
    create(tmp_path / "t", keyless, ())
    for step in (1, 2):
        apply(tmp_path / "t", keyless, chunks, step, "append")
    assert sorted(read(tmp_path / "t").column("v").to_pylist(), key=str) == [None] * 2 + ["a"] * 4
    apply(tmp_path / "t", keyless, chunks, 3, "replace")
    assert read(tmp_path / "t").num_rows == 3


def test_items_and_results_can_be_shipped(tmp_path: Path) -> None:
    table = filled(tmp_path / "t", range(3))
    work = item(opened(tmp_path / "t"), table)
    again = pickle.loads(pickle.dumps(work))
    assert again == work
    written = write_item(again, payloads(simple((1, "x"))[1]))
    assert pickle.loads(pickle.dumps(written)) == written


@pytest.mark.parametrize("marks", [False, True], ids=["copy-on-write", "merge-on-read"])
def test_each_file_is_written_again_once_whatever_the_number_of_parts(tmp_path: Path, marks: bool) -> None:
    table = filled(tmp_path / "t", range(0, 500), range(500, 1000), range(1000, 1500))
    _, chunks = simple(*((n, "new") for n in range(0, 1000, 2)), *((n, "more") for n in range(2000, 2100)))
    limits = Limits(held_bytes=1, least_marked=0)
    written = apply(tmp_path / "t", table, chunks, 9, marks=marks, limits=limits)
    assert len(written.added) == 1
    assert written.added[0].rows == (600 if marks else 1100)
    assert (len(written.removed), len(written.marked)) == ((0, 2) if marks else (2, 0))
    values = read(tmp_path / "t", ("v",)).column("v").to_pylist()
    assert (len(values), values.count("new"), values.count("more")) == (1600, 500, 100)


def test_an_item_may_be_executed_again(tmp_path: Path) -> None:
    table = filled(tmp_path / "t", range(3))
    at = opened(tmp_path / "t")
    work, chunks = item(at, table), payloads(simple((1, "x"))[1])
    first, second = write_item(work, chunks), write_item(work, chunks)
    assert first.read == second.read == 1
    commit(at, [second], WriteId(1, 2, 1), "{}")
    assert read(tmp_path / "t").num_rows == 3


@pytest.mark.parametrize("damage", ["gone", "flipped"])
def test_a_damaged_file_is_an_error_and_nothing_is_left_behind(tmp_path: Path, damage: str) -> None:
    table = filled(tmp_path / "t", range(500), range(500, 1000))
    at = opened(tmp_path / "t")
    victim = tmp_path / "t" / max(at.files(["id"]).to_pylist(), key=lambda f: f["low_0"])["path"]
    if damage == "gone":
        victim.unlink()
    else:
        data = bytearray(victim.read_bytes())
        place = len(data) // 2
        data[place] ^= 1
        victim.write_bytes(data)
    before = set(os.listdir(tmp_path / "t"))
    with pytest.raises(SinkError, match="cannot be read"):
        write_item(item(at, table), payloads(simple((1, "x"), (501, "x"))[1]))
    assert set(os.listdir(tmp_path / "t")) == before


def test_a_change_that_cannot_be_applied_leaves_nothing_behind(tmp_path: Path) -> None:
    table = filled(tmp_path / "t", range(3))
    before = set(os.listdir(tmp_path / "t"))
    _, chunks = simple((1, "a"), (2, "b"), delete=True)
    keyless = replace(table, keys=(), columns=tuple(replace(c, key=None) for c in table.columns))
    with pytest.raises(UnsupportedError, match="does not identify a row"):
        write_item(item(opened(tmp_path / "t"), keyless, "append"), [*payloads(simple((5, "x"))[1]), *payloads(chunks)])
    assert set(os.listdir(tmp_path / "t")) == before


def test_null_in_a_column_that_takes_none_is_an_error(tmp_path: Path) -> None:
    fields = [pa.field("id", pa.int64()), pa.field("v", pa.string(), nullable=False)]
    DeltaTable.create(str(tmp_path / "t"), schema=pa.schema(fields))
    table, chunks = simple((1, None))
    at = opened(tmp_path / "t")
    with pytest.raises(SinkError, match="non-nullable"):
        write_item(item(at, table), payloads(chunks))
    assert not list((tmp_path / "t").glob("*.parquet"))


def test_a_table_without_one_of_the_columns_is_an_error(tmp_path: Path) -> None:
    create(tmp_path / "t", simple()[0], ())
    with pytest.raises(SinkError, match="its columns are not those that this pipeline gave it: 'w' is missing"):
        opened(tmp_path / "t").target(("id", "w"), ("id",))


def test_a_full_disk_is_an_error_that_names_the_table(tmp_path: Path) -> None:
    table = filled(tmp_path / "t", range(3))
    work = item(opened(tmp_path / "t"), table)
    shutil.rmtree(tmp_path / "t")
    (tmp_path / "t").write_text("")
    with pytest.raises(SinkError, match=f"{tmp_path}/t"):
        write_item(replace(work, files=work.files.slice(0, 0)), payloads(simple((5, "x"))[1]))
