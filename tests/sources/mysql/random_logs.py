"""Logs of random tables: table maps with full metadata and row events, written byte by byte as a server writes them.

Most values are valid; some contradict their type, are impossible dates, or text that is invalid in its character set.
"""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass

from changefeed.mysql.binlog import codes
from changefeed.mysql.binlog.decimals import groups

Write = Callable[[random.Random], bytes]
_COLLATIONS = {
    "utf8mb4": 45,
    "latin1": 8,
    "binary": 63,
    "ascii": 11,
    "gbk": 28,
    "latin2": 2,
    "cp1251": 51,
    "ucs2": 35,
    "none": 3000,
}
_NUMERIC = (
    codes.TINY,
    codes.SHORT,
    codes.INT24,
    codes.LONG,
    codes.LONGLONG,
    codes.NEWDECIMAL,
    codes.FLOAT,
    codes.DOUBLE,
    codes.YEAR,
)
_CHARACTER = (codes.STRING, codes.VARCHAR, codes.BLOB, codes.GEOMETRY)  # of MariaDB
_MEMBERS = ("a", "b,c", "ä€", "")


@dataclass
class Column:
    """A column: its type, the bytes of its metadata, and a writer of values.

    Attributes:
        sent: the type in the table map: ENUM and SET are sent as STRING.
    """

    code: int
    metadata: bytes
    write: Write
    collation: int = 63
    sent: int | None = None
    unsigned: bool = False


def packed(number: int) -> bytes:
    """A length-encoded integer."""
    return bytes((number,)) if number < 0xFB else b"\xfc" + number.to_bytes(2, "little")


