"""Accidents of three kinds, from a random generator: to bytes, to the members of JSON, to the fields of Protocol Buffers.

What is changed in the structure stays in the producer's style to the byte, so that most of it is a row, of another shape.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_DEEP = b"[" * 60 + b"]" * 60
VALUES = (
    *(b"null", b"null", b"true", b"false", b'""', b"0", b"-0", b"1", b"-1", b"0.0", b"1.0", b"1.5", b"1E5", b"1e400", b"4.9E-324"),
    *(b"18446744073709551615", b"18446744073709551616", b"-9223372036854775808", b"9223372036854775807", b"2147483648"),
    *(b"NaN", b'"NaN"', b'"Infinity"', b"Infinity", b"12345678901234567.125", b"0.1000000000000000055511151231257827"),
    *(b'"2026-01-02 03:04:05"', b'"2026-01-02 03:04:05.1"', b'"2026-01-02 03:04:05.123456"', b'"0000-00-00 00:00:00"'),
    *(b'"2026-01-02T03:04:05Z"', b'"2026-01-02T03:04:05.123Z"', b'"2026-01-02T03:04:05.123456Z"', b'"2026-02-30T00:00:00Z"'),
    *(b'"2026-01-02"', b'"2026-02-30"', b'"-838:59:59"', b'"839:00:00"', b'"AAE="', b'"AAE"', b'"12.50"', b'"1e5"', b"{}", b"[]"),
    *(b'"\\ud800"', b'"\\ud83d\\ude00"', b'"\\ufffd"', b'"\xef\xbf\xbd"', b'"\xff"', b'"\xed\xa0\x80"', b'"\\u0000"', b'"a\\/b"', b'"\x00"'),
    *(b'"__debezium_unavailable_value"', b'"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="', b'{"a":{"b":[1,null]}}', b'"naif"'),
)
NAMES = (b'"id"', b'"ID"', b'"a"', b'""', b'"op"', b'"v"', b'"t"', b'"h"', b'"f"', b'"\\u0069d"', b'"a\\u0000b"', b'"\xff"', b'"payload"')
Tree = Any  # bytes for a scalar, ("{", ((name, Tree), …)) or ("[", (Tree, …))


def in_bytes(data: bytes, donor: bytes, rng: random.Random) -> bytes:
    """Bytes flipped, dropped, doubled, cut off, or moved in from elsewhere."""
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
            out[at:at] = rng.choice((b"1e400", b"-0", b"9" * 20, b"9" * 5000, b"null", b'""', b"\\ud800", b"[[[", b" ", b"\n"))
        case 6:
            del out[at:]
        case 7:
            out[at : at + 1] = _varint(rng.choice((0, 1, 127, 128, 2**31, 2**63, 2**64 - 1)))
        case _:
            out[at:at] = rng.randbytes(rng.randrange(1, 4))
    return bytes(out)


def in_json(data: bytes, rng: random.Random) -> bytes:
    """A member or an item changed, dropped, doubled, renamed, or moved; bytes where it is not JSON."""
    tree = _tree(data)
    if tree is None:
        return in_bytes(data, data, rng)
    return _text(_changed(tree, rng))


@lru_cache(4096)
def _tree(data: bytes) -> Tree | None:
    tokens = _TOKEN.findall(data)
    if b"".join(tokens) != data:  # white space, or no JSON
        return None
    try:
        tree, at = _parsed(tokens, 0)
    except (IndexError, RecursionError):
        return None
    return tree if at == len(tokens) else None


def _parsed(tokens: list[bytes], at: int) -> tuple[Tree, int]:
    opening = tokens[at]
    if opening not in (b"{", b"["):
        return opening, at + 1
    items, end, at = [], b"}" if opening == b"{" else b"]", at + 1
    while tokens[at] != end:
        if opening == b"{":
            name = tokens[at]
            item, at = _parsed(tokens, at + 2)
            items.append((name, _text(item) if name == b'"schema"' else item))
        else:
            item, at = _parsed(tokens, at)
            items.append(item)
        at += tokens[at] == b","
    return (opening, tuple(items)), at + 1


def _text(tree: Tree) -> bytes:
    if type(tree) is bytes:
        return tree
    opening, items = tree
    if opening == b"{":
        return b"{" + b",".join(name + b":" + _text(item) for name, item in items) + b"}"
    return b"[" + b",".join(map(_text, items)) + b"]"


def _changed(tree: Tree, rng: random.Random) -> Tree:
    if type(tree) is bytes or not tree[1] or rng.random() < 0.02:
        return _scalar(tree, rng)
    opening, items = tree
    named, at = opening == b"{", rng.randrange(len(items))
    item = items[at][1] if named else items[at]
    if (type(item) is not bytes and rng.random() < 0.85) or rng.random() < 0.35:
        new = _changed(item, rng)
        return opening, (*items[:at], (items[at][0], new) if named else new, *items[at + 1 :])
    other = rng.randrange(len(items))
    match rng.randrange(6):
        case 0:
            return opening, items[:at] + items[at + 1 :]
        case 1:
            return opening, (*items[: at + 1], *items[at:])
        case 2:
            moved = list(items)
            moved[at], moved[other] = moved[other], moved[at]
            return opening, tuple(moved)
        case 3 if named:
            name = rng.choice((*NAMES, items[other][0]))
            return opening, (*items[:at], (name, item), *items[at + 1 :])
        case 4 if named:  # the value of another member
            return opening, (*items[:at], (items[at][0], items[other][1]), *items[at + 1 :])
        case 5 if named:
            return opening, (*items[:at], (rng.choice(NAMES), rng.choice(VALUES)), *items[at:])
    return tree


def _scalar(tree: Tree, rng: random.Random) -> Tree:
    if rng.random() < 0.002:
        return rng.choice((b"9" * 5000, b"1." + b"3" * 5000, b'"' + b"x" * 5000 + b'"', _DEEP))
    if type(tree) is bytes and tree[:1].isdigit() and rng.random() < 0.3:
        return b"%d" % rng.choice((int(tree[:15] if tree[:15].isdigit() else 0) + rng.choice((1, -1, 1000)), rng.getrandbits(64)))
    return rng.choice(VALUES)


# --- Protocol Buffers: [(number, wire type, int or bytes or list of fields)]


def in_fields(data: bytes, rng: random.Random) -> bytes:
    """A field changed, dropped, doubled, or moved at any depth, with the lengths around it; bytes where there are none."""
    fields = _fields(data)
    if not fields:
        return in_bytes(data, data, rng)
    return _written(_changed_fields(fields, rng, 0))


@lru_cache(4096)
def _fields(data: bytes) -> tuple[tuple[int, int, Any], ...] | None:
    found, at = [], 0
    while at < len(data):
        key, at = _read_varint(data, at)
        if at < 0 or not key >> 3:
            return None
        if key & 7 == 0:
            value, at = _read_varint(data, at)
            if at < 0:
                return None
            found.append((key >> 3, 0, value))
        elif key & 7 == 2:
            size, at = _read_varint(data, at)
            if at < 0 or at + size > len(data):
                return None
            found.append((key >> 3, 2, data[at : at + size]))
            at += size
        else:
            return None
    return tuple(found)


def _changed_fields(fields: tuple[tuple[int, int, Any], ...], rng: random.Random, depth: int) -> tuple[Any, ...]:
    at = rng.randrange(len(fields))
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
                new = (number, 0, rng.choice((0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15, value ^ 1, 2**31, 2**63, 2**64 - 1)))
            case _:
                new = (number, 2, rng.choice((in_bytes(value, value, rng), b"", b"\0", b"utf8", b"latin1", b"1.50", value[::-1])))
    return (*fields[:at], new, *fields[at + 1 :])


def _written(fields: tuple[Any, ...]) -> bytes:
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


# --- what a protocol's records are made of

Change = Callable[[bytes, random.Random], bytes]


def framed(change: Change) -> Change:
    """The same of one message among those of a key or value in the Open Protocol's frames."""

    def changed(data: bytes, rng: random.Random) -> bytes:
        head = data[:8] if data[:8] == b"\0\0\0\0\0\0\0\1" else b""
        parts, at = [], len(head)
        while at + 8 <= len(data):
            size = int.from_bytes(data[at : at + 8], "big")
            parts.append(data[at + 8 : at + 8 + size])
            at += 8 + size
        if not parts:
            return data
        place = rng.randrange(len(parts))
        parts[place] = change(parts[place], rng)
        return head + b"".join(len(part).to_bytes(8, "big") + part for part in parts)

    return changed
