"""Kernel and reference side by side: they must read the same log to the same changes, or raise the same error."""

from __future__ import annotations

import os
import random
import zlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from changefeed.mysql.binlog import codes
from changefeed.mysql.binlog.framing import CHECKSUM_SIZE
from changefeed.mysql.binlog.rows import KINDS
from changefeed.sources.mysql.changes import LogDecoder
from changefeed.sources.mysql.dump import LogEvent, placed
from changefeed.sources.mysql.kernel_decoder import KernelLogDecoder
from changefeed.sources.mysql.masks import ColumnPatterns
from changefeed.sources.mysql.source_offset import LogPosition
from changefeed.sources.mysql.tables import Captured
from changefeed.ticdc.dispatch.matcher import ColumnFilter
from tests.kernel.differing import difference
from tests.sources.mysql.kernel import needs_kernel
from tests.sources.mysql.random_logs import random_log
from tests.sources.mysql.recorded_logs import CAPTURED, VECTORS, batches, log

pytestmark = needs_kernel

LOGS = int(os.environ.get("CHANGEFEED_EXAMPLES", "1")) * 100
NAMES = sorted(path.stem for path in VECTORS.glob("*.binlog"))


def without_place(event: LogEvent) -> bytes:
    """A format description as a server sends it again in the middle of a file: its next position is 0."""
    data = event.data[:13] + bytes(4) + event.data[17:-CHECKSUM_SIZE]
    return data + zlib.crc32(data[:17] + bytes(2) + data[19:]).to_bytes(CHECKSUM_SIZE, "little")


def by_reference(decoder: LogDecoder, sent: list[bytes], start: LogPosition, end: LogPosition) -> LogPosition:
    """Reads events up to a position; returns the position after the last one."""
    at = start
    for data in sent:
        event = placed(data, at)
        if event.placed and event.at.number >= end.number:
            break
        at = event.end
        decoder.add(event)
    return at


def by_kernel(decoder: KernelLogDecoder, sent: list[bytes]) -> LogPosition:
    """Does the same, a few events at a time."""
    for first in range(0, len(sent), 7):
        decoder.feed(b"".join(sent[first : first + 7]))
        if decoder.run(10**9) == "end":
            break
    return decoder.at


def outcome(decoder: LogDecoder, end: LogPosition, read: Callable[[], LogPosition]) -> Any:
    """The position, the changes and their records; or the text of an error."""
    try:
        at = read()
        decoder.mark(end)
        return at, decoder.decoded()
    except Exception as error:  # of any kind: both must raise the same
        return repr(error)


def compared(
    sent: list[bytes], start: LogPosition, end: LogPosition, maps: Iterable[bytes] = (), captured: Captured = CAPTURED
) -> int:
    """Reads events with both decoders and compares what they return; returns the number of rows that the kernel has read."""
    reference, kernel = LogDecoder(captured, maps), KernelLogDecoder(captured, start, end, maps)
    expected = outcome(reference, end, lambda: by_reference(reference, sent, start, end))
    rows = list[int]()

    def read() -> LogPosition:
        at = by_kernel(kernel, sent)
        rows.append(kernel.rows_of_kernel)
        return at

    actual = outcome(kernel, end, read)
    if isinstance(expected, str):
        assert actual == expected
        return 0
    (at, (changes, records)), (other, (others, of_others)) = expected, actual
    assert at == other
    assert difference(changes, others) is None
    assert records.equals(of_others)
    return rows[0]


@pytest.mark.parametrize("name", NAMES)
def test_recorded_logs(name: str) -> None:
    sent = log(name)
    compared([event.data for event in sent], sent[0].at, sent[-1].end)


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith("-types")])
def test_excluded_columns_alone_are_gone(name: str) -> None:
    sent = log(name)
    events, start, end = [event.data for event in sent], sent[0].at, sent[-1].end
    keys = [f"!*.*.{key}" for key in ("id", "k", "a")]
    captured = replace(CAPTURED, columns=ColumnPatterns(("*.*.[a-m]*", *keys)))
    compared(events, start, end, captured=captured)
    excludes = ColumnFilter(captured.columns.excluded).matches
    whole, without = LogDecoder(CAPTURED), LogDecoder(captured)
    for decoder in (whole, without):
        by_reference(decoder, events, start, end)
    rows = [[change for table in d.decoded()[0].tables for change in table.changes()] for d in (whole, without)]
    assert len(rows[0]) == len(rows[1]) > 0
    for old, new in zip(*rows, strict=True):
        for image, kept in ((old.before, new.before), (old.after, new.after)):
            expected = image and {n: v for n, v in image.items() if not excludes(old.database, old.table, n)}
            assert kept == expected


