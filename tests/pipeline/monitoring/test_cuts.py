"""Cuts for people, and the places in a binlog that `--until` takes."""

from __future__ import annotations

import random

import pytest

from changefeed.api.moments import moment_of
from changefeed.errors import ConfigError
from changefeed.pipeline.monitoring.cuts import commit_ts_of, cut_text, offset_text

GTID = "3e11fa47-71ca-11e1-9e33-c80aa9429562:23"


@pytest.mark.parametrize(
    "commit_ts, name, binlog, text",
    [
        (None, None, False, "no cut yet"),
        (463268005898553859, None, False, "463268005898553859 (2026-01-01T00:26:35.352Z)"),
        (12, None, False, "12"),
        (1 << 40 | 14624, None, True, "binlog 000001:14624"),
        (1 << 40 | 14624, GTID, True, f"{GTID} (binlog 000001:14624)"),
        (5, "a:1-5", False, "a:1-5"),
        (None, GTID, True, GTID),
    ],
)
def test_a_cut_is_shown_as_people_know_it(commit_ts: int | None, name: str | None, binlog: bool, text: str) -> None:
    assert cut_text(commit_ts, name, binlog=binlog) == text


def test_until_takes_the_places_that_are_shown() -> None:
    for _ in range(100):
        commit_ts = random.randrange(1 << 23) << 40 | random.randrange(1 << 40)
        assert moment_of(cut_text(commit_ts, binlog=True)) == commit_ts


@pytest.mark.parametrize("text", ["mysql-bin.000001:14624", "000001:14624", "1:14624", "host.example.bin.000001:14624"])
def test_a_place_is_also_taken_as_the_server_writes_it(text: str) -> None:
    assert moment_of(text) == 1 << 40 | 14624


@pytest.mark.parametrize(
    "text", ["2026-03-01T12:00", "2026-03-01T12:00:00", GTID, "0-1-100", "a:b", ":1", "1:", f"1:{1 << 40}"]
)
def test_other_texts_are_not_taken_for_places(text: str) -> None:
    assert commit_ts_of(text) is None


def test_a_text_that_is_nothing_names_what_is_possible() -> None:
    with pytest.raises(ConfigError, match="nor a GTID, nor a place in the binlog such as 000001:14624"):
        moment_of("yesterday")


def test_offsets_are_numbers_of_kafka_or_places_in_a_binlog() -> None:
    assert offset_text(118204, binlog=True) == "118204"
    assert offset_text(1 << 40 | 14624, binlog=True) == "binlog 000001:14624"
    assert offset_text(1 << 40 | 14624, binlog=False) == str(1 << 40 | 14624)
