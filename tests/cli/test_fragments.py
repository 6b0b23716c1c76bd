"""Commands on logs of a protocol whose events may span several records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import Result

from changefeed.record_log import read, write
from tests.cli.command import invoke, records_in

DATA = Path(__file__).parent.parent / "data" / "shop"
FOUR = DATA / "tencent-dts" / "four-partitions-split.jsonl.gz"
ONE = DATA / "tencent-dts" / "one-partition.jsonl.gz"
OPEN = DATA / "ticdc-open" / "open-3.newarch.jsonl.gz"
DTS = ("--protocol", "tencent-dts")


def _events(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.heavy
@pytest.mark.parametrize("log, options", [(ONE, ()), (FOUR, ()), (FOUR, ("-o", "max_data_bytes=700"))])
def test_a_history_through_text_and_back_has_the_same_bytes(
    log: Path, options: tuple[str, ...], tmp_path: Path
) -> None:
    decoded = invoke("decode", log, *DTS, *options, "--json")
    assert decoded.return_value == 0
    events, out = tmp_path / "events.jsonl", tmp_path / "out.jsonl.gz"
    events.write_bytes(decoded.stdout_bytes)
    encoded = invoke("encode", events, *DTS, *options, "--out", out)
    assert (encoded.return_value, encoded.stderr) == (0, "")
    assert records_in(out) == records_in(log)


@pytest.fixture
def halves(tmp_path: Path) -> tuple[Path, Path]:
    """A log in two files; the first one ends inside a group, after two of its records."""
    (records,) = pa.Table.from_batches(read(FOUR)).slice(5, 15).combine_chunks().to_batches()
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    write(first, [records.slice(0, 2)])
    write(second, [records.slice(2)])
    return first, second


def test_a_group_goes_on_in_the_next_log(halves: tuple[Path, Path]) -> None:
    done = invoke("decode", *halves, *DTS, "--json")
    assert done.return_value == 0
    assert {event["kind"] for event in _events(done)} == {"shape", "row", "transaction"}


def test_a_log_that_ends_inside_a_group_ends_in_dead_letters(halves: tuple[Path, Path], tmp_path: Path) -> None:
    done = invoke("decode", halves[0], *DTS, "--json")
    assert done.return_value == 3
    assert [event["error"] for event in _events(done)] == [
        "tencent-dts: the log ends inside of the group of records that this one belongs to (topic-subs-shop:0:5)",
        "tencent-dts: the log ends inside of the group of records that this one belongs to (topic-subs-shop:0:6)",
    ]
    args = ("--from", "tencent-dts", "--to", "tencent-dts", "--out", tmp_path / "out.jsonl", "--json")
    done = invoke("transcode", halves[0], *args)
    assert (done.return_value, json.loads(done.stdout)["dead_letters"]) == (3, 2)


def _first(log: Path, count: int, out: Path) -> Path:
    write(out, pa.Table.from_batches(read(log)).slice(0, count).to_batches())
    return out


def test_changes_of_another_protocol_end_with_a_checkpoint(tmp_path: Path) -> None:
    log, out = _first(OPEN, 300, tmp_path / "log.jsonl"), tmp_path / "out.jsonl.gz"
    args = ("--from", "ticdc-open", "--to", "tencent-dts", "--allow-loss", "resolved")
    done = invoke("transcode", log, *args, "--out", out, "--json")
    assert done.return_value == 0
    events = _events(invoke("decode", out, *DTS, "--json"))
    assert "checkpoint" in events[-1]["origin"]
    read = _events(invoke("decode", log, "--protocol", "ticdc-open", "--json"))
    sent, received = ([e for e in some if e["kind"] == "row"] for some in (events, read))
    assert [(e["op"], e["table"]) for e in sent] == [(e["op"], e["table"]) for e in received]
    members = set[str]()
    for after, before in (
        (f[side], t[side]) for f, t in zip(sent, received, strict=True) for side in ("before", "after")
    ):
        assert (after is None) == (before is None)
        for name, value in (before or {}).items():
            if isinstance(value, dict) and {"index", "bits"} & value.keys():  # the log's DDL has the members
                members.add(after[name])
            else:
                assert after[name] == value
    assert {"new", "paid"} <= members


def test_changes_of_this_protocol_are_written_in_another(tmp_path: Path) -> None:
    log, out = _first(ONE, 100, tmp_path / "log.jsonl"), tmp_path / "out.jsonl.gz"
    args = ("--from", "tencent-dts", "--to", "ticdc-open", "--allow-loss", "checkpoint")
    done = invoke("transcode", log, *args, "--out", out, "--json")
    assert (done.return_value, json.loads(done.stdout)["dead_letters"]) == (0, 0)
    events = _events(invoke("decode", out, "--protocol", "ticdc-open", "--json"))
    ours = _events(invoke("decode", log, *DTS, "--json"))
    assert [e["op"] for e in events if e["kind"] == "row"] == [e["op"] for e in ours if e["kind"] == "row"]
