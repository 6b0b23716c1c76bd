"""Bytes that are not a binlog: every truncation and random changes of real events give a BinlogError, never another exception."""

from __future__ import annotations

import contextlib
import json
import random
import struct
from collections.abc import Iterator

import pytest

from changefeed.errors import ProtocolError
from changefeed.mysql.binlog import BinlogError, Parser, codes, split_file
from changefeed.mysql.binlog.events import Heartbeat, Ignorable, Incident, Rotate, Rows
from changefeed.mysql.binlog.framing import Frame
from changefeed.mysql.binlog.json_binary import to_text
from changefeed.mysql.binlog.rows import KINDS
from tests.mysql.binlog.framing import framed
from tests.mysql.binlog.record import VECTORS

NAMES = sorted(path.stem for path in VECTORS.glob("*.binlog"))


def fed(parser: Parser, data: bytes) -> None:
    """Feeds bytes that may be refused; any other exception fails the test."""
    with contextlib.suppress(BinlogError):
        parser.feed(data)


def after(earlier: list[Frame]) -> Parser:
    """A parser that has the file's format and the table maps just before an event."""
    parser = Parser(checksum=True)
    for frame in [*earlier[:1], *(frame for frame in earlier[-3:] if frame.data[4] == codes.TABLE_MAP)]:
        parser.feed(frame.data, frame.position)
    return parser


def one_of_each(name: str) -> Iterator[tuple[list[Frame], Frame]]:
    """One event of each type, with the events that come before it in its file."""
    frames, seen = list(split_file((VECTORS / f"{name}.binlog").read_bytes())), set()
    for i, frame in enumerate(frames):
        if frame.data[4] not in seen:
            seen.add(frame.data[4])
            yield frames[:i], frame


@pytest.mark.parametrize("name", NAMES)
def test_every_truncation_of_an_event_is_refused(name: str) -> None:
    for earlier, frame in one_of_each(name):
        parser, data = after(earlier), frame.data
        for end in range(len(data) - 1) if len(data) < 3000 else random.Random(1).sample(range(len(data)), 300):
            with pytest.raises(BinlogError):
                parser.feed(data[:end], frame.position)


@pytest.mark.parametrize("name", NAMES)
def test_truncated_bodies_with_a_right_size_and_checksum_raise_nothing_else(name: str) -> None:
    for earlier, frame in one_of_each(name):
        body = frame.data[19:-4]
        ends = range(len(body)) if len(body) < 100 else random.Random(1).sample(range(len(body)), 100)
        for end in ends:
            fed(after(earlier), framed(frame.data[4], body[:end]))


@pytest.mark.parametrize("name", NAMES)
def test_changed_bytes_raise_nothing_else(name: str) -> None:
    changes = random.Random(4)
    for earlier, frame in one_of_each(name):
        for _ in range(30):
            body = bytearray(frame.data[19:-4])
            for _ in range(changes.choice([1, 1, 2, 8])):
                if body:
                    body[changes.randrange(min(len(body), 400))] = changes.choice(
                        [0, 1, 127, 128, 255, changes.randrange(256)]
                    )
            fed(after(earlier), framed(frame.data[4], bytes(body)))


def test_random_bodies_of_every_type_raise_nothing_else() -> None:
    changes = random.Random(5)
    for code in range(256):
        for size in (0, 1, 8, 40, 200):
            fed(Parser(checksum=True), framed(code, changes.randbytes(size)))


def test_random_json_is_refused_or_becomes_json() -> None:
    changes = random.Random(6)
    for _ in range(20_000):
        size = changes.choice([1, 5, 20, 60])
        data = bytes([changes.randrange(16), *(changes.choice([0, 1, 2, 3, 4, 7, 9, 12, 20]) for _ in range(size))])
        with contextlib.suppress(ProtocolError):
            json.loads(to_text(data))


def test_json_whose_members_share_their_bytes_is_refused() -> None:
    array, levels = b"\x00\x00\x04\x00", 20  # each array has two members, and both are the next array
    for _ in range(levels):
        array = struct.pack("<HHBHBH", 2, 10 + len(array), 2, 10, 2, 10) + array
    with pytest.raises(ProtocolError, match="values of JSON overlap"):
        to_text(b"\x02" + array)


def test_an_unknown_event_stops_with_type_and_position() -> None:
    with pytest.raises(BinlogError) as caught:
        Parser(checksum=True).feed(framed(99, b"x", position=1024))
    assert str(caught.value) == "binlog: type 99 at position 1000: unknown event, which must not be ignored"
    assert (caught.value.reason, caught.value.position, caught.value.event) == ("unknown-event", 1000, "type 99")


def test_an_unknown_event_that_may_be_ignored_is_named_ignorable() -> None:
    (event,) = Parser(checksum=True).feed(framed(99, b"x", flags=0x80))
    assert isinstance(event, Ignorable)


