"""Members of enum and set: from index and bits, from text."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.frames.reshape.parts import Reshaped, blank
from changefeed.model.types import ColumnType


def index_to_member(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    """Converts the indexes of an ENUM, from 1, to members; 0 is the empty text, and larger indexes are irregular."""
    members = target.members or ()
    array, irregular = blank(array, pc.greater(array, pa.scalar(len(members), pa.uint16())))
    return pa.array(["", *members], pa.string()).take(array), irregular


def bits_to_members(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    """Converts the bit masks of a SET to lists of members, each distinct mask once; unknown bits are irregular."""
    members = target.members or ()
    most = pa.scalar(2 ** min(len(members), 64) - 1, pa.uint64())
    array, irregular = blank(array, pc.greater(array, most))
    coded = array.dictionary_encode()
    names = [",".join(m for i, m in enumerate(members) if bits >> i & 1) for bits in coded.dictionary.to_pylist()]
    return pa.array(names, pa.string()).take(coded.indices), irregular


def text_to_members(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    """Checks texts against the members of an ENUM or SET; other texts are irregular."""
    members = target.members or ()
    if target.name == "enum":
        return blank(array, pc.invert(pc.is_in(array, value_set=pa.array(["", *members, None], pa.string()))))
    coded = array.dictionary_encode()
    known = set(members)
    wrong = [bool(text) and not known.issuperset(text.split(",")) for text in coded.dictionary.to_pylist()]
    return blank(array, pa.array(wrong, pa.bool_()).take(coded.indices))