@pytest.mark.parametrize("name", NAMES)
def test_events_of_a_recorded_log_have_their_places(name: str) -> None:
    """MariaDB 11.8 writes no positions inside of transactions."""
    sent = log(name)
    events = as_sent([event.data for event in sent])
    assert [(e.at.position, e.end.position, e.placed) for e in events] == [
        (e.at.position, e.end.position, True) for e in sent
    ]


@pytest.mark.parametrize("name", ["mariadb-events", "mariadb-11.8-events", "mysql-events", "mysql-9.7-events"])
def test_compressed_rows_of_recorded_logs(name: str) -> None:
    """The logs from behind the statements that the source refuses: minimal images, then compressed ones."""
    sent = log(name)
    last = max(i for i, event in enumerate(sent) if event.code == codes.QUERY and b"TRUNCATE" in event.data) + 1
    is_compressed = [kind.compressed for event in sent[last:] if (kind := KINDS.get(event.code))]
    assert any(is_compressed) or any(event.code == codes.TRANSACTION_PAYLOAD for event in sent[last:])
    events = [without_place(sent[0]), *(event.data for event in sent[last:])]
    assert compared(events, sent[last].at, sent[-1].end) > 5


def test_logs_of_random_tables() -> None:
    description = log("mariadb-types")[0].data
    read = 0
    for seed in range(LOGS):
        sent = random_log(seed, description)
        start = LogPosition("binlog.000007", 4)
        read += compared(sent, start, LogPosition(start.file, 4 + sum(map(len, sent))))
    assert read > 10 * LOGS


def as_sent(sent: list[bytes]) -> list[LogEvent]:
    """The events with their positions."""
    at, events = LogPosition("binlog.000007", 4), list[LogEvent]()
    for data in sent:
        events.append(placed(data, at))
        at = events[-1].end
    return events


@pytest.mark.parametrize("name", ["mariadb-types", "mariadb-11.8-events", "mysql-types", "random"])
def test_slices_of_a_log(name: str) -> None:
    """A slice may begin inside of a statement; a server sends the format description first."""
    sent = log(name) if name != "random" else as_sent(random_log(3, log("mariadb-types")[0].data))
    inside = 0
    for batch in batches(sent, 1):
        for part in batch.slices:
            events = [event.data for event in sent if event.at.number >= part.start.number]
            again = [] if part.start == sent[0].at else [without_place(sent[0])]
            compared([*again, *events], part.start, part.end, part.maps)
            inside += bool(part.maps)
    assert inside > 5


def mutated(r: random.Random, sent: list[bytes]) -> list[bytes]:
    """The events with some bytes of bodies changed, under right checksums."""
    sent = list(sent)
    for _ in range(r.choice([1, 1, 3])):
        number = r.randrange(1, len(sent))
        body = bytearray(sent[number][19:-CHECKSUM_SIZE])
        for _ in range(r.choice([1, 1, 4])):
            body[r.randrange(len(body))] = r.choice([0, 1, 0x7F, 0x80, 0xFF, r.randrange(256)])
        if r.random() < 0.1:
            del body[r.randrange(len(body)) :]
        data = sent[number][:9] + (19 + len(body) + CHECKSUM_SIZE).to_bytes(4, "little") + sent[number][13:19] + body
        sent[number] = data + zlib.crc32(data).to_bytes(CHECKSUM_SIZE, "little")
    return sent


@pytest.mark.parametrize("name", ["mariadb-types", "mysql-types", "mysql-json", "random"])
def test_mutated_logs(name: str) -> None:
    description, read = log("mariadb-types")[0].data, 0
    for seed in range(LOGS):
        r = random.Random(seed)
        sent = random_log(seed, description, 4) if name == "random" else [event.data for event in log(name)]
        start = LogPosition("binlog.000007", 4)
        read += compared(mutated(r, sent), start, LogPosition(start.file, 4 + sum(map(len, sent))))
    assert read > LOGS or name != "random"
