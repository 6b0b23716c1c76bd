"""Schema histories recorded by another implementation: after every statement the tables are the recorded ones."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from changefeed.model.types import ColumnType
from changefeed.mysql.ddl import parse
from changefeed.mysql.ddl.statements import CreateTable
from tests.mysql.ddl.following import Tables, follow

DATA = Path(__file__).parents[2] / "data" / "ddl"
HISTORIES = [json.loads(line) for line in gzip.decompress((DATA / "histories.jsonl.gz").read_bytes()).splitlines()]


def their_type(column: dict[str, Any]) -> str:
    """The recorded type as this project writes it."""
    name: str = column["typeName"].lower().replace(" zerofill", "")
    if name in ("boolean", "tinyint") and column.get("length", 1) == 1:
        return "tinyint(1)"
    if name == "uuid":
        return "char(36)"
    base = name.split(" ")[0]
    if "enumValues" in column:
        members = [m[1:-1].replace("''", "'").replace("\\\\", "\\") for m in column["enumValues"]]
        return str(ColumnType(base, members=tuple(m.replace("\\\\", "\\") for m in members)))
    whole = base.endswith("int") or base == "year"  # their length is a display width
    length = "" if whole or "length" not in column else str(column["length"])
    scale = f",{column['scale']}" if length and "scale" in column else ""
    return base + (f"({length}{scale})" if length else "") + (" unsigned" if "unsigned" in name else "")


@pytest.mark.parametrize("history", HISTORIES, ids=[h["history"] for h in HISTORIES])
def test_tables_are_as_recorded(history: dict[str, Any]) -> None:
    tables: Tables = {}
    compared = 0
    for recorded in history["statements"]:
        for statement in parse(recorded["ddl"], recorded["database"]):
            follow(tables, statement)
        for theirs in recorded["tables"]:
            ours = tables[theirs["database"], theirs["table"]]
            virtual = {v.name for v in ours.virtual}
            columns = [c for c in theirs["columns"] if c["name"] not in virtual]
            assert [(c.name, str(c.type), c.nullable) for c in ours.columns] == [
                (c["name"], their_type(c), c["optional"]) for c in columns
            ]
            if theirs["primary"]:
                assert list(ours.keys) == theirs["primary"]
            compared += 1
    assert compared


def test_the_shop_ends_with_its_tables() -> None:
    shop = json.loads((DATA / "shop.json").read_text())
    tables: Tables = {}
    for text in shop["statements"]:
        for statement in parse(text, "shop", restored=True):
            follow(tables, statement)
    assert {name for _, name in tables} == set(shop["tables"])
    for name, expected in shop["tables"].items():
        ours = tables["shop", name]
        assert list(ours.keys) == expected["keys"]
        written = [parse(f"CREATE TABLE t (`{n}` {d})", "x")[0].columns[0] for n, d in expected["columns"]]  # type: ignore[union-attr]
        assert [(c.name, c.type, c.default) for c in ours.columns] == [(c.name, c.type, c.default) for c in written]
        assert [c.nullable for c in ours.columns] == [c.nullable for c in written]


def test_a_table_of_nearly_every_type() -> None:
    [statement] = parse((DATA / "datatype.sql").read_text(), "test")
    assert isinstance(statement, CreateTable)
    assert statement.keys == ("pk",)
    assert len(statement.columns) == 51
    kinds = {c.name: str(c.type) for c in statement.columns}
    assert (kinds["col_decimal"], kinds["col_bit_60"], kinds["col_ts_fsp_5"]) == (
        "decimal(10,5)",
        "bit(60)",
        "timestamp(5)",
    )
