"""Kernel and reference side by side: they must read the same log to the same changes, or raise the same error."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import pytest

from changefeed.errors import SourceError, UnsupportedError
from changefeed.mysql.binlog.framing import CHECKSUM_SIZE
from changefeed.sources.mysql.changes import LogDecoder
from changefeed.sources.mysql.dump import LogEvent, placed
from changefeed.sources.mysql.kernel_decoder import KernelLogDecoder, is_available
from changefeed.sources.mysql.source_offset import LogPosition
from changefeed.sources.mysql.tables import Captured
from tests.kernel.differing import difference
from tests.sources.mysql.test_batches import CAPTURED, VECTORS, log

pytestmark = pytest.mark.skipif(not is_available(), reason="no kernel that reads binary logs is installed")

NAMES = sorted(path.stem for path in VECTORS.glob("*.binlog"))


def without_place(event: LogEvent) -> bytes:
    """A format description as a server sends it again in the middle of a file: its next position is 0."""
    data = event.data[:13] + bytes(4) + event.data[17:-CHECKSUM_SIZE]
    return data + zlib.crc32(data[:17] + bytes(2) + data[19:]).to_bytes(CHECKSUM_SIZE, "little")


def compared(
    sent: list[bytes],
    start: LogPosition,
    end: LogPosition,
    maps: Iterable[bytes] = (),
    *,
    captured: Captured = CAPTURED,
) -> int:
    """Reads events with both decoders and compares the changes; returns the number of rows that the kernel has read."""
    reference, kernel = LogDecoder(captured, maps), KernelLogDecoder(captured, start, end, maps)
    expected = actual = None
    at = start
    try:
        for data in sent:
            event = placed(data, at)
            at = event.end
            if event.placed and event.at.number >= end.number:
                break
            reference.add(event)
    except (SourceError, UnsupportedError) as error:
        expected = repr(error)
    try:
        kernel.feed(b"".join(sent))
        kernel.run(10**9)
    except (SourceError, UnsupportedError) as error:
        actual = repr(error)
    assert actual == expected
    read = kernel.count - sum(map(len, (rows.ops for rows in kernel._rows.values())))
    if expected is not None:
        return read
    assert kernel.at == at
    for decoder in (reference, kernel):
        decoder.mark(end)
    (changes, records), (others, of_others) = reference.decoded(), kernel.decoded()
    assert difference(changes, others) is None
    assert records.equals(of_others)
    return read


@pytest.mark.parametrize("name", NAMES)
def test_recorded_logs(name: str) -> None:
    sent = log(name)
    compared([event.data for event in sent], sent[0].at, sent[-1].end)
