"""Rows with the types that their log's own DDL declares."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from changefeed import record_log
from changefeed.codec.decoding import decoder
from changefeed.codec.encoding import encoder
from changefeed.model import text
from changefeed.model.batch import BatchBuilder, Decoded
from changefeed.model.event import SchemaChange
from changefeed.model.position import Place
from changefeed.model.table import Column, TableShape
from changefeed.model.types import ColumnType
from changefeed.protocols import PROTOCOLS, protocol
from changefeed.protocols.base import ClosingEncoder, Stores
from changefeed.stages.definitions import definitions
from tests.examples import by_turns

SHOP = Path(__file__).parent.parent / "data" / "shop"
LOGS = {
    "ticdc-open": ("open-3.newarch", {}),
    "ticdc-debezium": ("dbz-noschema.newarch", {}),
    "debezium-mysql": (
        "mysql-8.0.33-noschema",
        {"decimal.handling.mode": "string", "bigint.unsigned.handling.mode": "precise"},
    ),
    "tencent-dts": ("one-partition", {}),
}
TO = {"ticdc-avro": {"enable-tidb-extension": "true", "avro-bigint-unsigned-handling-mode": "string"}}
PAIRS = [pytest.param(source, target) for source in LOGS for target in sorted(PROTOCOLS) if source != target]
COMPARED = ("id", "customer_id", "status", "placed", "model_year")

OPEN = protocol("ticdc-open")
ENUM = TableShape(
    "app", "t", (Column("id", ColumnType("int"), False, True), Column("v", ColumnType("enum"))), wire='["kept"]'
)


def row(
    ts: int | None, index: int | None, shape: TableShape = ENUM, irregular: dict[str, bytes] | None = None
) -> Decoded:
    builder = BatchBuilder()
    after = {"id": 1, "v": index}
    builder.add(
        shape, Place("t", 0, 0, None, 0), "insert", before=None, after=after, commit_ts=ts, irregular=irregular
    )  # fmt: skip
    return Decoded(builder.build())


def change(ts: int, ddl: str | None, kind: str = "other") -> Decoded:
    return Decoded(control=[SchemaChange(kind, "app", "t", ddl, Place("t", 0, 0, None, 0), commit_ts=ts)])


CREATE = change(5, "CREATE TABLE app.t (id INT PRIMARY KEY, v ENUM('new','paid'))")
MODIFY = change(8, "ALTER TABLE app.t MODIFY COLUMN v ENUM('old','new','paid')")


def values(*log: Decoded) -> list[Any]:
    """The values of the rows' column `v`, or their irregular texts."""
    put = definitions(OPEN, OPEN.read_options({}), "ticdc-avro")
    listed: list[Any] = []
    for decoded in map(put, log):
        for line in map(json.loads, text.lines(decoded)):
            if line["kind"] == "row":
                listed.append(line["irregular"].get("v", line["after"]["v"]))
    return listed


@pytest.mark.parametrize(
    "log, wanted",
    [
        ([row(6, 1)], [{"index": 1}]),
        ([CREATE, row(6, 1), MODIFY, row(9, 1)], ["new", "old"]),
        ([CREATE, MODIFY, row(7, 1), row(9, 1), row(8, 2)], ["new", "old", "paid"]),
        ([CREATE, MODIFY, CREATE, row(9, 3), row(None, 1)], ["paid", "old"]),
        ([CREATE, row(5, 1), row(6, None), row(6, 0)], [{"index": 1}, None, ""]),
        ([CREATE, row(6, 3)], ["3"]),
        ([CREATE, change(7, "RENAME TABLE app.t TO app.u"), row(8, 1)], [{"index": 1}]),
        ([CREATE, change(7, "RENAME TABLE app.t TO app.u, app.u TO app.t"), row(8, 1)], ["new"]),
        ([change(4, "CREATE TABLE app.s (v ENUM('a'))"), change(5, "CREATE TABLE T LIKE s"), row(6, 1)], ["a"]),
        ([CREATE, change(7, "DROP TABLE app.t"), row(8, 1)], [{"index": 1}]),
        ([CREATE, change(7, "DROP DATABASE app"), row(8, 1)], [{"index": 1}]),
        ([CREATE, change(7, "ALTER TABLE app.t FROBNICATE"), row(8, 1)], [{"index": 1}]),
        ([CREATE, change(7, "ALTER TABLE app.t DROP COLUMN w"), row(8, 1)], [{"index": 1}]),
        ([CREATE, change(7, "ALTER TABLE app.t DROP PARTITION p"), row(8, 1)], ["new"]),
        ([CREATE, change(7, None, "truncate_table"), row(8, 1)], ["new"]),
        ([change(5, "CREATE TABLE app.t (id INT PRIMARY KEY, v GEOMETRY)"), row(6, 1)], [{"index": 1}]),
        ([change(5, "CREATE TABLE app.t (id INT PRIMARY KEY)"), row(6, 1)], [{"index": 1}]),
    ],
    ids=[
        "no definition", "in force", "a partition that lags", "sent again, and no commit_ts", "at its own commit_ts; NULL",
        "no such member", "renamed", "renamed and back", "like another", "dropped", "database dropped", "not understood",
        "does not go", "of partitions", "truncated by an op", "of another kind", "without the column",
    ],
)  # fmt: skip
def test_a_row_has_the_definition_in_force(log: list[Decoded], wanted: list[Any]) -> None:
    assert values(*log) == wanted


