"""Tombstones: those of a delete that is there, and those that stand for one, with and without the kernel."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from changefeed.codec import decoding
from changefeed.model import text
from changefeed.model.batch import Decoded, record_batch
from changefeed.model.event import Heartbeat
from tests.protocols.debezium_mysql.records import SOURCE, bytes_of, decode, encode, errors, record, rows, value

NULL = b'{"schema":null,"payload":null}'
FILE = 1 << 40


def key(number: int) -> bytes:
    return b'{"id":%d}' % number


def at(offset: int, number: int, op: str | None, pos: int = 0, **more: Any) -> dict[str, Any]:
    """A record of the row `number`; op None is a tombstone."""
    source = SOURCE.replace('"pos":13400', f'"pos":{pos}')
    image = f'{{"id":{number}}}'
    data = None if op is None else value("null" if op == "d" else image, image if op == "d" else "null", op, source)
    return {**record(key(number), data), "offset": offset, **more}


def events(changes: Decoded) -> list[tuple[str, int, int | None]]:
    """Op, offset and sequence of each row."""
    known = [
        (r["op"], r["offset"], r["sequence"])
        for table in changes.tables
        for r in table.rows.select(["op", "offset", "sequence"]).to_pylist()
    ]
    return sorted(known, key=lambda event: event[1])


def test_a_tombstone_behind_its_delete_has_no_event() -> None:
    sent = [at(0, 1, "d", 100), at(1, 1, None)]
    changes = decode(*sent)
    assert events(changes) == [("delete", 0, FILE | 100)]
    assert bytes_of(encode(changes)) == sent
    assert decode(record(None, None)).tables == []


def test_a_tombstone_without_its_delete_is_a_delete_behind_the_row_before_it() -> None:
    sent = [at(0, 1, "c", 100), at(1, 2, "c", 200), at(5, 1, None), at(6, 3, "c", 700)]
    changes = decode(*sent)
    assert events(changes) == [
        ("insert", 0, FILE | 100), ("insert", 1, FILE | 200), ("delete", 5, FILE | 200), ("insert", 6, FILE | 700),
    ]  # fmt: skip
    assert [row.before for row in rows(changes)][2] == {"id": 1}
    (again,) = text.parse(text.lines(changes))
    assert bytes_of(encode(changes)) == bytes_of(encode(again)) == sent


def test_a_tombstone_at_the_beginning_is_a_delete_before_the_next_row() -> None:
    assert events(decode(at(5, 1, None), at(6, 3, "c", 700))) == [("delete", 5, FILE | 699), ("insert", 6, FILE | 700)]
    assert events(decode(at(5, 1, None))) == [("delete", 5, 0)]
    assert events(decode(at(5, 1, None), unwrap="true")) == [("delete", 5, None)]
    other = {"partition": 1}
    assert events(decode(at(0, 1, "d", 100, **other), at(1, 1, None))) == [
        ("delete", 0, FILE | 100),
        ("delete", 1, 0),
    ]


@pytest.mark.parametrize("number", [1 << 23, (1 << 24) - 1])
def test_the_place_may_be_of_the_highest_binlog_files(number: int) -> None:
    source = SOURCE.replace("mysql-bin.000001", f"mysql-bin.{number:06}")
    row = {**record(key(1), value(source=source)), "offset": 0}
    ddl = {**record(b"{}", f'{{"source":{source},"databaseName":"inv","ddl":"DROP TABLE t"}}'.encode()), "offset": 0}
    place = number << 40 | 13400
    assert events(decode(row, at(1, 2, None))) == [("insert", 0, place), ("delete", 1, place)]
    assert events(decode(ddl, at(1, 2, None))) == [("delete", 1, place)]


@pytest.mark.parametrize("mode", ["on", "off"])
def test_the_delete_may_be_in_an_earlier_batch(mode: Any) -> None:
    decoder = decoding.decoder("debezium-mysql", kernel=mode)
    first = [at(0, 1, "c", 100), at(1, 1, "d", 200), at(0, 1, "c", 100, partition=1)]
    assert len(events(decoder.decode(record_batch(first)))) == 3
    later = [at(2, 1, None), at(3, 2, "c", 300), at(4, 2, None), at(2, 1, None, partition=1)]
    assert events(decoder.decode(record_batch(later))) == [
        ("delete", 2, 0), ("insert", 3, FILE | 300), ("delete", 4, FILE | 300),
    ]  # fmt: skip


@pytest.mark.parametrize("follows", [True, False])
def test_a_tombstone_of_an_old_converter_comes_back(follows: bool) -> None:
    sent = [at(0, 1, "d", 100), {**at(1 if follows else 2, 1, None), "value": NULL}, at(3, 2, "d", 200), at(4, 2, None)]
    changes = decode(*sent)
    assert [event[0] for event in events(changes)] == ["delete"] * (2 if follows else 3)
    assert len(changes.control) == int(follows)
    (again,) = text.parse(text.lines(changes))
    options = {"tombstones.on.delete": "true" if follows else "false"}
    if follows:
        assert bytes_of(encode(changes, **options)) == bytes_of(encode(again, **options)) == sent


def test_a_null_key_of_an_old_converter_has_no_columns() -> None:
    sent = record(NULL, value())
    changes = decode(sent)
    (row,) = rows(changes)
    assert row.shape.keys == ()
    assert bytes_of(encode(changes)) == [sent]


def test_a_tombstone_that_names_no_row_is_dead_if_its_delete_is_certainly_not_there() -> None:
    for topic, name, why in (
        ("srv1.inv.t", b"Struct{id=1}", "key is not an object"),
        (
            "all",
            key(1),
            'row does not name its database and table, nor does the topic; does "add.fields" have db,table?',
        ),
        ("srv1.inv.t", b"{}", "row has no columns"),
    ):
        alone = {**record(name, None), "topic": topic}
        changes = decode(alone)
        assert [type(event) for event in changes.control] == [Heartbeat]
        assert bytes_of(encode(changes)) == [alone]
        before = {**alone, "offset": 3, "value": value()}
        assert errors(decode(before, alone)) == [f"debezium-mysql: {why} ({topic}:0:41)"]


def test_names_that_a_topic_spells_in_another_way_are_those_of_the_rows() -> None:
    source = SOURCE.replace('"table":"t"', '"table":"we-ird $t"')
    row = {**record(key(1), value(source=source)), "topic": "srv1.inv.we-ird__t"}
    tombstone = {**record(key(2), None), "topic": "srv1.inv.we-ird__t", "offset": 49}
    assert [r.shape.table for r in rows(decode(row, tombstone))] == ["we-ird $t"] * 2


KINDS: list[list[str | None]] = [["c"], ["u"], ["d", None], ["d", None], ["d"], [None], [None, None]]


@pytest.mark.parametrize("seed", range(4))
def test_kernel_and_reference_agree_on_tombstones(seed: int) -> None:
    chance = random.Random(seed)
    places: dict[tuple[str, int], int] = {}
    sent = list[dict[str, Any]]()
    for pos in range(1, 300):
        topic, partition, number = chance.choice(["srv1.inv.t", "srv1.inv.u"]), chance.randrange(2), chance.randrange(5)
        kinds = chance.choice(KINDS)
        for kind in kinds:
            offset = places.get((topic, partition), 0) + chance.choice([0, 0, 0, 1])
            places[topic, partition] = offset + 1
            made = at(offset, number, kind, pos * 100, topic=topic, partition=partition)
            if kind is not None:
                made["value"] = made["value"].replace(b'"table":"t"', b'"table":"%b"' % topic[-1:].encode())
            elif chance.random() < 0.2:
                made["value"] = NULL
            sent.append(made)
        if chance.random() < 0.3:
            chance.shuffle(sent[-3:])
    decoders = [decoding.decoder("debezium-mysql", kernel="on"), decoding.decoder("debezium-mysql", kernel="off")]
    start = 0
    while start < len(sent):
        batch = record_batch(sent[start : start + chance.choice([1, 7, 60])])
        start += len(batch)
        known, expected = (decoder.decode(batch) for decoder in decoders)
        assert list(text.lines(known)) == list(text.lines(expected))
        assert [pa.Table.from_batches([t.rows]).to_pylist() for t in known.tables] == [
            pa.Table.from_batches([t.rows]).to_pylist() for t in expected.tables
        ]
