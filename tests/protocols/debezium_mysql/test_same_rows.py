"""Rows under the columns that DDL tells are the rows of the tables: of every connector, in every mode, of any protocol."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from functools import cache
from typing import Any

import pytest

from changefeed.columnar.events import Row, in_order
from changefeed.model.event import SchemaChange
from changefeed.model.table import canonical
from changefeed.model.types import ColumnType
from changefeed.model.values import IrregularError, reader, writer
from changefeed.mysql.ddl import parse
from changefeed.mysql.ddl.apply import alter
from changefeed.mysql.ddl.statements import AlterTable, CreateTable, DropTable, RenameTable, Statement
from changefeed.protocols import protocol
from changefeed.protocols.base import Redefine
from tests.mysql.ddl.test_histories import Tables, follow
from tests.protocols.conformance.cases import DATA, decode, histories

FILES = {history.file: history for history in histories()}
BARE = {"decimal.handling.mode": "string", "bigint.unsigned.handling.mode": "precise"}
SHOPS = {"mariadb-10.11-schema": {}, "mysql-8.0.33-noschema": BARE}
Image = dict[str, Any] | None


def redefining(options: dict[str, Any]) -> Redefine:
    spoken = protocol("debezium-mysql")
    assert spoken.redefine is not None
    return spoken.redefine(spoken.read_options(options))


def shown(to: Redefine, told: ColumnType, defined: ColumnType, value: Any) -> Any:
    """The canonical value under the definition; JSON as what it says, and what does not fit as its error."""
    if value is None:
        return None
    try:
        text = writer(defined)(to(told, defined)(value))
    except IrregularError as error:
        return f"irregular: {error}"
    return json.loads(text) if defined.name == "json" else text


def from_open(told: ColumnType, defined: ColumnType) -> Any:
    """The Open Protocol's values under a definition: their canonical text is it, but for members."""
    members = ("", *(defined.members or ()))
    if told.name == "enum":
        return lambda index: members[index]
    if told.name == "set":
        return lambda bits: ",".join(m for place, m in enumerate(members[1:]) if bits >> place & 1)
    return lambda value: reader(defined)(writer(told)(value))


class Shop:
    """A history under its DDL: how often each change of each table occurs, and the rows that the tables have in the end."""

    def __init__(self, file: str, to: Redefine, *, restored: bool = False) -> None:
        self.tables: Tables = {}
        self.rows: dict[str, dict[Any, dict[str, Any]]] = {}
        self.changes: dict[str, Counter[str]] = {}
        for event in in_order(decode(FILES[file])):
            if isinstance(event, Row):
                self._row(event, to)
            elif isinstance(event, SchemaChange) and event.type == "truncate_table":
                self.rows[event.table or ""].clear()
            elif isinstance(event, SchemaChange) and event.ddl is not None:
                for statement in parse(event.ddl, event.database or "", restored=restored):
                    self._statement(statement)

    def _statement(self, statement: Statement) -> None:
        match statement:
            case AlterTable(database=database, table=name):
                projected = alter(self.tables[database, name], statement).rows
                for key, row in self.rows[name].items():
                    self.rows[name][key] = {
                        p.column.name: p.default.value if p.source is None else row[p.source.name] for p in projected
                    }
            case CreateTable(table=name):
                self.rows.setdefault(name, {})
            case DropTable(table=name):
                self.rows.pop(name, None)
            case RenameTable(table=name, to_table=new):
                self.rows[new] = self.rows.pop(name)
        follow(self.tables, statement)

    def _row(self, row: Row, to: Redefine) -> None:
        table = self.tables[row.shape.database, row.shape.table]
        defined = {c.name: c.type for c in table.columns}

        def under(image: Image) -> Image:
            types = row.shape.by_name
            return image and {n: shown(to, types[n].type, defined[n], v) for n, v in sorted(image.items())}

        before, after = under(row.before), under(row.after)
        self.changes.setdefault(row.shape.table, Counter())[canonical([row.op, before, after])] += 1
        rows = self.rows[row.shape.table]
        if before is not None and table.keys:
            rows.pop(tuple(before[key] for key in table.keys), None)
        if after is not None:
            rows[tuple(after[key] for key in table.keys) or len(rows)] = after


@cache
def shop(name: str) -> Shop:
    return Shop(f"shop/debezium-mysql/{name}.jsonl.gz", redefining(SHOPS[name]))


@cache
def theirs() -> Shop:
    return Shop("shop/ticdc-open/open-1.classic.jsonl.gz", from_open, restored=True)


@pytest.mark.parametrize("table", ["audit", "items", "order_items", "orders", "refunds"])
@pytest.mark.parametrize("name", SHOPS)
def test_rows_under_their_ddl_are_those_of_the_open_protocol(name: str, table: str) -> None:
    """Not of `customers`: TiDB makes one update of two in a transaction."""
    ours, others = shop(name).changes[table], split(theirs().changes[table])
    assert (ours - others, others - ours) == (Counter(), Counter())
    assert sum(ours.values()) > 40


def test_rows_under_their_ddl_are_those_of_the_other_connector() -> None:
    assert shop("mariadb-10.11-schema").changes == shop("mysql-8.0.33-noschema").changes