def test_earlier_irregular_texts_stay_with_new_ones() -> None:
    shape = TableShape("app", "t", (*ENUM.columns, Column("w", ColumnType("int"))))
    builder = BatchBuilder()
    builder.add(
        shape, Place("t", 0, 0, None, 0), "update", before={"id": 1, "v": 9, "w": 1}, after={"id": 1, "v": 7, "w": None},
        commit_ts=6, irregular={"w": b"x"},
    )  # fmt: skip
    put = definitions(OPEN, OPEN.read_options({}), "ticdc-avro")
    put(CREATE)
    (line,) = (e for e in map(json.loads, text.lines(put(Decoded(builder.build())))) if e["kind"] == "row")
    assert line["irregular"] == {"w": "x", "v": "7", "before.v": "9"}
    assert (line["before"]["w"], line["after"]["v"]) == (1, None)


def test_a_truncation_gets_its_statement() -> None:
    truncation = SchemaChange("truncate_table", "a`b", "t", None, Place("t", 0, 0))
    (event,) = definitions(OPEN, OPEN.read_options({}), "ticdc-avro")(Decoded(control=[truncation])).control
    assert isinstance(event, SchemaChange)
    assert event.ddl == "TRUNCATE TABLE `a``b`.`t`"


def test_to_its_own_protocol_nothing_is_done() -> None:
    put = definitions(OPEN, OPEN.read_options({}), "ticdc-open")
    put(CREATE)
    assert put(same := row(6, 1)) is same


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.parametrize("source, target", by_turns(PAIRS, 2))
def test_a_history_is_the_same_in_every_other_protocol(source: str, target: str) -> None:
    """Orders as the last row of each key has them, with an enum, a year, a date and an unsigned bigint above 2^63."""
    if (source, target) == ("tencent-dts", "ticdc-debezium"):
        pytest.skip("its seconds are one commit_ts for a CREATE TABLE and the rows behind it")
    name, options = LOGS[source]
    schemas: dict[str, int] = {}
    stores = Stores(
        get_schema=lambda number: list(schemas)[number - 1],
        register_schema=lambda subject, schema: schemas.setdefault(schema, len(schemas) + 1),
    )
    read, write = protocol(source), protocol(target)
    reads, writes = read.read_options(options), write.read_options(TO.get(target, {}))
    decodes, encodes = decoder(source, reads, stores), encoder(target, writes, stores)
    define = definitions(read, reads, target)
    written = [
        encodes.encode(define(decodes.decode(part))) for part in record_log.read(SHOP / source / f"{name}.jsonl.gz")
    ]
    if isinstance(encodes, ClosingEncoder):
        written.append(encodes.finish())
    again, define = decoder(target, writes, stores), definitions(write, writes, "")
    orders: dict[str, dict[str, Any]] = {}
    for part_read in (again.decode(part) for part in written):
        assert not part_read.dead
        _fold(define(part_read), orders)
    with gzip.open(SHOP / "expected" / "final" / "orders.jsonl.gz", "rt") as lines:
        wanted = [json.loads(line) for line in lines]
    assert sorted(orders) == sorted(str(one["id"]) for one in wanted)
    assert [orders[str(one["id"])] for one in wanted] == [{name: str(one[name]) for name in COMPARED} for one in wanted]


def _fold(changes: Decoded, orders: dict[str, dict[str, Any]]) -> None:
    for event in map(json.loads, text.lines(changes)):
        if event["kind"] == "row" and event["table"] == "orders":
            for image in filter(None, (event["before"], event["after"])):
                orders.pop(str(image["id"]), None)
            if event["after"] is not None:
                orders[str(event["after"]["id"])] = {name: str(event["after"][name]) for name in COMPARED}
