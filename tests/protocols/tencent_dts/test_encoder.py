"""Foreign changes as DTS records: numbers, checkpoints, partitions; and changes of DTS, edited or with new partitions."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from zlib import crc32

import pytest

from changefeed.columnar.events import in_order
from changefeed.errors import ConfigError, UnsupportedError
from changefeed.model import text
from changefeed.model.batch import BatchBuilder, Decoded
from changefeed.model.event import Heartbeat, Instant, Resolved, SchemaChange, TransactionMark
from changefeed.model.position import Place
from changefeed.model.table import Column, TableShape
from changefeed.model.types import ColumnType
from changefeed.protocols.base import ClosingEncoder, Stores
from tests.protocols.tencent_dts.records import (
    DTS,
    ID,
    checkpoint,
    data_of,
    decode,
    dml,
    encode,
    envelope,
    errors,
    number,
    record,
    rows,
    split,
)

SHAPE = TableShape(
    "shop", "orders", (Column("id", ColumnType("int"), False, True), Column("note", ColumnType("varchar"), True, False))
)
SECOND = 1767312000


def inserts(count: int, *, every: int = 0, topic: str = "shop", op: str = "insert") -> Decoded:
    """Rows of another protocol, `every` seconds apart."""
    built = BatchBuilder()
    for n in range(count):
        image = {"id": n, "note": "x" * 20}
        before, after = (image, None) if op == "delete" else (None, image)
        time = (SECOND + n * every) * 1000
        built.add(SHAPE, Place(topic, 7, n, None, n), op, before=before, after=after, commit_time=time)
    return Decoded(built.build())


def summary(batch: Any) -> list[str]:
    """For each record its position, its ps, and a letter for each event."""
    texts = []
    for line in batch.to_pylist():
        kinds = "".join(event_letter(e) for e in in_order(decode(line)))
        ps = next((h["value"].decode() for h in line["headers"] if h["key"] == "ps"), "-")
        texts.append(f"{line['topic']}:{line['partition']}:{line['offset']} ps {ps} {kinds}")
    return texts


def event_letter(event: Any) -> str:
    if isinstance(event, Heartbeat):
        return "C" if event.sequence is not None else "H"
    return {SchemaChange: "D", TransactionMark: "T"}.get(type(event), "r")


def test_foreign_rows_share_an_envelope() -> None:
    batch = encode(inserts(3))
    assert summary(batch) == ["shop:0:0 ps 1 rrr"]
    assert [row.origin["seqId"] for row in rows(decode(*batch.to_pylist()))] == [1, 2, 3]


def test_an_envelope_holds_no_more_than_max_data_bytes() -> None:
    one = len(encode(inserts(1), max_data_bytes=10_000).to_pylist()[0]["value"])
    assert summary(encode(inserts(3), max_data_bytes=2 * one)) == ["shop:0:0 ps 1 rr", "shop:0:1 ps 2 r"]


def test_an_entry_that_is_too_large_is_split() -> None:
    batch = encode(inserts(1), max_data_bytes=50)
    changes = decode(*batch.to_pylist())
    assert (len(batch), errors(changes), len(rows(changes))) == (3, [], 1)
    assert [line["headers"][0]["value"] for line in batch.to_pylist()] == [b"1", b"2", b"3"]


def test_entries_are_not_merged_if_the_options_forbid_it() -> None:
    assert len(encode(inserts(3), merge_entries="false")) == 3


@pytest.mark.parametrize(
    "op, written", [("insert", "insert"), ("read", "insert"), ("upsert", "insert"), ("delete", "delete")]
)
def test_ops(op: str, written: str) -> None:
    assert [row.op for row in rows(decode(*encode(inserts(1, op=op)).to_pylist()))] == [written]


def test_an_update_without_its_old_row_has_an_old_row_of_absent_values() -> None:
    (row,) = rows(decode(*encode(inserts(1, op="update")).to_pylist()))
    assert (row.op, row.before, row.after) == ("update", {}, {"id": 0, "note": "x" * 20})


def test_a_row_without_the_image_of_its_op_is_refused() -> None:
    built = BatchBuilder()
    built.add(SHAPE, Place("t", 0, 0), "insert", before=None, after=None)
    with pytest.raises(UnsupportedError) as caught:
        encode(Decoded(built.build()))
    assert str(caught.value) == (
        "tencent-dts: insert of shop.orders at t:0:0: the row lacks the image that its op needs"
    )


def test_an_origin_of_another_protocol_is_not_taken_for_one_of_dts() -> None:
    built = BatchBuilder()
    origin = '{"data":5,"short":{"newColumns":1},"row":3,"unknown":"x","gtid":"g:1","position":"p","fileName":"f"}'
    image = {"id": 1, "note": None}
    built.add(SHAPE, Place("t", 0, 0), "insert", before=None, after=image, origin=origin)
    (row,) = rows(decode(*encode(Decoded(built.build())).to_pylist()))
    assert row.after == image
    assert row.origin == {"sourceType": 1, "fileName": "f", "gtid": "g:1", "seqId": 1, "ps": 1}


def test_the_server_of_a_foreign_statement_is_the_source_type_from_there_on() -> None:
    time, ddl = Instant(SECOND * 1_000_000, 3), "ALTER TABLE t ADD n INT"
    servers: list[dict[str, Any]] = [{}, {"connector": "mariadb"}, {"connector": "mariadb", "gtid": "0-1-2"}, {}]
    changes = [
        SchemaChange("add_column", "shop", "t", ddl, Place("t", 0, at, None, at), instant=time, origin=dict(origin))
        for at, origin in enumerate(servers)
    ]
    sent = decode(*encode(Decoded(control=list(changes))).to_pylist()).control
    assert [e.origin["sourceType"] for e in sent if isinstance(e, SchemaChange)] == [1, 3, 3, 3]


def test_checkpoints_are_between_changes_and_at_the_end() -> None:
    encoder = DTS.encoder(DTS.read_options({"checkpoint_interval": 10}), Stores())
    assert isinstance(encoder, ClosingEncoder)
    batch = encoder.encode(inserts(5, every=4))
    assert summary(batch) == ["shop:0:0 ps 1 rrr", "shop:0:1 ps 2 C", "shop:0:2 ps 3 rr"]
    assert summary(encoder.finish()) == ["shop:0:3 ps 4 C"]
    assert summary(encoder.finish()) == []
    events = in_order(decode(*batch.to_pylist()))
    assert [getattr(e, "sequence", None) or e.origin["seqId"] for e in events] == [1, 2, 3, 4, 5, 6]


def test_checkpoints_can_be_left_out() -> None:
    encoder = DTS.encoder(DTS.read_options({"checkpoint_interval": 0}), Stores())
    assert isinstance(encoder, ClosingEncoder)
    assert len(encoder.encode(inserts(5, every=100))) == 1
    assert len(encoder.finish()) == 0


def test_changes_of_this_protocol_bring_their_own_checkpoints() -> None:
    encoder = DTS.encoder(DTS.read_options({}), Stores())
    assert isinstance(encoder, ClosingEncoder)
    encoder.encode(decode(record(envelope(data_of(checkpoint(3))))))
    assert len(encoder.finish()) == 0


def test_foreign_events() -> None:
    time = Instant(SECOND * 1_000_000, 3)
    changes = Decoded(
        control=[
            SchemaChange(
                "create_table", "shop", "t", "CREATE TABLE t (id INT)", Place("t", 1, 0, None, 0), instant=time
            ),
            TransactionMark("begin", "file=b,pos=4", Place("t", 1, 1, None, 1), instant=time),
            TransactionMark("end", "file=b,pos=4", Place("t", 1, 2, None, 2), instant=time),
            Heartbeat(Place("t", 1, 3, None, 3), time),
            Resolved(5, Place("t", 1, 4, None, 4)),
        ]
    )
    batch = encode(changes, source_type="mariadb", shard_id="s1")
    assert summary(batch) == ["t:0:0 ps 1 D", "t:0:1 ps 2 TT", "t:0:2 ps 3 H"]
    assert [line["headers"][1] for line in batch.to_pylist()] == [{"key": "ShardId", "value": b"s1"}] * 3
    schema, begin, end, heartbeat = in_order(decode(*batch.to_pylist()))
    assert isinstance(schema, SchemaChange)
    assert (schema.type, schema.database, schema.table, schema.sequence) == ("create_table", "shop", "t", 1)
    assert isinstance(begin, TransactionMark)
    assert isinstance(end, TransactionMark)
    assert [(e.status, e.id) for e in (begin, end)] == [("begin", "file=b,pos=4"), ("end", "file=b,pos=4")]
    assert (heartbeat.origin["epoch"], heartbeat.origin["sourceType"]) == (SECOND, 3)


def test_rows_are_dispatched_by_table_or_by_key() -> None:
    by_table = encode(inserts(40), partitions=4)
    assert {line["partition"] for line in by_table.to_pylist()} == {crc32(b"shop\0orders") % 4}
    by_key = encode(inserts(40), partitions=4, partition_rule="pk")
    assert {line["partition"] for line in by_key.to_pylist()} == {0, 1, 2, 3}
    assert sorted(row.origin["seqId"] for row in rows(decode(*by_key.to_pylist()))) == list(range(1, 41))


def test_the_first_custom_rule_that_fits_decides() -> None:
    rules: list[dict[str, Any]] = [
        {"DbPattern": "^other$", "TablePattern": ".*", "RuleType": "table"},
        {"DbPattern": "^shop$", "TablePattern": "^ord", "RuleType": "cols", "Columns": ["ID"]},
        {"DbPattern": ".*", "TablePattern": ".*", "RuleType": "table"},
    ]
    for form in (rules, json.dumps(rules)):
        batch = encode(inserts(40), partitions=4, custom_rules=form)
        assert len({line["partition"] for line in batch.to_pylist()}) == 4


def test_a_rule_that_names_a_missing_column_is_refused() -> None:
    with pytest.raises(UnsupportedError) as caught:
        encode(inserts(1), partitions=2, custom_rules=[{"RuleType": "cols", "Columns": ["region"]}])
    assert str(caught.value) == (
        "tencent-dts: shop.orders has no column region, which its partition rule names (insert of shop.orders at shop:7:0)"
    )


def test_events_other_than_rows_go_to_every_partition() -> None:
    time = Instant(SECOND * 1_000_000, 3)
    change = SchemaChange("other", "shop", None, "FLUSH TABLES", Place("t", 0, 0), instant=time)
    batch = encode(Decoded(control=[change]), partitions=3)
    assert summary(batch) == ["t:0:0 ps 1 D", "t:1:0 ps 1 D", "t:2:0 ps 1 D"]
    assert [e.sequence for e in decode(*batch.to_pylist()).control if isinstance(e, SchemaChange)] == [1, 1, 1]


def test_numbers_continue_after_a_group_that_is_cut_differently() -> None:
    group = split(data_of(dml([ID], *({"newColumns": [number(3, str(n))]} for n in range(20)))), 100, 5, 6)
    last = record(envelope(data_of(checkpoint(9))), 8, 9)
    decoded = decode(record(envelope(data_of(checkpoint(1))), 4, 5), *group, last)
    assert summary(encode(decoded)) == ["t:0:4 ps 5 C", *(f"t:0:{5 + n} ps {6 + n} " for n in range(3)), "t:0:8 ps 9 C"]
    size = sum(old_sizes := rows(decoded)[0].origin["envelopes"]["sizes"])
    edited = [line.replace(json.dumps(old_sizes, separators=(",", ":")), f"[{size}]") for line in text.lines(decoded)]
    (changes,) = text.parse(edited)
    batch = encode(changes)
    assert [(line["offset"], line["headers"][0]["value"]) for line in batch.to_pylist()] == [
        (4, b"5"),
        (5, b"6"),
        (6, b"7"),
    ]


def test_changes_of_this_protocol_get_new_partitions() -> None:
    changes = decode(
        record(envelope(data_of(checkpoint(1), dml([ID], {"newColumns": [number(3, "1")]}, seqId=2))), 4, 5)
    )
    batch = encode(changes, partitions=2)
    assert summary(batch) == ["t:0:0 ps 1 C", "t:1:0 ps 1 C", "t:0:1 ps 2 r"]
    assert {row.origin["seqId"] for row in rows(decode(*batch.to_pylist()))} == {2}


def test_envelopes_of_a_newer_service_and_their_keys_are_written_verbatim() -> None:
    group = split(data_of(dml([ID], *({"newColumns": [number(3, str(n))]} for n in range(20)))), 100, 5, 6)
    newer = [{**r, "value": r["value"] + b"\x7a\x03\x0a\x01k" + b"\xa0\x01\x07", "key": b"\xffk"} for r in group]
    newer[1] = {**newer[1], "headers": [{"key": "gs", "value": None}, *newer[1]["headers"]]}
    decoded = decode(*newer)
    for changes in (decoded, *text.parse(text.lines(decoded))):
        written = encode(changes).select(["offset", "key", "value", "headers"]).to_pylist()
        assert written == [{name: r[name] for name in ("offset", "key", "value", "headers")} for r in newer]


def test_entries_with_unknown_fields_are_written_verbatim() -> None:
    one = record(envelope(data_of(checkpoint(1)) + b"\x7a\x03\x0a\x01k"))
    assert encode(decode(one)).to_pylist()[0]["value"] == one["value"]


@pytest.mark.parametrize(
    "origin",
    [
        {"sourceType": 1, "serverId": "x"},
        {"sourceType": 1, "seqId": -1},
        {"sourceType": 1, "properties": 5},
        {"sourceType": 1, "unknown": {"header": "?"}},
        {"sourceType": 1, "envelopes": {"sizes": "x"}},
        {"sourceType": 1, "envelopes": {"keys": [5]}},
        {"sourceType": 1, "gtid": "\ud800"},
    ],
)
def test_a_wrong_origin_is_refused_with_a_message(origin: dict[str, Any]) -> None:
    (mark,) = decode(record(envelope(data_of(checkpoint(1))))).control
    with pytest.raises(UnsupportedError) as caught:
        encode(Decoded(control=[replace(mark, origin={**origin, "checkpoint": {}})]))
    assert str(caught.value).startswith("tencent-dts: the e")


@pytest.mark.parametrize(
    "options, error",
    [
        ({"max_data_bytes": "0"}, "option max_data_bytes is 0, expected at least 1"),
        ({"max_group_bytes": "-1"}, "option max_group_bytes is -1, expected at least 1"),
        ({"partitions": "0"}, "option partitions is 0, expected 1 to 2147483647"),
        ({"checkpoint_interval": "-1"}, "option checkpoint_interval is -1, expected at least 0"),
        ({"source_type": "-1"}, 'unknown source_type "-1". Known: mariadb, mysql, oracle, pgsql'),
        (
            {"source_type": "maria"},
            'unknown source_type "maria". Did you mean "mariadb"? Known: mariadb, mysql, oracle, pgsql',
        ),
        ({"custom_rules": "["}, "custom_rules: Input data was truncated"),
        (
            {"custom_rules": '[{"Db":"x"}]'},
            'unknown member of a custom rule "Db". Known: Columns, DbPattern, RuleType, TablePattern',
        ),
        ({"custom_rules": '[{"RuleType":"cols"}]'}, 'RuleType "cols" and a list "Columns" must be used together'),
        ({"custom_rules": '[{"RuleType":"x"}]'}, 'unknown RuleType "x". Known: cols, pk, table'),
        (
            {"custom_rules": '[{"DbPattern":"("}]'},
            "custom_rules: '(' is not a regular expression: missing ), unterminated subpattern at position 0",
        ),
        ({"on_gap": "skip"}, 'tencent-dts: unknown on_gap "skip". Known: error, warn'),
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, str], error: str) -> None:
    with pytest.raises(ConfigError) as caught:
        DTS.read_options(options)
    assert str(caught.value) == error


def test_an_unknown_charset_is_refused() -> None:
    for name in ("klingon", "binary"):
        with pytest.raises(ConfigError) as caught:
            DTS.read_options({"charset": name})
        assert str(caught.value).startswith(f'unknown character set "{name}"')


def test_a_source_type_may_be_a_number() -> None:
    (row,) = rows(decode(*encode(inserts(1), source_type="7").to_pylist()))
    assert row.origin["sourceType"] == 7


def test_a_group_of_too_many_envelopes_is_refused() -> None:
    built = BatchBuilder()
    built.add(SHAPE, Place("t", 0, 0), "insert", before=None, after={"id": 1, "note": "x" * 70_000})
    with pytest.raises(UnsupportedError) as caught:
        encode(Decoded(built.build()), max_data_bytes=1)
    assert str(caught.value).startswith("tencent-dts: the envelopes of t:0:0 cannot be sent: one group would have 70")
    assert str(caught.value).endswith(" envelopes, at most 65536 are allowed: raise max_data_bytes")
