"""Values that existing rows get by the default of a new column: as MariaDB and MySQL have stored them, and as settings decide.

`defaults.jsonl.gz` has, for 27 types and 195 defaults, what MariaDB 10.11 and MySQL 8.0 had in an existing row after
`ALTER TABLE t ADD v <type> DEFAULT <default>` in strict mode; null for a statement that the server refused.
"""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from changefeed.model.event import Instant, SchemaChange
from changefeed.model.position import Place
from changefeed.model.table import Column
from changefeed.model.types import BINARIES
from changefeed.mysql.ddl import execution_of, parse
from changefeed.mysql.ddl.defaults import Default, Execution, existing_rows
from changefeed.mysql.ddl.statements import AddColumn, AlterTable

DATA = Path(__file__).parents[2] / "data" / "ddl"
CASES: list[list[Any]] = [
    json.loads(line) for line in gzip.decompress((DATA / "defaults.jsonl.gz").read_bytes()).splitlines()
]
LEAST_KNOWN = 0.85  # of the statements that either server accepts


def added(definition: str, *, restored: bool = False) -> AddColumn:
    [statement] = parse(f"ALTER TABLE t ADD v {definition}", "db", restored=restored)
    assert isinstance(statement, AlterTable)
    [change] = statement.changes
    assert isinstance(change, AddColumn)
    return change


def value_of(definition: str, execution: Execution) -> Default:
    change = added(definition)
    return existing_rows(change.column, execution, undeclared=change.undeclared)


def comparable(column: Column, default: Default) -> str | None:
    """The value in the form of the recorded ones: hexadecimal bytes, or the server's text."""
    value: Any = default.value if default.irregular is None else default.irregular
    if value is None:
        return None
    if column.type.name in BINARIES:
        return base64.b64decode(value["base64"]).hex()
    return str(value).encode().hex()


def same(column: Column, recorded: str, ours: str) -> bool:
    if column.type.name in ("float", "double"):
        theirs, value = (float(bytes.fromhex(text)) for text in (recorded, ours))
        return abs(theirs - value) <= abs(theirs) * (1e-5 if column.type.name == "float" else 1e-14)
    return recorded == ours


def test_values_are_those_that_the_servers_stored() -> None:
    known = accepted = 0
    for kind, default, *servers in CASES:
        column = added(f"{kind} DEFAULT {default}").column
        for stored, is_mariadb in zip(servers, (True, False), strict=True):
            if stored is None:
                continue
            accepted += 1
            ours = existing_rows(column, Execution(is_mariadb=is_mariadb))
            if ours.unknown is None:
                known += 1
                text = comparable(column, ours)
                where = (kind, default, servers, text)
                assert text == stored["value"] or (None not in (text, stored["value"])), where
                assert text is None or same(column, stored["value"], text), where
    assert known / accepted >= LEAST_KNOWN


AT = Execution(Instant(1_764_000_000_000_000, 3))
NOW = [
    ("TIMESTAMP DEFAULT CURRENT_TIMESTAMP", "2025-11-24T16:00:00Z"),
    ("TIMESTAMP NOT NULL DEFAULT NOW() ON UPDATE now()", "2025-11-24T16:00:00Z"),
    ("TIMESTAMP DEFAULT (localtimestamp ( ))", "2025-11-24T16:00:00Z"),
    ("TIMESTAMP(3) DEFAULT CURRENT_TIMESTAMP(3)", None),
    ("DATETIME DEFAULT CURRENT_TIMESTAMP", None),
    ("DATE DEFAULT (NOW())", None),
    ("TIMESTAMP DEFAULT (NOW() + INTERVAL 1 DAY)", None),
]


@pytest.mark.parametrize("definition, value", NOW)
def test_the_time_of_the_statement_is_the_value_of_a_timestamp(definition: str, value: str | None) -> None:
    default = value_of(definition, AT)
    assert (default.value, default.unknown is None) == (value, value is not None)


@pytest.mark.parametrize(
    "zone, definition, value",
    [
        ("+05:30", "DATETIME DEFAULT CURRENT_TIMESTAMP", "2025-11-24 21:30:00"),
        ("+05:30", "DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3)", None),
        ("+05:30", "TIMESTAMP DEFAULT CURRENT_TIMESTAMP", "2025-11-24T16:00:00Z"),
        ("+05:30", "TIMESTAMP DEFAULT '2026-01-02 03:04:05'", "2026-01-01T21:34:05Z"),
        ("-03:00", "TIMESTAMP(3) DEFAULT '2026-01-02 03:04:05.5'", "2026-01-02T06:04:05.500Z"),
        ("+05:30", "TIMESTAMP DEFAULT '1970-01-01 05:30:00'", None),  # the server stores a zero date, or refuses it
        ("+05:30", "TIMESTAMP DEFAULT '2038-01-19 12:00:00'", None),  # by the server's version
        ("Europe/Berlin", "TIMESTAMP DEFAULT '2026-07-02 03:04:05'", "2026-07-02T01:04:05Z"),
        ("Europe/Berlin", "TIMESTAMP DEFAULT '2026-03-29 02:30:00'", None),  # the clocks skip it
        ("Europe/Berlin", "TIMESTAMP DEFAULT '2026-10-25 02:30:00'", None),  # they show it twice
        ("", "TIMESTAMP DEFAULT '2026-01-02 03:04:05'", None),
    ],
)
def test_the_session_s_time_zone_decides_local_times(zone: str, definition: str, value: str | None) -> None:
    default = value_of(definition, Execution(AT.time, zone=zone))
    assert (default.value, default.unknown is None) == (value, value is not None)