def split(changes: Counter[str]) -> Counter[str]:
    """With an update of the key as delete and insert, as the connector has it."""
    found: Counter[str] = Counter()
    for text, times in changes.items():
        op, before, after = json.loads(text)
        keys = ["id"] if before and "id" in before else ["order_id", "line"]
        if op == "update" and any(before[key] != after[key] for key in keys):
            found[canonical(["delete", before, None])] += times
            found[canonical(["insert", None, after])] += times
        else:
            found[text] += times
    return found


@pytest.mark.parametrize("name", SHOPS)
def test_the_tables_in_the_end(name: str) -> None:
    for path in sorted((DATA / "shop/expected/final").glob("*.jsonl.gz")):
        wanted = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
        wanted = [row | ({"meta": json.loads(row["meta"])} if row.get("meta") else {}) for row in wanted]
        found = shop(name).rows[path.name.removesuffix(".jsonl.gz")].values()
        ours, theirs = (Counter(canonical(dict(sorted(row.items()))) for row in rows) for rows in (found, wanted))
        assert (ours - theirs, theirs - ours) == (Counter(), Counter()), path.name


MODES: dict[str, dict[str, str]] = {
    "stream": {},
    "snapshot": {},
    "bigint_unsigned_precise": {"bigint.unsigned.handling.mode": "precise"},
    "binary_base64": {"binary.handling.mode": "base64"},
    "binary_base64-url-safe": {"binary.handling.mode": "base64-url-safe"},
    "converter_decimal_numeric": {"decimal.format": "NUMERIC"},
    "decimal_double": {"decimal.handling.mode": "double"},
    "time_connect": {"time.precision.mode": "connect"},
    "time_connect_snapshot": {"time.precision.mode": "connect"},
    "time_microseconds": {"time.precision.mode": "microseconds"},
    "time_microseconds_snapshot": {"time.precision.mode": "microseconds"},
}


@cache
def recorded(mode: str) -> dict[tuple[str, str, str], Any]:
    """Every value of a recording under its DDL, by table, number of the row and column."""
    to = redefining(MODES[mode])
    tables: Tables = {}
    found: dict[tuple[str, str, str], Any] = {}
    numbers: Counter[str] = Counter()
    for event in in_order(decode(FILES[f"debezium-mysql/mariadb-types_{mode}.jsonl.gz"])):
        if isinstance(event, Row):
            types = {c.name: c.type for c in tables["inv", event.shape.table].columns}
            numbers[event.shape.table] += 1
            for name, value in (event.after or {}).items():
                place = event.shape.table, str(numbers[event.shape.table]), name
                found[place] = shown(to, event.shape.by_name[name].type, types[name], value)
        elif isinstance(event, SchemaChange) and event.ddl is not None:
            for statement in parse(event.ddl, event.database or ""):
                follow(tables, statement)
    return found


CLOCKS = {("t_def", "1", "dtc"), ("t_def", "1", "ts"), ("t_def", "2", "ts")}  # CURRENT_TIMESTAMP
NO_YEAR = {  # a snapshot has years for '0000-01-01' and YEAR 0000
    ("t_time", "5", "y"): None,
    ("t_time", "9", "da"): "2000-01-01",
    ("t_time", "9", "dt0"): "2001-01-01 00:00:00",
    ("t_time", "9", "dt6"): "2001-01-01 00:00:00.000000",
    ("t_time_nn", "2", "y"): 2000,
}
OTHERWISE: dict[str, dict[tuple[str, str, str], Any]] = {
    "snapshot": NO_YEAR,
    "time_connect_snapshot": NO_YEAR,
    "time_microseconds_snapshot": NO_YEAR,
    # the default of a NULL: in mode `long` it has gone through a double
    "bigint_unsigned_precise": {("t_def", "2", "biu"): 18446744073709551615},
    "decimal_double": {
        ("t_dec", "2", "d20"): "irregular: '100000000000000000000' does not fit decimal(20,0)",
        ("t_dec", "2", "d65_30"): "12345678901234570000000000000000000." + "0" * 30,
    },
}


@pytest.mark.parametrize("mode", MODES)
def test_recordings_in_all_modes_are_the_same_under_their_ddl(mode: str) -> None:
    wanted = {place: in_ms(value) if "connect" in mode else value for place, value in recorded("stream").items()}
    wanted |= OTHERWISE.get(mode, {})
    found = recorded(mode)
    assert len(found) == 653
    assert {k: v for k, v in found.items() if k not in CLOCKS} == {k: v for k, v in wanted.items() if k not in CLOCKS}


def in_ms(value: Any) -> Any:
    """What mode `connect` leaves of a value: milliseconds, and no time outside of a day."""
    clock = re.fullmatch(r"(.*?)(-?\d{2,3})(:\d\d:\d\d)(\.\d+)?", value) if isinstance(value, str) else None
    if clock is None:
        return value
    if not clock[1] and (clock[2].startswith("-") or clock[2].zfill(3) + clock[3] > "024:00:00"):
        return None
    fraction = clock[4] or ""
    return clock[1] + clock[2] + clock[3] + fraction[:4].ljust(len(fraction), "0")
