"""Members of ENUM and SET after a change of type.

The server looks each text up among the new members: the text itself, else the number that it is, as an index or as bits. A
member that is not found is '' in an ENUM, and left out of a SET.
"""

from __future__ import annotations

import unicodedata

import pyarrow as pa

from changefeed.model.types import ColumnType


def is_certain(old: ColumnType, new: ColumnType) -> bool:
    """Whether the members of two ENUMs or SETs are the same or clearly differ: not only in case or accents.

    The collation of the column decides about the latter. Between ENUM and SET, a comma in a member parts the members of a SET;
    of a number with bits that the SET does not have, MariaDB drops these bits, and MySQL the number.
    """
    before, after = old.members or (), new.members or ()
    if old.name != new.name:
        has_commas = any("," in member for member in (*before, *after))
        has_high_bits = new.name == "set" and any(_number(member) >= 1 << len(after) for member in before)
        if has_commas or has_high_bits:
            return False
    folded = {_folded(m) for m in after}
    return all(m in after or _folded(m) not in folded for m in before)


def _folded(member: str) -> str:
    """Returns the member as the broadest collation compares it."""
    plain = unicodedata.normalize("NFKD", member.casefold())
    return "".join(c for c in plain if not unicodedata.combining(c)).rstrip(" ")


def keeps_all(old: ColumnType, new: ColumnType) -> bool:
    """Whether every value stays as it is spelled."""
    before, after = old.members or (), new.members or ()
    stay = [m for m in after if m in before]
    return set(before) <= set(after) and (old.name == "enum" or stay == list(before))


def converted(array: pa.Array, old: ColumnType, new: ColumnType) -> pa.Array:
    """Converts the values of an ENUM or SET to the members of another."""
    change = _enum if new.name == "enum" else _set
    return _each(array, lambda text: change(text, new.members or ()), pa.string())


def numbers(array: pa.Array, old: ColumnType) -> pa.Array:
    """Returns the index of an ENUM's values, or the bits of a SET's."""
    members = old.members or ()
    if old.name == "enum":
        return _each(array, lambda text: members.index(text) + 1 if text in members else 0, pa.int32())
    bits = {m: 1 << n for n, m in enumerate(members)}
    return _each(array, lambda text: sum(bits.get(m, 0) for m in text.split(",")), pa.uint64())


def _each(array: pa.Array, change: object, kind: pa.DataType) -> pa.Array:
    """Applies a function to each distinct text."""
    assert callable(change)
    coded = array.dictionary_encode()
    return pa.array([change(text) for text in coded.dictionary.to_pylist()], kind).take(coded.indices)


def _enum(text: str, members: tuple[str, ...]) -> str:
    if text in members:
        return text
    index = _number(text)
    return members[index - 1] if 1 <= index <= len(members) else ""


def _set(text: str, members: tuple[str, ...]) -> str:
    texts = text.split(",") if text else []
    if not any(t in members for t in texts) and (bits := _number(text)) < 1 << len(members):
        return ",".join(m for n, m in enumerate(members) if bits >> n & 1)
    return ",".join(m for m in members if m in texts)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0