def bits(flags: list[bool], *, high: bool = False) -> bytes:
    """A bitmap, lowest or highest bit first."""
    data = bytearray((len(flags) + 7) // 8)
    for i, flag in enumerate(flags):
        data[i // 8] |= flag << (7 - i % 8 if high else i % 8)
    return bytes(data)


def framed(code: int, body: bytes, at: int, *, has_place: bool = True) -> bytes:
    """An event with header and checksum."""
    size = 19 + len(body) + 4
    data = struct.pack("<IBIIIH", 1_700_000_000 + at, code, 1, size, at + size if has_place else 0, 0) + body
    return data + zlib.crc32(data).to_bytes(4, "little")


def _raw(size: int) -> Write:
    return lambda r: r.choice([bytes(size), b"\xff" * size, b"\x80" + bytes(size - 1), r.randbytes(size)])


def _bits(width: int) -> Write:
    return lambda r: r.getrandbits(width).to_bytes((width + 7) // 8, "big")


def _decimal(precision: int, scale: int) -> Write:
    before, after = groups(precision, scale)

    def write(r: random.Random) -> bytes:
        data = bytearray()
        for width, digits in before + after:
            most = 10**digits if r.random() < 0.9997 else 256**width
            data += r.choice([0, most - 1, r.randrange(most)]).to_bytes(width, "big")
        data[0] ^= 0x80
        return bytes(byte ^ 0xFF for byte in data) if r.random() < 0.5 and any(data[1:]) else bytes(data)

    return write


def _date(r: random.Random) -> bytes:
    day = r.choice([0, r.randrange(1, 29), r.randrange(32)]) if r.random() < 0.1 else r.randrange(1, 29)
    month = r.randrange(16) if r.random() < 0.003 else r.randrange(1, 13)
    return (r.choice([1, 1970, 9999, r.randrange(10_000)]) << 9 | month << 5 | day).to_bytes(3, "little")


def _fraction(r: random.Random, digits: int) -> int:
    width = digits + digits % 2
    return r.choice([0, 10**width - 1, r.randrange(10**width)]) if r.random() < 0.9997 else (1 << 4 * width) - 1


def _clock(r: random.Random, hours: int) -> int:
    minute = r.randrange(60) if r.random() < 0.9997 else 63
    return int(r.choice([0, hours - 1, r.randrange(hours)])) << 12 | minute << 6 | r.randrange(60)


def _datetime(digits: int) -> Write:
    width = (digits + 1) // 2

    def write(r: random.Random) -> bytes:
        month, day = (0, 0) if r.random() < 0.02 else (r.randrange(1, 13), r.randrange(1, 29))
        year = r.choice([1, 1970, 2026, 9999, 0])
        number = 1 << 39 | (year * 13 + month) << 22 | day << 17 | _clock(r, 24)
        return number.to_bytes(5, "big") + _fraction(r, digits).to_bytes(width, "big")

    return write


def _time(digits: int) -> Write:
    bits_ = 8 * ((digits + 1) // 2)

    def write(r: random.Random) -> bytes:
        number = _clock(r, 839) << bits_ | _fraction(r, digits)
        return (r.choice([1, -1]) * number + (1 << (23 + bits_))).to_bytes(3 + bits_ // 8, "big")

    return write


def _timestamp(digits: int) -> Write:
    width = (digits + 1) // 2
    return lambda r: (
        r.choice([1, 2**32 - 1, r.randrange(2**32), r.randrange(2)]).to_bytes(4, "big")
        + _fraction(r, digits).to_bytes(width, "big")
    )


def _sized(size: int, most: int, charset: str) -> Write:
    words = ["", "word", "it's \n \\ \"", "größer", "名前", "🙂", "naïve €"]

    def write(r: random.Random) -> bytes:
        if charset == "binary" or r.random() < 0.01:
            data = r.randbytes(r.choice([0, 1, min(4, most), min(300, most)]))
        else:
            python = {"utf8mb4": "utf-8", "ascii": "ascii", "ucs2": "utf-16-be", "latin2": "iso8859-2", "none": "utf-8"}
            data = r.choice(words).encode(python.get(charset, charset), "ignore")[:most]
        return len(data).to_bytes(size, "little") + data

    return write


def _json(r: random.Random) -> bytes:
    text = r.choice([b"", b"name", b'"\\\n\x01', "größer".encode()])
    double = struct.pack(
        "<d", r.choice([0.0, -0.0, 1.5, 1e15, 1e-15, 123456789012345.0, -1e300, 5e-324, r.uniform(-1, 1)])
    )
    scalar = r.choice(
        [
            b"\x04" + bytes((r.randrange(3),)),
            b"\x05" + r.randbytes(2),
            b"\x08" + r.randbytes(4),
            b"\x09" + r.randbytes(8),
            b"\x0a" + r.randbytes(8),
            b"\x0b" + double,
            b"\x0c" + bytes((len(text),)) + text,
            b"\x0f\xf6\x04\x04\x02" + b"\x85\x0c",
            b"\x0f\x0c\x08" + (r.randrange(10**6) | (2026 * 13 + 3) << 46 | 5 << 41).to_bytes(8, "little"),
            b"\x0f\xfc" + bytes((100,)) + r.randbytes(100),
        ]
    )
    kind, value = scalar[:1], scalar[1:]
    if r.random() < 0.5:
        document = scalar
    elif kind in (b"\x04", b"\x05"):
        document = b"\x02" + struct.pack("<HH", 1, 7) + kind + value.ljust(2, b"\0")
    else:  # {"k": value}
        size = 4 + 4 + 3 + 1 + len(value)
        document = b"\x00" + struct.pack("<HHHH", 1, size, 11, 1) + kind + struct.pack("<H", 12) + b"k" + value
    if r.random() < 0.01:
        document = r.randbytes(20)
    return len(document).to_bytes(4, "little") + document


def _geometry(r: random.Random) -> bytes:
    data = r.randbytes(3) if r.random() < 0.01 else r.randbytes(25)
    return len(data).to_bytes(4, "little") + data


def _vector(r: random.Random) -> bytes:
    data = struct.pack("<3f", 1.5, r.uniform(-1, 1), r.choice([0.0, -0.0, 3e38]))
    return len(data).to_bytes(4, "little") + data


def any_column(r: random.Random) -> Column:
    """A column of a random type."""
    digits, charset = (
        r.randrange(7),
        r.choice(list(_COLLATIONS)) if r.random() < 0.2 else r.choice(["utf8mb4", "latin1", "binary"]),
    )
    collation, precision = _COLLATIONS[charset], r.randint(1, 65)
    scale = r.randint(0, min(precision, 38))
    integer, size = r.choice(
        [(codes.TINY, 1), (codes.SHORT, 2), (codes.INT24, 3), (codes.LONG, 4), (codes.LONGLONG, 8)]
    )
    width = r.choice([3, 20, 64])
    blob = r.choice([1, 2, 3, 4])
    most = r.choice([10, 255, 256, 1000])
    long = most | 0  # bytes of a CHAR, of which two bits are inverted in the byte of the type
    real = codes.STRING & ~0x30 | (~(long >> 4) & 0x30)
    return r.choice(
        [
            Column(integer, b"", _raw(size), unsigned=r.random() < 0.5),
            Column(codes.FLOAT, b"\x04", lambda r: struct.pack("<f", r.choice([0.0, 1.5, -0.1, 3e38, float("nan")]))),
            Column(codes.DOUBLE, b"\x08", lambda r: struct.pack("<d", r.choice([0.0, -0.1, 1e300, r.random()]))),
            Column(codes.NEWDECIMAL, bytes((precision, scale)), _decimal(precision, scale)),
            Column(codes.YEAR, b"", _raw(1)),
            Column(codes.BIT, bytes((width % 8, width // 8)), _bits(width)),
            Column(codes.DATE, b"", _date),
            Column(codes.DATETIME2, bytes((digits,)), _datetime(digits)),
            Column(codes.TIMESTAMP2, bytes((digits,)), _timestamp(digits)),
            Column(codes.TIME2, bytes((digits,)), _time(digits)),
            Column(codes.VARCHAR, most.to_bytes(2, "little"), _sized(1 if most < 256 else 2, most, charset), collation),
            Column(codes.STRING, bytes((real, long & 0xFF)), _sized(1 if long < 256 else 2, long, charset), collation),
            Column(codes.BLOB, bytes((blob,)), _sized(blob, 255, charset), collation),
            Column(codes.ENUM, b"\xf7\x01", lambda r: bytes((r.randrange(5 if r.random() < 0.9997 else 7),)), 45, codes.STRING),
            Column(codes.SET, b"\xf8\x01", lambda r: bytes((r.randrange(16 if r.random() < 0.9997 else 256),)), 45, codes.STRING),
            Column(codes.JSON, b"\x04", _json),
            Column(codes.GEOMETRY, b"\x04", _geometry),
            Column(codes.VECTOR, b"\x04", _vector),
        ]
    )  # fmt: skip


def table_map(number: int, name: str, columns: list[Column]) -> bytes:
    """The body of a table map."""
    numeric = [column.unsigned for column in columns if column.code in _NUMERIC]
    texts = [column.collation for column in columns if column.code in _CHARACTER]
    sets, enums = (sum(column.code == code for column in columns) for code in (codes.SET, codes.ENUM))
    members = packed(len(_MEMBERS)) + b"".join(packed(len(m.encode())) + m.encode() for m in _MEMBERS)
    names = [f"c{i}".encode() for i in range(len(columns))]
    optional = {
        1: bits(numeric, high=True),
        3: b"".join(map(packed, texts)),
        4: b"".join(packed(len(name)) + name for name in names),
        5: members * sets,
        6: members * enums,
        7: b"\0" * sum(column.code == codes.GEOMETRY for column in columns),
        8: b"\0",
        11: packed(45) * (sets + enums),
        13: b"\x03" * sum(column.code == codes.VECTOR for column in columns),
    }
    metadata = b"".join(column.metadata for column in columns)
    texts_of = b"".join(bytes((len(text),)) + text + b"\0" for text in (b"shop", name.encode()))
    return b"".join(
        [
            number.to_bytes(6, "little"), b"\x01\0", texts_of, packed(len(columns)), bytes(c.sent or c.code for c in columns),
            packed(len(metadata)), metadata, bits([True] * len(columns)),
            *(bytes((kind,)) + packed(len(value)) + value for kind, value in optional.items() if value),
        ]
    )  # fmt: skip


def rows(r: random.Random, number: int, columns: list[Column], code: int, *, flags: int) -> bytes:
    """The body of a row event of version 1 or 2."""
    count = len(columns)
    is_v2 = code >= codes.WRITE_ROWS
    op = (code - (codes.WRITE_ROWS if is_v2 else codes.WRITE_ROWS_V1)) % 3
    extra = b""
    if is_v2:
        tags = b"\x01\x07\0" + b"\x08\0" * (op == 1) if r.random() < 0.2 else b""
        extra = (2 + len(tags)).to_bytes(2, "little") + tags
    images = []
    for _ in range(2 if op == 1 else 1):
        images.append([True] * count if r.random() < 0.7 else [r.random() < 0.6 for _ in range(count)])
    body = (
        number.to_bytes(6, "little") + flags.to_bytes(2, "little") + extra + packed(count) + b"".join(map(bits, images))
    )
    for _ in range(r.choice([1, 2, 9])):
        for present in images:
            carried = [column for column, is_present in zip(columns, present, strict=True) if is_present]
            nulls = [r.random() < 0.2 for _ in carried]
            body += bits(nulls) + b"".join(c.write(r) for c, null in zip(carried, nulls, strict=True) if not null)
    return body


def random_log(seed: int, description: bytes, events: int = 12) -> list[bytes]:
    """The events of a log; `description` is a format description with checksums."""
    r = random.Random(seed)
    tables = [[any_column(r) for _ in range(r.choice([1, 3, 9, 17]))] for _ in range(3)]
    sent, at = [description], 4 + len(description)

    def add(code: int, body: bytes) -> None:
        nonlocal at
        sent.append(framed(code, body, at))
        at += len(sent[-1])

    for _ in range(events):
        add(codes.MARIADB_GTID, r.randbytes(12) + bytes(7))
        chosen = r.sample(range(3), r.choice([1, 1, 2]))
        for number in chosen:
            add(codes.TABLE_MAP, table_map(100 + number, f"t{number}", tables[number]))
        for last in (False, True):
            number = r.choice(chosen)
            kinds = [codes.WRITE_ROWS_V1, codes.UPDATE_ROWS_V1, codes.DELETE_ROWS_V1]
            code = r.choice([*kinds, codes.WRITE_ROWS, codes.UPDATE_ROWS, codes.DELETE_ROWS])
            add(code, rows(r, 100 + number, tables[number], code, flags=int(last)))
        add(codes.XID, r.randbytes(8))
    return sent
