"""Records that the encoder writes for changes of other protocols, and changes that it refuses."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from changefeed.errors import ConfigError, UnsupportedError
from changefeed.model.batch import Decoded
from changefeed.model.event import Heartbeat, Instant, Resolved, SchemaChange
from changefeed.model.position import Place
from changefeed.protocols import protocol
from changefeed.protocols.base import Stores
from changefeed.stores import stores_of
from tests.protocols.conformance.cases import Schemas
from tests.protocols.ticdc_avro.messages import (
    AVRO,
    CHECKSUMS,
    EXTENSION,
    TS,
    change,
    column,
    decode,
    encode,
    read,
    records,
    rows,
)

ID, V = column("id", "int", key=True), column("v", "varchar(10)")
PLACE = Place("shop", 0, 7)


def refusal(changes: Decoded, **options: Any) -> str:
    with pytest.raises(UnsupportedError) as caught:
        encode(Schemas(), changes, **options)
    return str(caught.value)


def test_the_worked_bytes_of_the_description() -> None:
    schemas = Schemas()
    columns = [column("a", "int", key=True), column("b", "varchar(10)"), column("d", "decimal(10,2)")]
    for n in range(6):
        schemas.register("others", f'"{n}"')
    row = {"a": 1, "b": "x", "d": Decimal("12345678.90")}
    [(key, value)] = records(encode(schemas, change(columns, None, row, commit_ts=417318403368288260), **EXTENSION))
    assert key is not None
    assert value is not None
    assert (key[5:].hex(" "), value[5:].hex(" ")) == (
        "02",
        "02 02 02 78 02 08 49 96 02 d2 02 63 88 80 80 f0 8e b8 ce ca 0b 80 f7 c0 f3 d4 5c",
    )


def test_schemas_are_registered_under_the_producers_subjects() -> None:
    schemas = Schemas()
    encode(schemas, change([ID, V], None, {"id": 1, "v": "x"}), topic="cdc.{schema}_{table}")
    assert sorted(subject for subject, _ in schemas._ids) == ["cdc_shop_t-key", "cdc_shop_t-value"]


@pytest.mark.parametrize(
    "options, value",
    [
        ({}, None),
        ({**EXTENSION, "avro_enable_watermark": True}, bytes([3]) + TS.to_bytes(8, "big")),
        ({**EXTENSION, "avro_enable_watermark": True, "profile": "classic"}, None),
    ],
)
def test_a_delete_is_its_key(options: dict[str, Any], value: bytes | None) -> None:
    [(key, written)] = records(encode(Schemas(), change([ID, V], {"id": 1, "v": "x"}, None), **options))
    assert (key, written) == (bytes.fromhex("00 00000001 02"), value)


def test_a_delete_does_not_need_types_of_the_other_columns() -> None:
    columns = [ID, column("v", "enum")]
    assert len(encode(Schemas(), change(columns, {"id": 1, "v": 1}, None))) == 1
    assert refusal(change(columns, {"id": 1, "v": 1}, None), avro_include_before_value=True) == (
        "ticdc-avro cannot carry shop.t: column v of type enum: its members are not known (delete of shop.t at shop_t:3:118204)"
    )


def test_a_key_that_changes_is_a_delete_and_an_insert() -> None:
    schemas = Schemas()
    moved = change([ID, V], {"id": 1, "v": "x"}, {"id": 2, "v": "y"}, irregular={"before.v": b"\xff"})
    read_rows = rows(decode(schemas, *encode(schemas, moved, **EXTENSION).to_pylist(), **EXTENSION))
    assert [(row.op, row.before, row.after) for row in read_rows] == [
        ("delete", {"id": 1}, None),
        ("insert", None, {"id": 2, "v": "y"}),
    ]
    [raw] = rows(
        decode(schemas, *encode(schemas, moved, output_raw_change_event=True, **EXTENSION).to_pylist(), **EXTENSION)
    )
    assert (raw.op, raw.after) == ("update", {"id": 2, "v": "y"})


def test_a_split_insert_has_the_checksum_of_its_row_and_classics_defect_on_request() -> None:
    moved = change([ID, V], {"id": 1, "v": "x"}, {"id": 2, "v": "y"})
    for options, checksum in (({}, "2073105377"), ({"profile": "classic", "bug_compat": True}, "0")):
        schemas = Schemas()
        read_rows = rows(decode(schemas, *encode(schemas, moved, **CHECKSUMS, **options).to_pylist(), **CHECKSUMS))
        assert read_rows[1].origin["_tidb_row_level_checksum"] == checksum


def test_watermarks_exist_only_on_request() -> None:
    ddl = SchemaChange("create_table", "shop", "t", "CREATE TABLE t (`a` INT)", PLACE, commit_ts=TS)
    marks = Decoded(control=[ddl, Resolved(TS + 1, PLACE), Heartbeat(PLACE)])
    assert records(encode(Schemas(), marks, **EXTENSION)) == []
    assert records(encode(Schemas(), marks, avro_enable_watermark=True)) == []
    text = {"query": ddl.ddl, "type": 3, "schema": "shop", "table": "t", "commitTs": TS}
    assert records(encode(Schemas(), marks, avro_enable_watermark=True, **EXTENSION)) == [
        (None, b"\x01" + json.dumps(text, separators=(",", ":")).encode()),
        (None, b"\x02" + (TS + 1).to_bytes(8, "big")),
    ]


def test_rows_are_dispatched_and_marks_go_to_all_partitions() -> None:
    changes = change([ID, V], None, {"id": 1, "v": "x"})
    options = {**EXTENSION, "topic": "{schema}_{table}", "partition_num": 3, "avro_enable_watermark": True}
    encoder = AVRO.encoder(read(options), _stores())
    marks = Decoded(control=[Resolved(TS, Place("shop_t", 3, 0))])
    written = [encoder.encode(part).to_pylist() for part in (changes, marks)]
    assert [(r["topic"], r["partition"], r["offset"]) for r in written[0]] == [("shop_t", 1, 0)]
    assert [(r["topic"], r["partition"], r["offset"]) for r in written[1]] == [
        ("shop_t", 0, 0),
        ("shop_t", 1, 1),
        ("shop_t", 2, 0),
    ]


def _stores() -> Stores:
    schemas = Schemas()
    return Stores(get_schema=schemas.get, register_schema=schemas.register)


def test_a_time_stands_in_for_a_commit_ts() -> None:
    schemas = Schemas()
    ddl = SchemaChange("x", None, None, "X", PLACE, instant=Instant(1_767_225_600_123_000, 3))
    options = {**EXTENSION, "avro_enable_watermark": True}
    [(_, value)] = records(encode(schemas, Decoded(control=[ddl]), **options))
    assert value == b'\x01{"query":"X","type":0,"schema":"","table":"","commitTs":463267587718643712}'
    row = change([ID], None, {"id": 1}, commit_ts=None, commit_time=1_767_225_600_123)
    [read_row] = rows(decode(schemas, *encode(schemas, row, **options).to_pylist()))
    assert read_row.commit_ts == 463267587718643712


def test_a_row_read_with_its_schemas_keeps_them_and_their_ids() -> None:
    schemas = Schemas()
    written = encode(schemas, change([ID, V], None, {"id": 1, "v": "x"}), **EXTENSION)
    changes = decode(schemas, *written.to_pylist())
    assert records(encode(schemas, changes)) == records(written)
    other = Schemas()
    other.register("first", '"int"')
    again = encode(other, changes)
    assert [key[:5].hex() for key, _ in records(again) if key] == ["0000000002"]
    assert rows(decode(other, *again.to_pylist()))[0].after == {"id": 1, "v": "x"}


def test_a_missing_file_of_schemas_is_created(tmp_path: Path) -> None:
    schemas = Schemas()
    changes = decode(schemas, *encode(schemas, change([ID, V], None, {"id": 1, "v": "x"}), **EXTENSION).to_pylist())
    options = protocol("ticdc-avro").read_options(
        {"schema-registry": str(tmp_path / "new.json"), "enable-tidb-extension": True}
    )
    records = protocol("ticdc-avro").encoder(options, stores_of(options)).encode(changes)
    (again,) = rows(protocol("ticdc-avro").decoder(options, stores_of(options)).decode(records))
    assert again.after == {"id": 1, "v": "x"}


NAMED = "ticdc-avro cannot carry insert of shop.t at shop_t:3:118204: "


@pytest.mark.parametrize(
    "changes, options, error",
    [
        (change([ID, column("v", "decimal")], None, {"id": 1, "v": "1"}), {}, "ticdc-avro cannot carry shop.t: column v: its precision is not known; set avro-decimal-handling-mode to string (insert of shop.t at shop_t:3:118204)"),
        (change([ID, column("v", "enum('a')")], None, {"id": 1, "v": ""}), {}, NAMED + "the invalid value of enum('a'), index 0, has no name (ErrAvroEncodeFailed) - at `v`"),
        (change([ID, column("v", "enum")], None, {"id": 1, "v": 1}), {}, "ticdc-avro cannot carry shop.t: column v of type enum: its members are not known (insert of shop.t at shop_t:3:118204)"),
        (change([ID, column("a-b", "int"), column("a_b", "int")], None, {"id": 1, "a-b": 1, "a_b": 1}), {}, "ticdc-avro cannot carry shop.t: columns a-b and a_b are both a_b in Avro (ErrAvroSchemaAPIError) (insert of shop.t at shop_t:3:118204)"),
        (change([ID], None, {"id": 1}, commit_ts=None, commit_time=None), EXTENSION, NAMED + "it needs a commit_ts or a commit time"),
        (change([ID, V], None, {"id": 1, "v": "x" * 100}), {"max_message_bytes": 100}, NAMED + "it needs a message of 151 bytes, max-message-bytes is 100 (ErrMessageTooLarge)"),
        (change([V], {"v": "x"}, None), {}, "ticdc-avro cannot carry delete of shop.t at shop_t:3:118204: the table has no handle key to delete by"),
        (change([ID], {"id": 1}, {"id": 1}, "delete"), {}, "ticdc-avro cannot carry delete of shop.t at shop_t:3:118204: its op is a delete, but it has a new row"),
        (change([ID, column("v", "vector")], None, {"id": 1, "v": [float("inf")]}), {}, NAMED + "a vector cannot contain inf - at `v`"),
        (change([ID, column("v", "decimal(4,2)")], None, {"id": 1, "v": None}, irregular={"v": b"-0.00"}), {}, NAMED + "'-0.00' is not a value of a column of type decimal(4,2) - at `v`"),
        (Decoded(control=[SchemaChange("x", None, None, None, PLACE)]), {**EXTENSION, "avro_enable_watermark": True}, "ticdc-avro: x at shop:0:7 has no statement"),
        (Decoded(control=[SchemaChange("x", None, None, "X", PLACE)]), {**EXTENSION, "avro_enable_watermark": True}, "ticdc-avro: x at shop:0:7 has no commit_ts and no commit time"),
    ],
)  # fmt: skip
def test_changes_that_cannot_be_carried_are_refused_by_name(
    changes: Decoded, options: dict[str, Any], error: str
) -> None:
    assert refusal(changes, **options) == error


@pytest.mark.parametrize("make", [AVRO.decoder, AVRO.encoder])
def test_without_a_schema_registry_nothing_works(make: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        make(AVRO.read_options({}), Stores())
    assert str(caught.value) == (
        'Avro protocol requires parameter "schema-registry" or "glue-schema-registry" to specify the schema registry; '
        'changefeed supports "schema-registry"'
    )
