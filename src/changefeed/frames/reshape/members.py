"""Members of enum and set: from index and bits, from text."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.frames.reshape.parts import Reshaped, blank
from changefeed.model.types import ColumnType


def index_to_member(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    """The index of a member, from 1; 0 for the empty text. An index past the last member is invalid."""
    members = target.members or ()
    array, irregular = blank(array, pc.greater(array, pa.scalar(len(members), pa.uint16())))
    return pa.array(["", *members], pa.string()).take(array), irregular


def bits_to_members(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    """By distinct value: a column of sets has few of them."""
    members = target.members or ()
    most = pa.scalar(2 ** min(len(members), 64) - 1, pa.uint64())
    array, irregular = blank(array, pc.greater(array, most))
    coded = array.dictionary_encode()
    names = [",".join(m for i, m in enumerate(members) if bits >> i & 1) for bits in coded.dictionary.to_pylist()]
    return pa.array(names, pa.string()).take(coded.indices), irregular


def text_to_members(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    """Text that is a member already, or a list of members."""
    members = target.members or ()
    if target.name == "enum":
        return blank(array, pc.invert(pc.is_in(array, value_set=pa.array(["", *members, None], pa.string()))))
    coded = array.dictionary_encode()
    known = set(members)
    wrong = [bool(text) and not known.issuperset(text.split(",")) for text in coded.dictionary.to_pylist()]
    return blank(array, pa.array(wrong, pa.bool_()).take(coded.indices))
