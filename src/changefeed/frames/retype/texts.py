"""Texts and bytes after a change of type: cut to the new length, padded for BINARY, encoded or decoded between the two.

The length of CHAR and VARCHAR is in characters, that of BINARY and VARBINARY in bytes, and so is the room of the TEXT and
BLOB kinds. CHAR has no spaces at its end.
"""

from __future__ import annotations

from itertools import takewhile

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.errors import UnsupportedError
from changefeed.model.types import BINARIES, ColumnType
from changefeed.mysql import charsets

_MOST = {"tiny": 2**8 - 1, "": 2**16 - 1, "medium": 2**24 - 1, "long": 2**32 - 1}
_UTF8 = frozenset({"utf8", "utf8mb3", "utf8mb4"})
ASCII = frozenset({*_UTF8, "ascii"})  # character sets in which a text has the bytes that it has in UTF-8


def room(t: ColumnType) -> int:
    """Returns the length that values of a text or binary type have at most, in its unit; of JSON, too."""
    if t.name in ("char", "binary"):
        return t.length or 1
    if t.name in ("varchar", "varbinary"):
        return _MOST[""] if t.length is None else t.length
    return _MOST[t.name.removesuffix("text").removesuffix("blob").removesuffix("json") if t.name != "json" else "long"]


def holds_all(old: ColumnType, new: ColumnType) -> bool:
    """Whether every text of a type, or every value of a binary type, stays as it is in another."""
    if new.name in ("char", "binary") and new.name != old.name:
        return False
    if new.name == "binary":
        return old.length == new.length
    counted = "text" in new.name and old.name == "char"  # up to 4 bytes a character
    return room(new) >= room(old) * (4 if counted else 1)


def cut(array: pa.Array, new: ColumnType, charset: str = "") -> pa.Array:
    """Cuts texts to the length of a text type."""
    if new.name in ("char", "varchar"):
        if new.name == "char" or new.length is not None:
            array = pc.utf8_slice_codeunits(array, 0, room(new))
        return pc.utf8_rtrim(array, " ") if new.name == "char" else array
    most = room(new)
    size = pc.binary_length(array) if charset in _UTF8 else pc.utf8_length(array)
    longest = pc.max(size).as_py()
    if longest is None or longest <= most:
        return array
    long = pc.greater(size, most)
    return pa.array(
        [
            v.encode()[:most].decode(errors="ignore") if is_long else v
            for v, is_long in zip(array.to_pylist(), long.to_pylist(), strict=True)
        ],
        pa.string(),
    )


def fitted(array: pa.Array, new: ColumnType) -> pa.Array:
    """Cuts bytes to the length of a binary type, and pads them for BINARY."""
    most = room(new)
    if new.name == "binary":
        array = pc.binary_join_element_wise(array, pa.scalar(bytes(most), pa.binary()), pa.scalar(b"", pa.binary()))
    longest = pc.max(pc.binary_length(array)).as_py()
    return array if longest is None or longest <= most else pc.binary_slice(array, 0, most)


def is_unicode(charset: str) -> bool:
    """Whether the character set has every character."""
    return charset in ("utf8mb4", "utf16", "utf16le", "utf32", "gb18030")


def has_single_bytes(charset: str) -> bool:
    """Whether every character is one byte; False for an empty name."""
    return bool(charset) and charset not in charsets.MULTIPLE


def recoded(array: pa.Array, charset: str) -> pa.Array:
    """Replaces the characters that a character set does not have by question marks."""
    if charset in _UTF8:
        return pc.replace_substring_regex(array, r"[^\x{0}-\x{FFFF}]", "?")
    return pa.array(
        [v if v is None else charsets.decode(_encoded(v, charset), charset) for v in array.to_pylist()], pa.string()
    )


def encoded(array: pa.Array, charset: str) -> pa.Array:
    """Encodes texts in a character set; a character that it does not have becomes a question mark."""
    if charset in ASCII:
        return array.cast(pa.binary())
    return pa.array([v if v is None else _encoded(v, charset) for v in array.to_pylist()], pa.binary())


def _encoded(text: str, charset: str) -> bytes:
    try:
        return charsets.encode(text, charset)
    except UnsupportedError:
        return b"".join(_one(character, charset) for character in text)


def _one(character: str, charset: str) -> bytes:
    try:
        return charsets.encode(character, charset)
    except UnsupportedError:
        return charsets.encode("?", charset)


def decoded(array: pa.Array, charset: str, *, marked: bool) -> pa.Array:
    """Decodes bytes: an invalid one becomes a question mark, or ends the text where the server checks it, unless `marked`."""
    if charset in _UTF8:
        try:
            return array.cast(pa.string())
        except pa.ArrowInvalid:
            pass
    ends = not marked and charset in (*charsets.MULTIPLE, "ascii")
    return pa.array([v if v is None else _decoded(v, charset, ends=ends) for v in array.to_pylist()], pa.string())


def _decoded(data: bytes, charset: str, *, ends: bool) -> str:
    text = charsets.decode_marked(data, charset)
    if ends:
        return "".join(takewhile(lambda c: not charsets.is_marked(c), text))
    return "".join("?" if charsets.is_marked(c) else c for c in text)


def is_binary(t: ColumnType) -> bool:
    """Whether values of the type are bytes."""
    return t.name in BINARIES
