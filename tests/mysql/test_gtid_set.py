"""Sets of GTIDs: against sets of numbers, drawn at random, and the bytes that servers read."""

from __future__ import annotations

import struct
import uuid
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changefeed.mysql.gtid_set import MariaDbGtids, MySqlGtids, parse

A, B = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "00008033-0000-4000-8000-000000000001"
INTERVALS = st.lists(st.tuples(st.sampled_from([A, B]), st.integers(1, 40), st.integers(0, 5)), max_size=20)


@given(INTERVALS)
def test_a_set_has_the_numbers_that_were_added(added: list[tuple[str, int, int]]) -> None:
    gtids, model = MySqlGtids(), set[tuple[str, int]]()
    for source, first, more in added:
        gtids.add(source, first, first + more)
        model |= {(source, number) for number in range(first, first + more + 1)}
    assert model == {(source, n) for source in (A, B) for n in range(1, 50) if gtids.has(source, n)}
    for known in gtids.intervals.values():  # ascending, with gaps
        assert all(end + 1 < start for (_, end), (start, _) in pairwise(known))
    again = parse(str(gtids))
    assert again == gtids


def test_sets_as_servers_print_them() -> None:
    assert parse(f"{A.upper()}:1-5:7,\n{B}:3") == MySqlGtids({A: [(1, 5), (7, 7)], B: [(3, 3)]})
    assert parse(f"{A}:1-5:red:2:4-9") == MySqlGtids({A: [(1, 5)], f"{A}:red": [(2, 2), (4, 9)]})
    assert parse("1-2-40,0-1-306") == MariaDbGtids({0: (1, 306), 1: (2, 40)})
    assert str(parse("1-2-40,0-1-306")) == "0-1-306,1-2-40"
    assert parse("") == MySqlGtids()


@pytest.mark.parametrize(
    "text", ["x", A, f"{A}:", f"{A}:0", f"{A}:5-4", f"{A}:1-2-3", "0-1", "0-1-2,x", f"{A}:1,0-1-2"]
)
def test_other_texts_are_errors(text: str) -> None:
    with pytest.raises(ValueError, match="is not a"):
        parse(text)


def test_the_bytes_of_a_set() -> None:
    data = MySqlGtids({A: [(1, 5), (7, 7)]}).encoded()
    assert data == struct.pack("<Q", 1) + uuid.UUID(A).bytes + struct.pack("<QQQQQ", 2, 1, 6, 7, 8)
    with pytest.raises(ValueError, match="have a tag"):
        MySqlGtids({f"{A}:red": [(1, 1)]}).encoded()


def test_a_position_of_mariadb_never_goes_back() -> None:
    position = MariaDbGtids()
    for number in (5, 7, 6):
        position.add(0, 1, number)
    assert str(position) == "0-1-7"
    assert (position.has(0, 7), position.has(0, 8), position.has(1, 1)) == (True, False, False)
