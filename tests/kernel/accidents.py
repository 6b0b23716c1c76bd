"""Accidents of three kinds, from a random generator: to bytes, to the members of JSON, to the fields of Protocol Buffers.

Changes to the structure keep the producer's style to the byte, so that most results are still rows, of other shapes.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)  # prose: of JSON
_DEEP = b"[" * 60 + b"]" * 60
VALUES = (
    *(
        b"null",
        b"null",
        b"true",
        b"false",
        b'""',
        b"0",
        b"-0",
        b"1",
        b"-1",
        b"0.0",
        b"1.0",
        b"1.5",
        b"1E5",
        b"1e400",
        b"4.9E-324",
    ),
    *(b"18446744073709551615", b"18446744073709551616", b"-9223372036854775808", b"9223372036854775807", b"2147483648"),
    *(b"NaN", b'"NaN"', b'"Infinity"', b"Infinity", b"12345678901234567.125", b"0.1000000000000000055511151231257827"),
    *(b'"2026-01-02 03:04:05"', b'"2026-01-02 03:04:05.1"', b'"2026-01-02 03:04:05.123456"', b'"0000-00-00 00:00:00"'),
    *(
        b'"2026-01-02T03:04:05Z"',
        b'"2026-01-02T03:04:05.123Z"',
        b'"2026-01-02T03:04:05.123456Z"',
        b'"2026-02-30T00:00:00Z"',
    ),
    *(
        b'"2026-01-02"',
        b'"2026-02-30"',
        b'"-838:59:59"',
        b'"839:00:00"',
        b'"AAE="',
        b'"AAE"',
        b'"12.50"',
        b'"1e5"',
        b"{}",
        b"[]",
    ),
    *(
        b'"\\ud800"',
        b'"\\ud83d\\ude00"',
        b'"\\ufffd"',
        b'"\xef\xbf\xbd"',
        b'"\xff"',
        b'"\xed\xa0\x80"',
        b'"\\u0000"',
        b'"a\\/b"',
        b'"\x00"',
    ),
    *(
        b'"__debezium_unavailable_value"',
        b'"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="',
        b'{"a":{"b":[1,null]}}',
        b'"naif"',
    ),
)
NAMES = (
    b'"id"',
    b'"ID"',
    b'"a"',
    b'""',
    b'"op"',
    b'"v"',
    b'"t"',
    b'"h"',
    b'"f"',
    b'"\\u0069d"',
    b'"a\\u0000b"',
    b'"\xff"',
    b'"payload"',
)
_COMMA = ord(",")
_DATA, _EVENT, _DML, _ROW = 4, 2, 2, 3  # fields of tencent-dts: of an envelope, an entry, an event, a DML event
Field: TypeAlias = tuple[int, int, Any]


class Node(NamedTuple):
    """The place of a JSON value; for objects and arrays also where items begin and their names end, and their values."""

    start: int
    end: int
    named: bool = False
    items: tuple[tuple[int, int, Node], ...] = ()


def in_bytes(data: bytes, donor: bytes, rng: random.Random) -> bytes:
    """Bytes flipped, dropped, doubled, cut off, or inserted from another place."""
    out, at = bytearray(data), rng.randrange(len(data) + 1)
    match rng.randrange(9):
        case 0 if at < len(out):
            out[at] ^= 1 << rng.randrange(8)
        case 1 if at < len(out):
            out[at] = rng.choice(b'\0\xff"\\{}[]:,-+.eE0919tfhvupdn\x80\xed\x01\x02\x7f')
        case 2:
            del out[at : at + rng.randrange(1, 9)]
        case 3:
            out[at:at] = out[at : at + rng.randrange(1, 9)]
        case 4:
            start = rng.randrange(len(donor) + 1)
            out[at : at + rng.randrange(9)] = donor[start : start + rng.randrange(9)]
        case 5:
            out[at:at] = rng.choice(
                (b"1e400", b"-0", b"9" * 20, b"9" * 5000, b"null", b'""', b"\\ud800", b"[[[", b" ", b"\n")
            )
        case 6:
            del out[at:]
        case 7:
            out[at : at + 1] = _varint(rng.choice((0, 1, 127, 128, 2**31, 2**63, 2**64 - 1)))
        case _:
            out[at:at] = rng.randbytes(rng.randrange(1, 4))
    return bytes(out)


def in_json(data: bytes, rng: random.Random, times: int = 1) -> bytes:
    """Members or items changed, dropped, doubled, renamed or moved; changes bytes if the data is not JSON."""
    tree = _tree(data)
    if tree is None:
        return in_bytes(data, data, rng)
    edits = sorted(edit for _ in range(times) for edit in _edits(data, tree, rng))
    out: list[bytes] = []
    done = 0
    for start, end, new in edits:
        if start >= done:  # of two that overlap, the first
            out += data[done:start], new
            done = end
    return b"".join((*out, data[done:]))


@lru_cache(4096)
def _tree(data: bytes) -> Node | None:
    tokens = [(match.start(), match.end()) for match in _TOKEN.finditer(data)]
    if (
        not tokens
        or tokens[0][0]
        or tokens[-1][1] < len(data)
        or any(one[1] != next[0] for one, next in pairwise(tokens))
    ):
        return None  # white space, or not JSON
    try:
        tree, at = _parsed(data, tokens, 0)
    except (IndexError, RecursionError):
        return None
    return tree if at == len(tokens) else None


def _parsed(data: bytes, tokens: list[tuple[int, int]], at: int) -> tuple[Node, int]:
    start, end = tokens[at]
    opening, items = data[start:end], []
    if opening not in (b"{", b"["):
        return Node(start, end), at + 1
    closing, at = (b"}" if opening == b"{" else b"]"), at + 1
    while data[tokens[at][0] : tokens[at][1]] != closing:
        name = tokens[at]
        item, at = _parsed(data, tokens, at + 2 if opening == b"{" else at)
        items.append((name[0], name[1], item))
        at += data[tokens[at][0]] == _COMMA
    return Node(start, tokens[at][1], opening == b"{", tuple(items)), at + 1


def _edits(data: bytes, tree: Node, rng: random.Random) -> Iterator[tuple[int, int, bytes]]:
    """Bytes to replace for one accident, as (start, end, replacement), at a random node of the tree."""
    while tree.items and rng.random() >= 0.02:
        at = rng.randrange(len(tree.items))
        start, name_end, item = tree.items[at]
        opaque = tree.named and data[start:name_end] == b'"schema"' and rng.random() < 0.8
        if (item.items and not opaque and rng.random() < 0.85) or rng.random() < 0.35:
            tree = item if not opaque else Node(item.start, item.end)
            continue
        yield from _edits_of_item(data, tree, at, rng)
        return
    yield tree.start, tree.end, _scalar(data[tree.start : tree.end], rng)


def _edits_of_item(data: bytes, tree: Node, at: int, rng: random.Random) -> Iterator[tuple[int, int, bytes]]:
    start, name_end, item = tree.items[at]
    other_start, other_name_end, other = rng.choice(tree.items)
    match rng.randrange(6):
        case 0 if at:
            yield tree.items[at - 1][2].end, item.end, b""
        case 0:
            yield start, tree.items[1][0] if len(tree.items) > 1 else item.end, b""
        case 1:
            yield item.end, item.end, b"," + data[start : item.end]
        case 2:
            yield start, item.end, data[other_start : other.end]
            yield other_start, other.end, data[start : item.end]
        case 3 if tree.named:
            yield start, name_end, rng.choice((*NAMES, data[other_start:other_name_end]))
        case 4 if tree.named:  # the value of another member
            yield item.start, item.end, data[other.start : other.end]
        case _ if tree.named:
            yield start, start, rng.choice(NAMES) + b":" + rng.choice(VALUES) + b","
        case _:
            yield item.start, item.end, _scalar(data[item.start : item.end], rng)


def _scalar(old: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.002:
        return rng.choice((b"9" * 5000, b"1." + b"3" * 5000, b'"' + b"x" * 5000 + b'"', _DEEP))
    if old[:1].isdigit() and rng.random() < 0.3:
        return b"%d" % rng.choice(
            (int(old[:15] if old[:15].isdigit() else 0) + rng.choice((1, -1, 1000)), rng.getrandbits(64))
        )
    return rng.choice(VALUES)


# --- Protocol Buffers: [(number, wire type, int or bytes or list of fields)]


def in_fields(data: bytes, rng: random.Random, times: int = 1) -> bytes:
    """Fields changed, dropped, doubled or moved at any depth, with corrected lengths; changes bytes if there are no fields."""
    for _ in range(times):
        fields = _fields(data)
        data = _written(_changed_fields(fields, rng, 0)) if fields else in_bytes(data, data, rng)
    return data


@lru_cache(4096)
def _fields(data: bytes) -> tuple[Field, ...] | None:
    fields: list[Field] = []
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        if at < 0 or not key >> 3:
            return None
        if key & 7 == 0:
            value, at = _read_varint(data, at)
            if at < 0:
                return None
            fields.append((key >> 3, 0, value))
        elif key & 7 == 2:
            size, at = _read_varint(data, at)
            if at < 0 or at + size > len(data):
                return None
            fields.append((key >> 3, 2, data[at : at + size]))
            at += size
        else:
            return None
    return tuple(fields)


def _changed_fields(fields: tuple[Field, ...], rng: random.Random, depth: int) -> tuple[Any, ...]:
    nested = [at for at, (_, kind, value) in enumerate(fields) if kind == 2 and len(value) > 8]
    at = rng.choice(nested) if nested and rng.random() < 0.7 else rng.randrange(len(fields))
    number, kind, value = fields[at]
    inner = _fields(value) if kind == 2 and depth < 8 else None
    if inner and rng.random() < 0.8:
        new: Any = (number, 2, _written(_changed_fields(inner, rng, depth + 1)))
    else:
        match rng.randrange(7):
            case 0:
                return fields[:at] + fields[at + 1 :]
            case 1:
                return (*fields[: at + 1], *fields[at:])
            case 2:
                moved, other = list(fields), rng.randrange(len(fields))
                moved[at], moved[other] = moved[other], moved[at]
                return tuple(moved)
            case 3:
                new = (rng.randrange(1, 18), kind, value)
            case 4:
                new = (number, 2 - kind, b"x" if kind == 0 else 5)
            case _ if kind == 0:
                new = (
                    number,
                    0,
                    rng.choice((0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15, value ^ 1, 2**31, 2**63, 2**64 - 1)),
                )
            case _:
                new = (
                    number,
                    2,
                    rng.choice((in_bytes(value, value, rng), b"", b"\0", b"utf8", b"latin1", b"1.50", value[::-1])),
                )
    return (*fields[:at], new, *fields[at + 1 :])


def _written(fields: Sequence[Field]) -> bytes:
    return b"".join(
        _varint(number << 3 | kind) + (_varint(value) if kind == 0 else _varint(len(value)) + value)
        for number, kind, value in fields
    )


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            return 0, -1
        value |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return value, at
    return 0, -1


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def in_blob(data: bytes, rng: random.Random, times: int = 1) -> bytes:
    """Changes bytes without a structure."""
    for _ in range(times):
        data = in_bytes(data, data, rng)
    return data


# --- the formats of each protocol's records

Change: TypeAlias = Callable[[bytes, random.Random, int], bytes]


def framed(change: Change) -> Change:
    """The same change for one of the messages in the frames of Open Protocol's keys and values."""

    def changed(data: bytes, rng: random.Random, times: int) -> bytes:
        head, parts = _messages(data)
        if not parts:
            return data
        place = rng.randrange(len(parts))
        return _framed(head, [*parts[:place], change(parts[place], rng, times), *parts[place + 1 :]])

    return changed


