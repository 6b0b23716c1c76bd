"""The conformance suite of `LetterTable`, which every implementation must pass.

An implementation gets its tests by a class of its own, in this repository or outside of it:

    class TestMemory(Conformance):
        @pytest.fixture
        def harness(self): return Memory()

A harness opens the table and makes the frames that a pipeline passes; `Frame` is enough for a table that needs only
`toArrow`. `conformance.py` shows how to run a suite from outside.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

import pyarrow as pa

from changefeed.sinks.letters import LetterTable

Row = dict[str, Any]

TIME = pa.timestamp("us", "UTC")
_HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
_PLACE = [("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("index", pa.int32())]
# The columns of `changefeed.sinks.letters.COLUMNS`, `place`, and (topic, partition, next).
LETTERS = pa.schema(
    [
        ("at", TIME), ("pipeline", pa.string()), ("reason", pa.string()), ("error", pa.string()), ("protocol", pa.string()),
        *_PLACE, ("byte", pa.int64()), ("schema_id", pa.string()), ("sha256", pa.string()), ("database", pa.string()),
        ("table", pa.string()), ("key", pa.binary()), ("value", pa.binary()), ("headers", pa.list_(_HEADER)),
        ("replayed", TIME),
    ]
)  # fmt: skip
PLACES = pa.schema(_PLACE)
POSITIONS = pa.schema([*_PLACE[:2], ("next", pa.int64())])


class Harness(Protocol):
    """An implementation, with an empty place of its own."""

    def table(self) -> LetterTable:
        """The table, opened by a run."""
        ...

    def reading(self) -> LetterTable:
        """The table, opened by a command without Spark."""
        ...

    def frame(self, rows: pa.Table) -> Any:
        """A DataFrame with these rows and columns."""
        ...


@dataclass(frozen=True)
class Frame:
    """The part of a DataFrame that a table without Spark reads."""

    rows: pa.Table

    def toArrow(self) -> pa.Table:  # Spark's name
        return self.rows


def letter(offset: int, index: int | None = None, partition: int = 0, **values: Any) -> Row:
    """A dead letter that waits."""
    return dict.fromkeys(LETTERS.names) | {
        "at": datetime(2024, 2, 29, 12, 30, 0, 123456, UTC), "pipeline": "shop", "reason": "truncated", "error": "ends early",
        "protocol": "ticdc-open", "topic": "app", "partition": partition, "offset": offset, "index": index,
        "database": "shop", "table": "orders", "value": b"\xff\x00", "headers": [],
    } | values  # fmt: skip


class Conformance:
    """The tests. A subclass has the fixture `harness`."""

    def write(self, harness: Harness, *letters: Row) -> None:
        harness.table().write(harness.frame(pa.Table.from_pylist(list(letters), LETTERS)))

    def mark(self, harness: Harness, *places: tuple[str, int, int, int | None]) -> None:
        rows = [dict(zip(PLACES.names, place, strict=True)) for place in places]
        harness.table().mark(harness.frame(pa.Table.from_pylist(rows, PLACES)))

    def mark_from(self, harness: Harness, *positions: tuple[str, int, int]) -> None:
        rows = [dict(zip(POSITIONS.names, position, strict=True)) for position in positions]
        harness.table().mark_from(harness.frame(pa.Table.from_pylist(rows, POSITIONS)))

    def waiting(self, harness: Harness) -> list[tuple[str, int, int, int | None]]:
        """The positions of the letters that wait, which every way to open the table agrees about."""
        seen = []
        for table in (harness.table(), harness.reading()):
            rows = table.rows()
            assert table.waiting() == len(rows)
            assert [row["replayed"] for row in rows] == [None] * len(rows)
            seen.append([(row["topic"], row["partition"], row["offset"], row["index"]) for row in rows])
        assert seen[0] == seen[1]
        return seen[0]

    def replayed(self, harness: Harness) -> dict[tuple[str, int, int, int | None], datetime]:
        """Position -> time, of the letters that were replayed."""
        rows = harness.reading().rows(replayed=True)
        return {tuple(r[n] for n in PLACES.names): r["replayed"] for r in rows if r["replayed"] is not None}

    def test_nothing_is_there_before_the_first_letter(self, harness: Harness) -> None:
        for table in (harness.table(), harness.reading()):
            assert not table.exists()
            assert (table.rows(), table.rows(replayed=True), table.waiting(), table.tables()) == ([], [], 0, set())

    def test_letters_come_back_whole_and_in_the_order_of_their_positions(self, harness: Harness) -> None:
        headers = [{"key": "h", "value": b"\x00"}, {"key": "", "value": None}, {"key": "h", "value": b""}]
        unusual = letter(
            7, topic="it's `x`", error='line\n\u2028 "\\', database=None, table=None, key=b"", value=None, headers=headers,
            byte=2**40, schema_id="5", sha256="00", at=datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
        )  # fmt: skip
        ordered = [
            letter(7),
            letter(7, 0),
            letter(7, 1),
            letter(2**40),
            letter(3, partition=1),
            letter(1, partition=10),
            unusual,
        ]
        self.write(harness, *ordered[::-1])
        assert harness.table().exists()
        assert harness.reading().exists()
        rows = harness.reading().rows()
        # a format may sort NULL first or last: the letter of a whole record and those in it are never both there
        assert sorted(rows[:3], key=lambda row: (row["index"] is not None, row["index"])) == ordered[:3]
        assert rows[3:] == ordered[3:]
        assert len(self.waiting(harness)) == 7
        assert harness.reading().tables() == {("shop", "orders"), (None, None)}

    def test_a_position_has_one_letter_the_first_until_it_is_replayed(self, harness: Harness) -> None:
        self.write(harness, letter(7), letter(7, 0))
        for _ in range(2):
            self.write(harness, letter(7, reason="defect"), letter(7, 0, reason="defect"), letter(7, 2))
        assert sorted(row["reason"] for row in harness.reading().rows()) == ["truncated"] * 3
        self.mark(harness, ("app", 0, 7, None))
        assert self.waiting(harness) == [("app", 0, 7, 0), ("app", 0, 7, 2)]
        self.write(harness, letter(7, reason="defect", table="other"), letter(7, 0, reason="defect"))
        assert sorted(row["reason"] for row in harness.reading().rows()) == ["defect", "truncated", "truncated"]
        assert (self.replayed(harness), len(self.waiting(harness))) == ({}, 3)
        assert harness.reading().tables() == {("shop", "orders"), ("shop", "other")}

    def test_marked_letters_stay_with_the_time_of_their_first_replay(self, harness: Harness) -> None:
        self.write(harness, letter(7), letter(7, 1), letter(8), letter(7, partition=1), letter(7, topic="b"))
        began = datetime.now(UTC)
        self.mark(harness, ("app", 0, 7, 1), ("app", 1, 7, None), ("app", 0, 9, None), ("nothing", 0, 7, None))
        first = self.replayed(harness)
        assert set(first) == {("app", 0, 7, 1), ("app", 1, 7, None)}
        assert all(began <= at <= datetime.now(UTC) for at in first.values())
        self.mark(harness, ("app", 0, 7, 1), ("app", 0, 8, None))
        assert self.replayed(harness) | first == self.replayed(harness)
        assert self.waiting(harness) == [("app", 0, 7, None), ("b", 0, 7, None)]
        assert len(harness.reading().rows(replayed=True)) == 5
        assert harness.reading().tables() == {("shop", "orders")}

    def test_letters_of_records_that_are_read_again_are_replayed(self, harness: Harness) -> None:
        self.write(
            harness, letter(3), letter(7, 0), letter(7, 1), letter(8), letter(1, partition=1), letter(3, topic="b")
        )
        self.mark(harness, ("app", 0, 8, None))
        before = self.replayed(harness)
        self.mark_from(harness, ("app", 0, 7), ("b", 0, 4), ("c", 0, 0))
        assert self.waiting(harness) == [("app", 0, 3, None), ("b", 0, 3, None)]
        assert self.replayed(harness) | before == self.replayed(harness)
        self.mark_from(harness, ("app", 0, 4), ("b", 0, 4))
        assert len(self.waiting(harness)) == 2
        self.mark_from(harness)
        assert (self.waiting(harness), harness.reading().waiting()) == ([], 0)
        assert len(self.replayed(harness)) == 6
