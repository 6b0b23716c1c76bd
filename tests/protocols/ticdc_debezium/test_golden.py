"""The producers' own test cases: keys and values that they assert are read, and written with schema blocks made here."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from changefeed.model.batch import BatchBuilder, Decoded, TableBatch
from changefeed.model.position import Place
from changefeed.model.table import Column, TableShape
from changefeed.model.values import reader
from changefeed.mysql.ddl import parse
from changefeed.mysql.ddl.statements import CreateTable
from changefeed.protocols.ticdc_debezium.blocks import struct_name
from tests.protocols.ticdc_debezium.messages import decode, encode, record, values

DATA = Path(__file__).parents[2] / "data" / "ticdc" / "debezium"
PROFILES = {"golden_tiflow_codec": "classic", "golden_ticdc_codec": "newarch"}
CASES = [
    pytest.param(profile, case, id=f"{profile}-{case['name']}")
    for stem, profile in PROFILES.items()
    for case in json.loads((DATA / f"{stem}.json").read_text())["cases"]
]
# One row of every type, as a Debezium connector read it. Columns that are not listed have values by their type.
ROW: dict[str, Any] = {
    "pk": 1,
    "col_d_2023": "2023-11-30",
    "col_d_1000": "1000-01-01",
    "col_d_9999": "9999-12-31",
    "col_d_0000": None,
    "col_dt": "2023-11-30 12:34:56",
    "col_dt_fsp_0": "2023-11-30 12:34:56",
    "col_dt_fsp_1": "2023-11-30 12:34:56.1",
    "col_dt_fsp_4": "2023-11-30 12:34:56.1235",
    "col_dt_fsp_6": "2023-11-30 12:34:56.123456",
    "col_dt_0000": None,
    "col_t": "12:34:56",
    "col_t_fsp_0": "12:34:56",
    "col_t_fsp_1": "12:34:56.1",
    "col_t_fsp_4": "12:34:56.1235",
    "col_t_fsp_6": "12:34:56.123456",
    "col_t_neg": "-12:34:56.123456",
    "col_ts": "2023-11-30T12:34:56Z",
    "col_ts_fsp_0": "2023-11-30T12:34:56Z",
    "col_ts_fsp_1": "2023-11-30T12:34:56.1Z",
    "col_ts_fsp_5": "2023-11-30T12:34:56.12346Z",
    "col_ts_fsp_6": "2023-11-30T12:34:56.123456Z",
    "col_y": 2023,
    "col_bit_1": 1,
    "col_bit_5": 16,
    "col_bit_6": 16,
    "col_bit_60": 16,
    "col_varchar": "foo",
    "col_char": "foo",
    "col_varbinary": {"base64": "Zm9v"},
    "col_binary": {"base64": "Zm9v" + "A" * 130 + "=="},
    "col_blob": {"base64": "Zm9v"},
    "col_decimal": "12345.12345",
    "col_numeric": "12345.12345",
    "col_float": 12345.123,
    "col_double": 12345.12345,
    "col_int": -2147483648,
    "col_int_unsigned": 4294967295,
    "col_tinyint": -128,
    "col_tinyint_unsigned": 255,
    "col_smallint": -32768,
    "col_smallint_unsigned": 65535,
    "col_mediumint": -8388608,
    "col_mediumint_unsigned": 16777215,
    "col_bigint": -9223372036854775808,
    "col_bigint_unsigned": 18446744073709551615,
    "col_enum": "a",
    "col_enum_invalid": "",
    "col_set": "a,b",
    "col_set_invalid": "",
    "col_json": '["foo"]',
}


@pytest.mark.parametrize("profile, case", CASES)
def test_a_case_of_the_producer_is_written_as_it_asserts(profile: str, case: dict[str, Any]) -> None:
    changes = decode(record(json.dumps(case["expected_value"]), json.dumps(case["expected_key"])))
    settings = {name.replace("-", "_"): value for name, value in case["config"].items()}
    if case["event"]["type"] == "checkpoint":  # asserted without the extension, which sends it
        settings |= {"enable_tidb_extension": True}
        profile = "classic"
    (written,) = encode(without_blocks(changes), profile=profile, **settings).to_pylist()
    assert json.loads(written["key"]) == case["expected_key"]
    assert json.loads(written["value"]) == case["expected_value"]


def without_blocks(changes: Decoded) -> Decoded:
    """The changes as if they had been read without schema blocks, but with the types that the blocks declare."""
    bare = json.dumps({"connector": "TiCDC", "key": None, "value": None})
    tables = [TableBatch(replace(t.shape, wire=bare), t.rows) for t in changes.tables]
    control = [replace(e, origin={n: v for n, v in e.origin.items() if n != "schemas"}) for e in changes.control]
    return Decoded(tables, control)


def test_a_row_of_every_type_is_what_a_debezium_connector_writes() -> None:
    (created,) = parse((DATA.parents[1] / "ddl" / "datatype.sql").read_text(), "test")
    assert isinstance(created, CreateTable)
    columns = tuple(Column(c.name, c.type, c.nullable, c.name == "pk") for c in created.columns)
    image = {c.name: None if ROW[c.name] is None else reader(c.type)(ROW[c.name]) for c in columns}
    rows = BatchBuilder()
    place = Place("t", 0, 0)
    rows.add(TableShape("test", "foo", columns), place, "insert", before=None, after=image, commit_ts=1, commit_time=0)
    written = encode(Decoded(rows.build()), cluster_id="dbserver1")
    (value,), expected = values(written), json.loads((DATA / "datatype.dbz.json").read_text())
    assert json.loads(written.column("key")[0].as_py()) == json.loads((DATA / "datatype.dbz.key.json").read_text())
    for name in ("before", "after", "op", "transaction"):
        assert value["payload"][name] == expected["payload"][name]
    assert value["schema"] == expected["schema"]


@pytest.mark.parametrize("case", json.loads((DATA / "names.json").read_text())["cases"], ids=str)
def test_structs_are_named_as_the_producers_name_them(case: dict[str, Any]) -> None:
    assert struct_name(*case["input"]) == case["output"]
