"""The conformance suite of `TableSink`, which every implementation must pass.

An implementation gets its tests by a class of its own, in this repository or outside of it:

    class TestMemory(Conformance):
        @pytest.fixture
        def harness(self): return Memory(Lake())

A harness opens the sink and reads its tables, see `contract.py`; `row_conformance.py` has the cases about rows.
From outside: `pytest -c changefeed/pyproject.toml --rootdir changefeed my_test.py`, with `changefeed` the folder of this
repository; the suite needs no JVM, a sink may.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from changefeed.errors import FencedError, SinkError
from changefeed.sinks.base import WriteRequest
from changefeed.sinks.writes import AddColumns, Append, Create, Load, Touch, Upsert, WriteId
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
from tests.sinks.row_conformance import RowConformance


class Conformance(RowConformance):
    """The tests. A subclass has the fixture `harness`."""

    # Existing tables and versions.

    def test_nothing_is_there_before_the_first_write(self, harness: Harness) -> None:
        sink = harness.sink()
        assert (sink.snapshot(PATH), sink.has_written(PATH), sink.has_files(PATH), list(sink.tables())) == (
            None,
            None,
            False,
            [],
        )

    def test_a_table_is_there_after_its_first_write(self, harness: Harness) -> None:
        sink = loaded(harness, ONE)
        there = sink.snapshot(PATH)
        assert there is not None
        assert (there.columns, there.write_id) == (("id", "note", "total"), WriteId(1, 1, 1))
        assert (there.revision >= 0, commit_count(sink)) == (True, 1)
        assert there.owners == {"changefeed:test:1"}
        assert (sink.has_written(PATH), sink.has_files(PATH), list(sink.tables())) == (True, True, [PATH])
        assert (sink.is_newest(PATH, there.revision), sink.is_newest(PATH, there.revision + 1)) == (True, False)
        assert sink.damaged_files(PATH, there.revision) == []

    def test_another_pipeline_has_no_write_id_in_the_table(self, harness: Harness) -> None:
        loaded(harness, ONE)
        other = harness.sink().owned_by("changefeed:other:2")
        there = other.snapshot(PATH)
        assert there is not None
        assert (there.write_id, there.owners) == (None, frozenset({"changefeed:test:1"}))
        assert (other.has_written(PATH), harness.sink().has_written(PATH)) == (False, True)
        [commit] = other.commits(PATH, -1, there.revision)
        assert (commit.write_id, commit.changes_table) == (None, True)

    def test_each_commit_makes_a_version_and_carries_its_write_id(self, harness: Harness) -> None:
        sink = loaded(harness, ONE)
        first = revision(sink)
        apply(sink, write(Upsert), changed(TWO), WriteId(1, 2, 1), "{}")
        second = revision(sink)
        apply(sink, write(Touch), None, WriteId(2, 3, 0), "{}")
        third = revision(sink)
        commits = [(commit.revision, commit.write_id, commit.changes_table) for commit in sink.commits(PATH, -1, third)]
        assert commits == [
            (third, WriteId(2, 3, 0), False), (second, WriteId(1, 2, 1), True), (first, WriteId(1, 1, 1), True),
        ]  # fmt: skip
        assert [commit.revision for commit in sink.commits(PATH, second, third)] == [third]
        assert list(sink.commits(PATH, third, third)) == []
        assert [sink.distance(PATH, after, third) for after in (-1, first, second, third)] == [3, 2, 1, 0]
        assert (sink.distance(PATH, third, first), sink.distance(PATH, -1, -1)) == (None, 0)
        for after, through in ((third, first), (second, third + 1)):
            with pytest.raises(SinkError):
                list(sink.commits(PATH, after, through))

    def test_old_versions_stay_readable(self, harness: Harness) -> None:
        sink = loaded(harness, ONE)
        first = revision(sink)
        apply(sink, write(Load), changed(TWO), WriteId(1, 2, 1), "{}")
        rows = [sorted_rows(harness.rows(PATH, each)) for each in (first, revision(sink))]
        assert rows == [[ONE], [TWO]]

    def test_texts_that_hold_ends_of_lines_leave_the_log_readable(self, harness: Harness) -> None:
        """JSON contains U+2028 and U+0085 unescaped, and statistics contain the first characters of texts."""
        row: Row = {"id": 1, "note": "\u2028a\u0085b\x1e", "total": None}
        sink = loaded(harness, row)
        apply(sink, write(Upsert), changed({**row, "id": 2}), WriteId(1, 2, 1), "{}")
        assert [commit.changes_table for commit in sink.commits(PATH, -1, revision(sink))] == [True, True]
        there = sink.snapshot(PATH)
        assert there is not None
        assert (there.owners, len(harness.rows(PATH))) == (frozenset({"changefeed:test:1"}), 2)

    def test_differences_name_columns_and_types(self, harness: Harness) -> None:
        sink = loaded(harness, ONE)
        assert sink.differences(PATH, ORDERS) == []
        other = table("*id bigint", "note varchar(20)", "extra date")
        assert [text.split(" ")[0] for text in sink.differences(PATH, other)] == ["id", "extra", "total"]

    @pytest.mark.parametrize("name", ["_op", "_OP"])
    def test_a_column_with_the_name_of_a_metadata_column_is_refused(self, harness: Harness, name: str) -> None:
        sink = harness.sink(metadata=["_op"])
        assert sink.refusal(ORDERS) is None
        assert "metadata column" in (sink.refusal(table("*id int", f"{name} int")) or "")

    # Deletion.

    def test_a_deleted_table_is_gone_with_its_versions_and_files(self, harness: Harness) -> None:
        sink = loaded(harness, ONE)
        apply(sink, write(Load, path="shop/other"), changed(TWO), WriteId(1, 1, 2), "{}")
        for _ in range(2):
            sink.delete(PATH)
            assert (sink.snapshot(PATH), sink.has_written(PATH), sink.has_files(PATH)) == (None, None, False)
            assert list(harness.sink().tables()) == ["shop/other"]
        assert harness.rows("shop/other") == [TWO]

    def test_a_table_may_be_made_where_one_was_deleted(self, harness: Harness) -> None:
        sink = loaded(harness, ONE)
        apply(sink, write(Upsert), changed(TWO), WriteId(1, 2, 1), "{}")
        sink.delete(PATH)
        apply(sink, write(Load, LOG), changed({"at": 1, "note": None}, of=LOG), WriteId(1, 3, 1), "{}")
        there = sink.snapshot(PATH)
        assert there is not None
        assert (commit_count(sink), there.columns, there.write_id) == (1, ("at", "note"), WriteId(1, 3, 1))
        assert harness.rows(PATH) == [{"at": 1, "note": None}]

    # Once, and by the newest run alone.

    def test_a_write_that_exists_is_not_made_again(self, harness: Harness) -> None:
        sink, row = harness.sink(), {"at": 1, "note": "x"}
        apply(sink, write(Create, LOG), None, WriteId(1, 1, 1), "{}")
        for _ in range(2):
            apply(sink, write(Append, LOG), changed(row, of=LOG), WriteId(1, 1, 2), "{}")
        apply(sink, write(Create, LOG), None, WriteId(1, 1, 1), "{}")
        there = sink.snapshot(PATH)
        assert there is not None
        assert (commit_count(sink), there.write_id, harness.rows(PATH)) == (2, WriteId(1, 1, 2), [row])

    @pytest.mark.parametrize("kind", [Append, Upsert, Create, AddColumns, Touch])
    def test_an_older_run_is_fenced(self, harness: Harness, kind: Any) -> None:
        sink = loaded(harness, ONE)
        apply(sink, write(Touch), None, WriteId(2, 2, 0), "{}")
        changes = changed(TWO) if kind in (Append, Upsert) else None
        with pytest.raises(FencedError, match="epoch 2"):
            apply(sink, write(kind), changes, WriteId(1, 2, 5), "{}")
        there = sink.snapshot(PATH)
        assert there is not None
        assert (commit_count(sink), there.write_id, harness.rows(PATH)) == (2, WriteId(2, 2, 0), [ONE])

    def test_writes_that_were_prepared_together_are_commits_of_their_own(self, harness: Harness) -> None:
        sink = loaded(harness, ONE)
        writes = [write(Upsert), write(Load, path="shop/other")]
        prepared = sink.prepare([WriteRequest(each, changed(TWO), WriteId(1, 2, 1), "{}") for each in writes])
        assert [each.request.write for each in prepared] == writes
        assert (harness.rows(PATH), sink.snapshot("shop/other")) == ([ONE], None), "nothing is committed"
        for each in prepared:
            sink.apply(each)
        assert (sorted_rows(harness.rows(PATH)), harness.rows("shop/other")) == ([ONE, TWO], [TWO])
        made = [(commit_count(sink, path), sink.snapshot(path)) for path in (PATH, "shop/other")]
        assert [(commits, there.write_id) for commits, there in made if there] == [
            (2, WriteId(1, 2, 1)),
            (1, WriteId(1, 2, 1)),
        ]

    @pytest.mark.parametrize("kind", [Append, Upsert, Load])
    def test_a_write_that_was_prepared_before_a_newer_run_came_is_fenced(self, harness: Harness, kind: Any) -> None:
        sink = loaded(harness, ONE)
        (prepared,) = sink.prepare([WriteRequest(write(kind), changed(TWO), WriteId(1, 2, 1), "{}")])
        apply(harness.sink(), write(Touch), None, WriteId(2, 2, 0), "{}")
        with pytest.raises(FencedError, match="epoch 2"):
            sink.apply(prepared)
        assert harness.rows(PATH) == [ONE]

    def test_a_new_table_that_a_newer_run_has_made_meanwhile_is_left_to_it(self, harness: Harness) -> None:
        sink = harness.sink()
        (prepared,) = sink.prepare([WriteRequest(write(Load), changed(ONE), WriteId(1, 1, 1), "{}")])
        apply(harness.sink(), write(Load), changed(TWO), WriteId(2, 1, 1), "{}")
        with pytest.raises(FencedError, match="epoch 2"):
            sink.apply(prepared)
        assert harness.rows(PATH) == [TWO]

    def test_files_prepared_for_another_write_are_not_used(self, harness: Harness) -> None:
        """A run that ended between prepare and apply: the next one has its own write ids."""
        sink = loaded(harness, ONE)
        sink.prepare([WriteRequest(write(Upsert), changed(TWO), WriteId(1, 2, 1), "{}")])
        three = {"id": 3, "note": None, "total": None}
        apply(sink, write(Upsert), changed(three), WriteId(2, 2, 1), "{}")
        assert sorted_rows(harness.rows(PATH)) == [ONE, three]

    def test_two_runs_at_once_leave_the_newer_ones_write(self, harness: Harness) -> None:
        """Both append at the same time; the older one is there before the newer one, or not at all."""
        apply(harness.sink(), write(Create, LOG), None, WriteId(1, 1, 1), "{}")

        def append(epoch: int) -> BaseException | None:
            try:
                row = {"at": epoch, "note": None}
                apply(harness.sink(), write(Append, LOG), changed(row, of=LOG), WriteId(epoch, 2, 1), "{}")
            except (FencedError, SinkError) as error:
                return error
            return None

        with ThreadPoolExecutor(2) as pool:
            errors = dict(zip((2, 3), pool.map(append, (2, 3)), strict=True))
        there = harness.sink().snapshot(PATH)
        assert there is not None
        wrote = [epoch for epoch, error in errors.items() if error is None]
        assert wrote, errors
        assert sorted(row["at"] for row in harness.rows(PATH)) == wrote
        assert there.write_id == WriteId(max(wrote), 2, 1)

    def test_different_paths_may_be_written_at_once(self, harness: Harness) -> None:
        sink = harness.sink()

        def load(number: int) -> None:
            apply(sink, write(Load, path=f"shop/t{number}"), changed({**ONE, "id": number}), WriteId(1, 1, 1), "{}")
            apply(sink, write(Upsert, path=f"shop/t{number}"), changed({**TWO, "id": -number}), WriteId(1, 1, 2), "{}")

        with ThreadPoolExecutor(3) as pool:
            list(pool.map(load, range(1, 4)))
        assert sorted(sink.tables()) == ["shop/t1", "shop/t2", "shop/t3"]
        for number in range(1, 4):
            assert sorted(row["id"] for row in harness.rows(f"shop/t{number}")) == [-number, number]