def test_a_wrong_checksum_is_refused() -> None:
    data = bytearray(framed(16, bytes(8), position=131))
    data[20] ^= 1
    with pytest.raises(BinlogError) as caught:
        Parser(checksum=True).feed(bytes(data))
    assert caught.value.reason == "bad-checksum"
    assert str(caught.value).startswith("binlog: XID_EVENT at position 100: checksum is ")


@pytest.mark.parametrize("method, following, is_right", [(0, 0, True), (0, 256, False), (1, 0, False)])
def test_a_format_description_for_a_connection_has_no_checksum_if_its_method_is_none(
    method: int, following: int, is_right: bool
) -> None:
    data = bytearray(next(split_file((VECTORS / f"{NAMES[0]}.binlog").read_bytes())).data)
    data[-5:] = bytes((method, 1, 2, 3, 4))
    data[13:17] = struct.pack("<I", following)
    with contextlib.nullcontext() if is_right else pytest.raises(BinlogError, match="checksum is"):
        Parser().feed(bytes(data))


def test_rows_of_a_table_without_a_map_are_refused() -> None:
    with pytest.raises(BinlogError) as caught:
        Parser(checksum=True).feed(framed(30, bytes.fromhex("070000000000 0100 0200 01 01 00"), position=200))
    assert str(caught.value) == "binlog: WRITE_ROWS_EVENT at position 164: table 7 has no table map in this statement"


def _uncompressed(payload: bytes) -> bytes:
    """The body of a payload whose events are not compressed."""
    size = b"\xfd" + struct.pack("<I", len(payload))[:3]
    return b"\x02\x03\xfc\xff\x00" + b"\x03\x04" + size + b"\x01\x04" + size + b"\0" + payload


@pytest.mark.parametrize("table", ["ffffff000000", "ffffffffffff"])
def test_rows_of_no_table_end_the_statement(table: str) -> None:
    (rows,) = Parser(checksum=True).feed(framed(30, bytes.fromhex(f"{table} 0100 0200 01 00")))
    assert isinstance(rows, Rows)
    assert (rows.statement_end, rows.rows) == (True, ())
    with pytest.raises(BinlogError):
        Parser(checksum=True).feed(framed(30, bytes.fromhex(f"{table} 0000 0200 01 00")))


@pytest.mark.parametrize("name", ["mysql-types", "mysql-json"])
def test_changed_bytes_in_a_payload_raise_nothing_else(name: str) -> None:
    changes, frames = random.Random(7), list(split_file((VECTORS / f"{name}.binlog").read_bytes()))
    inner = [bytearray(frame.data[:-4]) for frame in frames if frame.data[4] in (codes.TABLE_MAP, *KINDS)][:6]
    for event in inner:
        event[9:13] = struct.pack("<I", len(event))
    for _ in range(100):
        payload = bytearray(b"".join(inner))
        for _ in range(changes.choice([0, 1, 2])):
            payload[changes.randrange(len(payload))] = changes.randrange(256)
        fed(after(frames[:1]), framed(codes.TRANSACTION_PAYLOAD, _uncompressed(bytes(payload))))
    assert len(after(frames[:1]).feed(framed(codes.TRANSACTION_PAYLOAD, _uncompressed(b"".join(inner))))) == 1 + len(
        inner
    )


def test_events_that_only_a_connection_has() -> None:
    parser = Parser(checksum=True)
    (rotate,) = parser.feed(framed(4, struct.pack("<Q", 4) + b"binlog.000007", flags=0x20))
    assert isinstance(rotate, Rotate)
    assert (rotate.file, rotate.position, rotate.header.artificial, rotate.header.position) == (
        "binlog.000007",
        4,
        True,
        None,
    )
    (beat,) = parser.feed(framed(27, b"binlog.000007", position=500))
    assert isinstance(beat, Heartbeat)
    assert (beat.file, beat.position) == ("binlog.000007", 500)
    (beat,) = parser.feed(framed(41, b"\x01\x0dbinlog.000007\x02\x09\xfe" + struct.pack("<Q", 2**33) + b"\0"))
    assert isinstance(beat, Heartbeat)
    assert (beat.file, beat.position) == ("binlog.000007", 2**33)
    for more in (b"", b"PS\xbc\x9c"):  # MySQL writes two checksums
        (incident,) = parser.feed(framed(26, b"\x01\x00\x05lost!" + more))
        assert isinstance(incident, Incident)
        assert (incident.incident, incident.message) == (1, "lost!")


def test_events_without_checksums() -> None:
    (event,) = Parser().feed(framed(4, struct.pack("<Q", 4) + b"binlog.000007", flags=0x20, checksum=False))
    assert isinstance(event, Rotate)
    assert event.file == "binlog.000007"
