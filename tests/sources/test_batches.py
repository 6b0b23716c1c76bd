"""Records of partitions are divided into batches."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changefeed.errors import ConfigError, SourceError
from changefeed.sources.kafka.batches import begin, stops

A, B, C = ("shop", 0), ("shop", 1), ("more", 0)
FIRSTS, ENDS = {A: 5, B: 0}, {A: 20, B: 0}

_offsets = st.integers(0, 10**12)
_ranges = st.dictionaries(
    st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 9)),
    st.tuples(_offsets, _offsets).map(sorted),
    min_size=1,
)


@given(ranges=_ranges, limit=st.integers(1, 10**6))
def test_batches_bring_every_partition_to_its_end(ranges: dict[tuple[str, int], list[int]], limit: int) -> None:
    starts, ends = ({place: bounds[at] for place, bounds in ranges.items()} for at in (0, 1))
    left = sum(ends.values()) - sum(starts.values())
    for _ in range(20):
        after = stops(starts, ends, limit)
        taken = {place: after[place] - start for place, start in starts.items()}
        assert all(0 <= count <= ends[place] - starts[place] for place, count in taken.items())
        assert all(taken[place] for place in starts if starts[place] < ends[place])
        assert min(left, limit) - len(starts) <= sum(taken.values()) <= limit + len(starts)
        left -= sum(taken.values())
        starts = after
    assert (starts == ends) is (left == 0)


@pytest.mark.parametrize(
    "ends, limit, expected",
    [
        ({A: 150, B: 150}, 100, {A: 60, B: 60}),
        ({A: 150, B: 60}, 100, {A: 83, B: 36}),
        ({A: 60, B: 60}, 100, {A: 60, B: 60}),
        ({A: 100_010, B: 11}, 100, {A: 109, B: 11}),
        ({A: 10, B: 5}, 100, {A: 10, B: 10}),  # an end may lie before the start
    ],
)
def test_shares_are_in_proportion_to_what_is_left(
    ends: dict[tuple[str, int], int], limit: int, expected: dict[tuple[str, int], int]
) -> None:
    assert stops({A: 10, B: 10}, ends, limit) == expected


@pytest.mark.parametrize(
    "ends, expected",
    [
        ({A: 90, B: 3, C: 0}, {A: 0, B: 3, C: 0}),
        ({A: 90, B: 7, C: 4}, {A: 0, B: 0, C: 4}),
        ({A: 5, B: 3, C: 2}, {A: 5, B: 3, C: 2}),  # all fit
        ({A: 90, B: 0, C: 0}, {A: 10, B: 0, C: 0}),  # the short ones have no records
        ({A: 90, B: 60, C: 50}, {A: 4, B: 3, C: 2}),  # none is short
    ],
)
def test_short_partitions_are_read_first(
    ends: dict[tuple[str, int], int], expected: dict[tuple[str, int], int]
) -> None:
    assert stops({A: 0, B: 0, C: 0}, ends, 10, short_first=True) == expected


@pytest.mark.parametrize(
    "starting, expected",
    [
        ("earliest", {A: 5, B: 0}),
        ("latest", {A: 20, B: 0}),
        ('{"shop": {"0": 7, "1": -2}}', {A: 7, B: 0}),
        ('{"shop": {"0": -1, "1": 0}}', {A: 20, B: 0}),
        ('{"shop": {"0": -2, "1": -1}}', {A: 5, B: 0}),
        ('{"shop": {"0": 20, "1": 0}}', {A: 20, B: 0}),
    ],
)
def test_a_pipeline_begins_at_the_starting_offsets(starting: str, expected: dict[tuple[str, int], int]) -> None:
    assert begin(starting, FIRSTS, ENDS) == expected


@pytest.mark.parametrize("offset", [3, 21])
def test_an_offset_without_a_record_is_an_error(offset: int) -> None:
    with pytest.raises(ConfigError) as caught:
        begin(json.dumps({"shop": {"0": offset, "1": 0}}), FIRSTS, ENDS)
    assert str(caught.value) == (
        f"source.starting-offsets: shop:0 has the records 5 to 19, and not {offset}. Correct the offset"
    )


@pytest.mark.parametrize("named", [{"0": 5}, {"0": 5, "1": 0, "2": 0}])
def test_starting_offsets_name_every_partition(named: dict[str, int]) -> None:
    with pytest.raises(SourceError) as caught:
        begin(json.dumps({"shop": named}), FIRSTS, ENDS)
    assert caught.value.transient
    assert "source.starting-offsets does not name exactly the partitions" in str(caught.value)