def test_a_timestamp_that_declares_nothing_is_null_where_the_server_has_it_so() -> None:
    assert value_of("TIMESTAMP", Execution(null_timestamps=True)) == Default()
    assert value_of("TIMESTAMP", Execution(nullable={"v": True})) == Default()
    assert value_of("TIMESTAMP NULL", Execution()) == Default()
    assert value_of("TIMESTAMP DEFAULT NULL", Execution()) == Default()
    assert value_of("TIMESTAMP NOT NULL", Execution()).irregular == "0000-00-00 00:00:00"
    assert added("TIMESTAMP", restored=True).undeclared is False


@pytest.mark.parametrize("nullable, word", [(None, "may be NOT NULL"), (False, "is NOT NULL")])
def test_a_timestamp_that_declares_nothing_is_refused_where_a_setting_decides(nullable: bool | None, word: str) -> None:
    assert value_of("TIMESTAMP", Execution(nullable={"v": nullable})).unknown == (
        f"column v: a TIMESTAMP without NULL, NOT NULL or DEFAULT {word} with a default of its own, by the server's "
        "explicit_defaults_for_timestamp, so only the upstream has the values of existing rows"
    )


def test_text_defaults_of_mariadb_are_values_and_mysql_ignores_them() -> None:
    assert value_of("TEXT DEFAULT 'a'", Execution(is_mariadb=True)).value == "a"
    assert value_of("TEXT DEFAULT 'a'", Execution()).unknown
    assert value_of("TEXT NOT NULL DEFAULT ''", Execution()).value == ""
    assert value_of("TEXT DEFAULT ('a')", Execution()).value == "a"


JSON_DEFAULTS = [
    ("""'{"b": {"c": "ü"}, "a": true}'""", """{"a": true, "b": {"c": "ü"}}"""),
    ("""'{"b":[1,2],"a":null}'""", """{"a": null, "b": [1, 2]}"""),
    ("'18446744073709551615'", "18446744073709551615"),
    ("'18446744073709551616'", None),
    ("'-0'", None),
    ("'[1e2]'", None),
    ("'1.50'", "1.5"),
    ("""'{"a": -0.25}'""", """{"a": -0.25}"""),
    ("'1.00'", None),
    ("'0.00001'", None),
    ("'0.1234567890123456'", None),
    ("""'{"aa": 1, "b": 2}'""", None),
    ("""'{"a": 1, "a": 2}'""", None),
    ("""'{"ü": 1, "zz": 2}'""", """{"zz": 2, "ü": 1}"""),
]


@pytest.mark.parametrize("default, value", JSON_DEFAULTS)
def test_json_is_in_the_form_that_mysql_and_tidb_share(default: str, value: str | None) -> None:
    ours = value_of(f"JSON DEFAULT ({default})", Execution())
    assert (ours.value, ours.unknown is None) == (value, value is not None)


@pytest.mark.parametrize("default", [default for default, _ in JSON_DEFAULTS])
def test_mariadb_keeps_the_text_of_json(default: str) -> None:
    assert value_of(f"JSON DEFAULT {default}", Execution(is_mariadb=True)).value == default.strip("'")


def event(instant: Instant | None, origin: dict[str, Any]) -> SchemaChange:
    columns = (added("INT").column,)
    return SchemaChange("other", "db", "t", "", Place("s", 0, 0), columns, instant=instant, origin=origin)


def test_a_time_with_a_fraction_is_that_of_a_commit() -> None:
    whole, fraction = Instant(1_764_000_000_000_000, 3), Instant(1_764_000_000_515_000, 3)
    assert execution_of(event(whole, {"connector": "mariadb"}), restored=False) == Execution(
        whole, None, True, {"v": True}
    )
    assert execution_of(event(fraction, {}), restored=False).time is None
    assert execution_of(event(whole, {}), restored=True) == Execution(None, True, False)


@pytest.mark.parametrize("expression", ["(" * 5000 + "1" + ")" * 5000, "(9" + "*9" * 5000 + ")", "1e999", "9" * 5000])
def test_expressions_that_are_too_large_have_no_value(expression: str) -> None:
    assert value_of(f"INT DEFAULT {expression}", Execution()).unknown
