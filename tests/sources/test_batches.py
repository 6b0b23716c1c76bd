"""Records of partitions are divided into batches."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changefeed.errors import ConfigError, SourceError
from changefeed.sources.kafka.batches import begin, short, stops

A, B, C = ("shop", 0), ("shop", 1), ("more", 0)
BOUNDS = {A: (5, 20), B: (0, 0)}

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
        ({A: 90, B: 3, C: 0}, {B, C}),
        ({A: 90, B: 7, C: 4}, {C}),
        ({A: 5, B: 3, C: 2}, set()),  # all fit
        ({A: 90, B: 0, C: 0}, set()),  # the short ones have no records
        ({A: 90, B: 80, C: 70}, set()),
    ],
)
def test_short_partitions_fit_into_a_batch(ends: dict[tuple[str, int], int], expected: set[tuple[str, int]]) -> None:
    assert short({A: 0, B: 0, C: 0}, ends, 10) == expected


@pytest.mark.parametrize(
    "starting, expected",
    [
        ("earliest", {A: 5, B: 0}),
        ("latest", {A: 20, B: 0}),
        ('{"shop": {"0": 7, "1": -2}}', {A: 7, B: 0}),
        ('{"shop": {"0": -1, "1": 0}}', {A: 20, B: 0}),
        ('{"shop": {"0": -2, "1": -1}}', {A: 5, B: 0}),
        ('{"shop": {"0": 3, "1": 0}}', {A: 3, B: 0}),  # expired: `compare.moved` reports it
    ],
)
def test_a_pipeline_begins_at_the_starting_offsets(starting: str, expected: dict[tuple[str, int], int]) -> None:
    assert begin(starting, BOUNDS) == expected


def test_an_offset_behind_the_end_is_an_error() -> None:
    with pytest.raises(ConfigError) as caught:
        begin('{"shop": {"0": 21, "1": 0}}', BOUNDS)
    assert str(caught.value) == "source.starting-offsets: shop:0 ends at 20, before offset 21. Correct the offset"


@pytest.mark.parametrize("named", [{"0": 5}, {"0": 5, "1": 0, "2": 0}])
def test_starting_offsets_name_every_partition(named: dict[str, int]) -> None:
    with pytest.raises(SourceError) as caught:
        begin(json.dumps({"shop": named}), BOUNDS)
    assert caught.value.transient
    assert "source.starting-offsets does not name exactly the partitions" in str(caught.value)