def single_messages(key: bytes | None, value: bytes | None) -> list[tuple[bytes, bytes]]:
    """Keys and values of Open Protocol records with one message each; none if there is only one."""
    (head, keys), (_, values) = _messages(key or b""), _messages(value or b"")
    return (
        [(_framed(head, [k]), _framed(b"", [v])) for k, v in zip(keys, values, strict=False)] if len(keys) > 1 else []
    )


def single_rows(key: bytes | None, value: bytes | None) -> list[tuple[bytes | None, bytes]]:
    """Keys and values of tencent-dts records with one row or other event each; none if there is only one."""
    envelope = _fields(value or b"") or ()
    entries = [entry for data in _bodies(envelope, _DATA) for entry in _fields(data) or ()]
    single = [one for _, _, entry in entries if type(entry) is bytes for one in _single_rows(entry)]
    return [(key, _with(envelope, _DATA, _written([(1, 2, one)]))) for one in single] if len(single) > 1 else []


def _single_rows(entry: bytes) -> Iterator[bytes]:
    """The entry once for each of its rows; an entry without rows as it is."""
    parts = _fields(entry) or ()
    events = [_fields(event) or () for event in _bodies(parts, _EVENT)]
    changes = [_fields(dml) or () for event in events for dml in _bodies(event, _DML)]
    for event, change in zip(events, changes, strict=False):
        rows = _bodies(change, _ROW)
        rest = [field for field in change if field[0] != _ROW]
        for row in rows:
            yield _with(parts, _EVENT, _with(event, _DML, _written([*rest, (_ROW, 2, row)])))
        if rows:
            return
    yield entry


def _bodies(fields: Sequence[Field], number: int) -> list[bytes]:
    return [value for field_number, _, value in fields if field_number == number and type(value) is bytes]


def _with(fields: Sequence[Field], number: int, value: bytes) -> bytes:
    return _written(
        [(field_number, kind, value if field_number == number else old) for field_number, kind, old in fields]
    )


def _messages(data: bytes) -> tuple[bytes, list[bytes]]:
    head = data[:8] if data[:8] == b"\0\0\0\0\0\0\0\1" else b""
    parts, at = [], len(head)
    while at + 8 <= len(data):
        size = int.from_bytes(data[at : at + 8], "big")
        parts.append(data[at + 8 : at + 8 + size])
        at += 8 + size
    return head, parts


def _framed(head: bytes, parts: list[bytes]) -> bytes:
    return head + b"".join(len(part).to_bytes(8, "big") + part for part in parts)
