"""Wide tables in TiCDC's protocols: every type with its extremes, unusual names, all forms of keys; see tests/data/ticdc.

All logs have the same changes of the same tables, except that Avro has none of tables without a key.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from changefeed.model import text
from changefeed.pipeline.operations.detect import detect
from tests.protocols.conformance.cases import DATA, History, bytes_of, compiled, decode, encode, lines

_FOLDER = DATA / "ticdc" / "wide"


def _logs() -> Iterator[History]:
    for name, log in json.loads((_FOLDER / "logs.json").read_text()).items():
        options = dict(log["options"])
        if "schema-registry" in options:
            options["schema-registry"] = str(_FOLDER / options["schema-registry"])
        yield History(log["protocol"], f"ticdc/wide/{name}.jsonl.zst", options, {"records": log["records"]}, "")


LOGS = {log.file.removeprefix("ticdc/wide/").removesuffix(".jsonl.zst"): log for log in _logs()}


@pytest.mark.parametrize("log", LOGS.values(), ids=str)
def test_all_records_are_decoded(log: History) -> None:
    assert log.records.num_rows == log.events["records"]
    assert [letter.error for letter in decode(log).dead] == []


@pytest.mark.heavy
@pytest.mark.parametrize("log", LOGS.values(), ids=str)
def test_it_is_written_as_it_was_read(log: History) -> None:
    changes = decode(log)
    assert encode(log, [changes]) == bytes_of(log.records)
    assert encode(log, list(text.parse(text.lines(changes)))) == bytes_of(log.records)


@pytest.mark.parametrize("log", LOGS.values(), ids=str)
def test_kernel_reads_what_the_reference_does(log: History) -> None:
    assert lines(compiled(log).decode(log.records)) == lines(decode(log))


@pytest.mark.parametrize("log", LOGS.values(), ids=str)
def test_its_protocol_is_detected(log: History) -> None:
    registry = {name: value for name, value in log.options.items() if name == "schema-registry"}
    (topic,) = detect([log.records], registry)
    assert topic.best is not None
    assert (topic.best.protocol, topic.best.trouble) == (log.protocol, None)


def images(name: str) -> dict[tuple[str, int, str], dict[str, Any]]:
    """Table, commit_ts and side -> values, without enums and sets: not all protocols have their members' names."""
    by_row: dict[tuple[str, int, str], dict[str, Any]] = {}
    for event in map(json.loads, lines(decode(LOGS[name]))):
        for side in ("before", "after") if event["kind"] == "row" else ():
            if event[side] is not None:
                values = {n: v for n, v in event[side].items() if not n.startswith(("c_enum", "c_set"))}
                by_row[event["table"], event["commit_ts"], side] = values
    return by_row


@pytest.mark.parametrize("one, other", [("open.newarch", "avro.newarch"), ("open.classic", "avro.classic")])
def test_rows_are_the_same(one: str, other: str) -> None:
    mine, theirs = images(one), images(other)
    both = [key for key in mine.keys() & theirs.keys() if key[0] not in ("odd-table.名<&>", "generated")]
    assert len(both) > 60
    for key in both:
        names = mine[key].keys() & theirs[key].keys()  # an old value without a name may belong to none of the columns
        if key[2] == "before":  # newarch writes null for empty values and zeros
            names = {name for name in names if mine[key][name] is not None}
        assert {n: mine[key][n] for n in names} == {n: theirs[key][n] for n in names}
