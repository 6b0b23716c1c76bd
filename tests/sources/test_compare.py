"""A ledger's source offset, compared with the topics that the brokers have now."""

from __future__ import annotations

import pytest

from changefeed.errors import ConfigError, SourceError
from changefeed.sources.kafka import compare
from changefeed.sources.kafka.source_offset import EARLIEST, SourceOffset, read
from changefeed.sources.kafka.topics import Topic

A, B = ("shop", 0), ("shop", 1)
ONE = SourceOffset({"shop": {"0": 10, "1": 20}}, {"shop": "a"})


def test_a_source_offset_is_read_as_it_was_written() -> None:
    assert read(ONE.text()) == ONE


def test_a_source_offset_from_before_ids_were_kept() -> None:
    assert read('{"offsets": {"0": 3}, "version": {"0": 4}}') == SourceOffset(
        {"offsets": {"0": 3}, "version": {"0": 4}}
    )


def test_new_partitions_begin_at_their_first_record() -> None:
    extended = ONE.extended({"shop": [0, 1, 2], "new": [0]})
    assert extended.offsets == {"shop": {"0": 10, "1": 20, "2": EARLIEST}, "new": {"0": EARLIEST}}
    assert extended.partitions() == {("shop", 0), ("shop", 1), ("shop", 2), ("new", 0)}


@pytest.mark.parametrize(
    "there, wanted, removed",
    [
        ({"shop": Topic("a", frozenset({0, 1}))}, {"shop"}, {}),
        ({"shop": Topic("a", frozenset({0, 1, 2}))}, {"shop", "new"}, {}),
        ({"shop": Topic("b", frozenset({0, 1}))}, {"shop"}, {"shop": compare.RECREATED}),
        ({"shop": Topic(None, frozenset({0, 1}))}, {"shop"}, {}),
        ({"shop": Topic(None, frozenset({0}))}, {"shop"}, {"shop": compare.RECREATED}),
        ({}, {"shop"}, {"shop": compare.DELETED}),
        ({"shop": Topic("a", frozenset({0, 1}))}, {"other"}, {"shop": compare.TAKEN_OUT}),
    ],
)
def test_changes_of_a_topic(there: dict[str, Topic], wanted: set[str], removed: dict[str, str]) -> None:
    assert compare.removed(ONE, there, wanted) == removed


def test_records_that_come_next_and_are_gone() -> None:
    with pytest.raises(SourceError) as error:
        compare.moved(ONE, {A: 11, B: 0}, {A: 30, B: 20})
    assert str(error.value) == (
        "Kafka no longer has the records 10 to 10 of shop:0, which come next: they expired before they were read. Start a new "
        "pipeline from a snapshot"
    )
    with pytest.raises(SourceError, match="at offset 20 of shop:1, which ends at 19: the brokers have lost records"):
        compare.moved(ONE, {A: 0, B: 0}, {A: 10, B: 19})


def test_without_ids_a_topic_that_ends_before_the_offset_was_created_again() -> None:
    old = SourceOffset(ONE.offsets)
    assert compare.moved(old, {A: 0, B: 0}, {A: 4, B: 20}) == {"shop": compare.RECREATED}
    assert compare.moved(old.extended({"new": [0]}), {("new", 0): 7}, {("new", 0): 9}) == {}


@pytest.mark.parametrize(
    "why, kind, message",
    [
        (
            compare.TAKEN_OUT,
            ConfigError,
            "source: topics that this pipeline has read are no longer named: a, b. Put them back, or set "
            "source.removed-topics to `continue` to go on without them",
        ),
        (
            compare.DELETED,
            SourceError,
            "topics that this pipeline reads were deleted, or are not visible to this user: a, b. Start a new pipeline from a "
            "snapshot, or set source.removed-topics to `continue` to go on without them",
        ),
        (
            compare.RECREATED,
            SourceError,
            "topics that this pipeline reads were deleted and created again: a, b. Their records do not "
            "continue those that were read. "
            "Start a new pipeline from a snapshot, or set source.removed-topics to `continue` to read them from their first "
            "record",
        ),
    ],
)
def test_a_stop_names_the_way_out(why: str, kind: type[Exception], message: str) -> None:
    error = compare.refusal({"b": why, "a": why})
    assert (type(error), str(error)) == (kind, message)
