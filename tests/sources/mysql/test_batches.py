"""Slices of recorded logs: whatever their size, together they have the changes of the whole log, and any may be read alone."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from changefeed.errors import SourceError, UnsupportedError
from changefeed.frames.chunks import unpack
from changefeed.model.batch import Decoded
from changefeed.model.change import RowChange, events
from changefeed.model.event import Resolved, SchemaChange
from changefeed.mysql.binlog import codes
from changefeed.sources.mysql import dump, reader
from changefeed.sources.mysql.batches import LogBatch, LogSlice, divide
from changefeed.sources.mysql.changes import LogDecoder
from changefeed.sources.mysql.connection import Address
from changefeed.sources.mysql.dump import LogEvent
from changefeed.sources.mysql.reader import Reading
from changefeed.sources.mysql.source_offset import CopyProgress, LogPosition, SourceOffset, read
from changefeed.sources.mysql.tables import Captured
from tests.sources.mysql.kernel import needs_kernel
from tests.sources.mysql.recorded_logs import CAPTURED, FILE, batches, from_position, log


def decoded(sent: list[LogEvent], batch: LogBatch, *, asks: bool) -> list[Any]:
    """The events of a batch; `asks`: the events of a slice are read from the server, although the slice contains them."""
    changes = list[Any]()
    for part in batch.slices:
        decoder = LogDecoder(CAPTURED, part.maps)
        for event in from_position(sent, part.start) if asks or part.events is None else part.events:
            if event.placed and event.at.number >= part.end.number:
                break
            decoder.add(event)
        if part.is_complete:
            decoder.mark(part.end)
        of_part: Decoded = decoder.decoded()[0]
        changes += events(of_part)
    return changes


def plain(change: Any) -> Any:
    """A change without the number of its record."""
    if isinstance(change, RowChange):
        place = change.position
        assert place is not None
        return (
            change.op,
            change.table,
            change.before,
            change.after,
            change.irregular,
            change.commit_ts,
            place.offset,
            place.index,
        )
    return change.type, change.ddl, change.commit_ts


@pytest.mark.parametrize("asks", [False, True])
@pytest.mark.parametrize("name", ["mariadb-types", "mysql-types"])
def test_batches_of_any_size_have_the_changes_of_the_whole_log(name: str, asks: bool) -> None:
    sent = log(name)
    (whole,) = batches(sent, 10**9)
    expected = decoded(sent, whole, asks=False)
    assert sum(isinstance(event, RowChange) for event in expected) > 10
    assert isinstance(expected[-1], Resolved)
    assert expected[-1].commit_ts == sent[-1].end.number
    wanted = [plain(event) for event in expected if not isinstance(event, Resolved)]
    for most_bytes in (1, 2000):
        parts = list(batches(sent, most_bytes))
        assert len(parts) > 1
        got = [event for part in parts for event in decoded(sent, part, asks=asks)]
        assert [plain(event) for event in got if not isinstance(event, Resolved)] == wanted
        marks = [event.commit_ts for event in got if isinstance(event, Resolved)]
        assert marks == sorted(set(marks))
        assert marks[-1] == expected[-1].commit_ts


def test_marks_lie_between_transactions() -> None:
    """No row at or below a mark comes after it, and a slice that ends inside of a transaction has none."""
    sent = log("mysql-types")
    starts = {e.at.number for e in sent if e.code in (codes.GTID, codes.ANONYMOUS_GTID)} | {sent[-1].end.number}
    inside = 0
    for batch in batches(sent, 1):
        for part in batch.slices:
            assert part.is_complete == (part.end.number in starts)
            inside += bool(part.maps)
    assert inside > 10


def test_no_mark_before_the_tables_are_complete() -> None:
    sent = log("mysql-types")
    complete = sent[len(sent) // 2].at
    batch = divide(sent, sent[0].at, (), 2000, complete=complete)
    marks = [part.end.number for part in batch.slices if part.is_complete]
    assert all(mark >= complete.number for mark in marks)


def test_the_batch_ends_at_a_given_position() -> None:
    sent = log("mysql-types")
    end = next(event.at for event in sent[20:] if event.code == codes.GTID)
    batch = divide(sent, sent[0].at, (), 10**9, end=end)
    assert (batch.end, batch.caught_up) == (end, True)


@pytest.mark.parametrize(
    "name, what", [("mysql-events", "XA PREPARE"), ("mariadb-events", "XA PREPARE")]
)  # fmt: skip
def test_what_the_log_does_not_have_as_rows_is_refused(name: str, what: str) -> None:
    sent = log(name)
    (whole,) = batches(sent, 10**9)
    with pytest.raises(UnsupportedError, match=what):
        decoded(sent, whole, asks=False)


def test_rows_of_tables_that_are_not_captured_are_passed_over() -> None:
    """Not so their schema changes: one of them may take the place of a captured table."""
    sent = log("mysql-types")
    decoder = LogDecoder(Captured(("other.*",), {}))
    for event in sent:
        decoder.add(event)
    changes, _ = decoder.decoded()
    assert changes.tables == []
    types = [event.type for event in changes.control if isinstance(event, SchemaChange)]
    assert types[:2] == ["create_database", "create_table"]


def test_a_damaged_event_names_its_position() -> None:
    sent = log("mysql-types")
    number = next(i for i, event in enumerate(sent) if event.code == codes.WRITE_ROWS)
    damaged = sent[number]
    data = damaged.data[:60] + bytes((damaged.data[60] ^ 1,)) + damaged.data[61:]
    decoder = LogDecoder(CAPTURED)
    for event in sent[:number]:
        decoder.add(event)
    with pytest.raises(SourceError, match=f"{FILE}:{damaged.at.position}.*checksum"):
        decoder.add(LogEvent(damaged.code, damaged.at, damaged.end, data, placed=True))


@pytest.mark.parametrize(
    "source_offset",
    [
        SourceOffset("1", LogPosition(FILE, 4)),
        SourceOffset("a-b", LogPosition(FILE, 2**33), 7, (b"map", b"\0\xff")),
        SourceOffset(
            "1", LogPosition(FILE, 4), copy=CopyProgress((("a", "b.c"),), ("12ab",), 0, ("_utf8mb4 X'00'",), 7)
        ),
        SourceOffset("1", LogPosition(FILE, 4), copy=CopyProgress((), (), 0), complete=LogPosition("b.000008", 5)),
        SourceOffset("1", LogPosition(FILE, 4, 6), gtids="0-1-7", patterns=("a.*",), joining=(), copy_bytes=3),
        SourceOffset("1", LogPosition(FILE, 4), gtids="", transaction={"id": "0-1-8", "count": 2}),
    ],
)
def test_a_source_offset_is_text(source_offset: SourceOffset) -> None:
    assert read(source_offset.text()) == source_offset


@pytest.mark.parametrize("kernel", [False, pytest.param(True, marks=needs_kernel)])
def test_a_slice_behind_4_gib_of_a_file(monkeypatch: pytest.MonkeyPatch, kernel: bool) -> None:
    """No connection can ask for its position, so that the file is read from its start on."""
    monkeypatch.setattr(reader, "is_available", lambda: kernel)
    sent = log("mysql-types")
    first = next(i for i, event in enumerate(sent) if event.code == codes.GTID and i > len(sent) // 4)
    far = [replace(e, at=behind(e.at), end=behind(e.end)) for e in sent[first:]]
    asked = list[int]()
    monkeypatch.setattr(dump, "_connected", lambda *_: nullcontext())
    monkeypatch.setattr(dump, "_ask", lambda _, start, *rest, **options: asked.append(start.position))
    monkeypatch.setattr(dump, "_events", lambda *_: iter([*sent[:first], *far]))
    reading = Reading(Address("db", 3306, "u", ""), "1", CAPTURED, "mysql", sent[0].at)
    chunks = [row for batch in reader.read(reading, LogSlice(far[0].at, far[-1].end)) for row in batch.to_pylist()]
    rows = [unpack(row["payload"]).rows for row in chunks if row["kind"] == "rows"]
    expected = decoded([sent[0], *far], LogBatch((LogSlice(far[0].at, far[-1].end),), far[-1].end, (), True), asks=True)
    numbers = [change.commit_ts for change in expected if isinstance(change, RowChange)]
    assert sorted(number for part in rows for number in part.column("commit_ts").to_pylist()) == numbers
    assert len(numbers) > 5
    assert asked == [4]


def test_slices_behind_4_gib_of_a_file_are_few() -> None:
    sent = log("mysql-types")
    far = [replace(e, at=behind(e.at), end=behind(e.end)) for e in sent]
    assert len(divide(sent, sent[0].at, (), 1).slices) == 1
    assert divide(sent, sent[0].at, (), 1).end != sent[-1].end
    assert divide(far, far[0].at, (), 1).end == far[-1].end


def behind(at: LogPosition) -> LogPosition:
    """The same position, 4 GiB later."""
    return replace(at, position=at.position + 2**32)


@pytest.mark.parametrize("kernel", [False, pytest.param(True, marks=needs_kernel)])
def test_a_log_that_ends_early_is_an_error(monkeypatch: pytest.MonkeyPatch, kernel: bool) -> None:
    monkeypatch.setattr(reader, "is_available", lambda: kernel)
    monkeypatch.setattr(reader, "dump_bytes", lambda *_: (e.data for e in reader.dump(*_)))  # type: ignore[attr-defined]
    sent = log("mysql-types")
    reading = Reading(Address("db", 3306, "u", ""), "1", CAPTURED, "mysql", sent[0].at)
    part = LogSlice(sent[0].at, sent[-1].end)
    monkeypatch.setattr(reader, "dump", lambda *arguments: iter(sent))
    assert list(reader.read(reading, part))
    monkeypatch.setattr(reader, "dump", lambda *arguments: iter(sent[:-1]))
    with pytest.raises(
        SourceError, match=f"sent its binary log to {sent[-2].end} alone, and had sent it to {sent[-1].end}"
    ):
        list(reader.read(reading, part))
