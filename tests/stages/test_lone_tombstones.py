"""The records that are kept of a partition between two batches, so that a tombstone gets its place."""

from __future__ import annotations

from changefeed.stages.lone_tombstones import DELETED, LAST, LATEST, of_tables, still_last, with_latest


def test_the_highest_commit_ts_is_that_of_partitions_which_have_sent_something() -> None:
    dated = {"t": {0: {DELETED: (4, 0)}}}
    merged = with_latest(dated, {"t": {0: 700, 1: 800}, "u": {0: -1}}, 900)
    assert merged == {"t": {0: {DELETED: (4, 0), LATEST: (901, 700)}, 1: {LATEST: (901, 800)}}}
    assert dated == {"t": {0: {DELETED: (4, 0)}}}
    assert with_latest({}, {"t": {0: 700}}, None) == {"t": {0: {LATEST: (0, 700)}}}


def test_what_is_known_of_the_last_record_is_forgotten_behind_another() -> None:
    dated = {"t": {0: {DELETED: (4, 0), LAST: (4, 600), "shop.a": (2, 500)}, 1: {DELETED: (4, 0)}}}
    assert still_last(dated, {"t": {0: 5, 1: 5}}) == dated
    assert still_last(dated, {"t": {0: 6, 1: 6}}) == {"t": {0: {"shop.a": (2, 500)}}}


def test_tables_have_their_own_records() -> None:
    dated = {"t": {0: {LATEST: (0, 700), "": (1, 400), "shop.a": (2, 500)}}, "u": {0: {LATEST: (0, 1)}}}
    assert of_tables(dated) == {"t": {0: {"": (1, 400), "shop.a": (2, 500)}}}
