"""Many topics in one batch: new tables of all of them are learned together, and nothing changes its place."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from changefeed.codec.kernel_decoder import KernelDecoder
from changefeed.model.batch import record_batch
from tests.kernel.agreement import Both

TABLES = 40
ENVELOPE = '"op":"c","ts_ms":1767225600040'
SOURCE = '"version":"3.6","connector":"mysql","name":"srv","ts_ms":1767225600000,"snapshot":"false","db":"shop"'


def row(table: int, number: int, note: Any) -> dict[str, Any]:
    after = json.dumps({"id": number, "note": note, f"v{table}": number}, separators=(",", ":"))
    source = f'{SOURCE},"table":"t{table}","file":"bin.000001","pos":{number}'
    value = f'{{"before":null,"after":{after},"source":{{{source}}},{ENVELOPE}}}'
    return {"topic": f"srv.shop.t{table}", "key": b'{"id":%d}' % number, "value": value.encode()}


def records(rows: int) -> Iterator[dict[str, Any]]:
    """Rows of many tables, whose `note` is at first NULL, between records that are none."""
    for table in range(TABLES):
        yield {"topic": f"srv.shop.t{table}", "key": None, "value": b'{"ts_ms":%d}' % table}  # a heartbeat
        for number in range(rows):
            yield row(table, number, [None, "text", 7][min(number, 2)])
        yield {"topic": f"srv.shop.t{table}", "key": None, "value": b"no JSON"}


@pytest.mark.heavy
@pytest.mark.parametrize("rows", [1, 3, 100])
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_new_tables_in_topics_of_their_own_are_decoded_alike(rows: int, size: int) -> None:
    both, sent = Both("debezium-mysql"), list(records(rows))
    numbered = [{"partition": 0, "offset": offset, **record} for offset, record in enumerate(sent)]
    for _ in range(2):
        for start in range(0, len(sent), size):
            both.decode(record_batch(numbered[start : start + size]))


@pytest.mark.heavy
@pytest.mark.parametrize("topic", ["srv.shop.t{table}", "srv.{half}", "srv.{turn}", "srv"])
@pytest.mark.parametrize("size", [50, 10_000])
def test_topics_that_take_turns_are_decoded_alike(topic: str, size: int) -> None:
    """A table in each topic, several tables in a topic, and tables that are in several topics."""
    both, sent = Both("debezium-mysql"), list[dict[str, Any]]()
    for offset in range(30 * TABLES):
        number, table = divmod(offset, TABLES)
        name = topic.format(table=table, half=table % 2, turn=number % 3)
        sent.append({"partition": 0, "offset": offset, **row(table, number, [None, "text"][number % 2]), "topic": name})
        if number % 7 == 6:
            sent[-1]["value"] = None  # a tombstone
    for _ in range(2):
        before = both.unmatched
        for start in range(0, len(sent), size):
            both.decode(record_batch(sent[start : start + size]))
    assert both.unmatched == before


def test_large_values_of_topics_that_take_turns_are_decoded_alike() -> None:
    both, note = Both("debezium-mysql"), "x" * 40_000
    sent = [{"partition": 0, "offset": at, **row(at % 2, at, note)} for at in range(200)]
    for _ in range(2):
        assert sum(map(len, both.decode(record_batch(sent)).tables)) == len(sent)
    assert both.unmatched == 2


def test_records_without_a_topic_are_decoded_alike() -> None:
    both = Both("debezium-mysql")
    sent = [
        row(table, number, "text") | {"topic": topic} for table, topic in enumerate([None, "t"]) for number in range(3)
    ]
    both.decode(record_batch({"partition": 0, "offset": offset, **record} for offset, record in enumerate(sent)))
    assert both.unmatched == 2


def test_new_tables_of_many_topics_are_learned_together(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, run = list[int](), KernelDecoder._run_kernel

    def counted(decoder: KernelDecoder, *arguments: Any) -> Any:
        calls.append(len(calls))
        return run(decoder, *arguments)

    monkeypatch.setattr(KernelDecoder, "_run_kernel", counted)
    both = Both("debezium-mysql")
    sent = [row(table, number, "text" if number % 2 else None) for table in range(TABLES) for number in range(100)]
    batch = record_batch({"partition": 0, "offset": offset, **record} for offset, record in enumerate(sent))
    assert sum(map(len, both.decode(batch).tables)) == len(sent)
    assert (both.unmatched, len(calls)) == (2 * TABLES, 2)  # a row without and one with a note
    both.decode(batch)
    assert (both.unmatched, len(calls)) == (2 * TABLES, 3)
