"""Differences between the two producers, and records for changes of other protocols."""

from __future__ import annotations

from typing import Any

import pytest

from changefeed.errors import UnsupportedError
from changefeed.model.batch import BatchBuilder, Decoded
from changefeed.model.event import Control, Heartbeat, Instant, Resolved, SchemaChange, TransactionMark
from changefeed.model.position import Place
from changefeed.model.table import Column, TableShape
from changefeed.model.types import ColumnType
from tests.protocols.ticdc_open.messages import ID, TS, decode, encode, errors, insert, key, messages, record, rows

PLACE = Place("shop", 1, 41)


def column(name: str, type_text: str, *, nullable: bool | None = None, is_key: bool | None = None) -> Column:
    return Column(name, ColumnType.parse(type_text), nullable, is_key)


def change(
    columns: tuple[Column, ...], before: dict[str, Any] | None, after: dict[str, Any] | None, **more: Any
) -> Decoded:
    op = "update" if before and after else "insert" if after else "delete"
    batch = BatchBuilder()
    more = {"commit_ts": TS, **more}
    batch.add(TableShape("shop", "t", columns), PLACE, op, before=before, after=after, **more)
    return Decoded(batch.build())


def value_of(changes: Decoded, **options: Any) -> str:
    ((message,),) = messages(encode(changes, **options))
    return message[1]


@pytest.mark.parametrize(
    "col, value, text",
    [
        (column("c", "int", nullable=True), 1, '"c":{"t":3,"f":65,"v":1}'),
        (column("c", "int", nullable=False), 1, '"c":{"t":3,"f":1,"v":1}'),
        (column("c", "bigint unsigned", nullable=False), 2**64 - 1, '"c":{"t":8,"f":129,"v":18446744073709551615}'),
        (column("c", "varchar(9)"), "é", '"c":{"t":15,"f":64,"v":"é"}'),
        (column("c", "binary(2)"), b"\0a", '"c":{"t":254,"f":65,"v":"\\\\x00a"}'),
        (column("c", "mediumtext"), "a", '"c":{"t":250,"f":64,"v":"YQ=="}'),
        (column("c", "longblob"), b"a", '"c":{"t":251,"f":65,"v":"YQ=="}'),
        (column("c", "enum('a','b')"), "b", '"c":{"t":247,"f":64,"v":2}'),
        (column("c", "enum('a','b')"), "", '"c":{"t":247,"f":64,"v":0}'),
        (column("c", "set('a','b','c')"), "a,c", '"c":{"t":248,"f":64,"v":5}'),
        (column("c", "year"), 2026, '"c":{"t":13,"f":193,"v":2026}'),
        (column("c", "bit(8)"), 5, '"c":{"t":16,"f":193,"v":5}'),
        (column("c", "json"), "{}", '"c":{"t":245,"f":65,"v":"{}"}'),
        (column("c", "datetime(3)"), 0, '"c":{"t":12,"f":65,"v":"1970-01-01 00:00:00.000"}'),
        (column("c", "boolean"), True, '"c":{"t":1,"f":65,"v":1}'),
        (column("c", "float"), 0.1, '"c":{"t":4,"f":65,"v":0.1}'),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_foreign_columns_are_described_by_their_types(col: Column, value: Any, text: str) -> None:
    assert value_of(change((col,), None, {"c": value})) == '{"u":{' + text + "}}"


def test_a_key_of_one_column_is_11_and_of_two_43() -> None:
    one = (column("a", "int", is_key=True),)
    assert value_of(change(one, {"a": 1}, None)) == '{"d":{"a":{"t":3,"h":true,"f":11,"v":1}}}'
    two = (column("a", "int", is_key=True), column("b", "varchar(9)", is_key=True))
    assert value_of(change(two, {"a": 1, "b": "x"}, None)) == (
        '{"d":{"a":{"t":3,"h":true,"f":43,"v":1},"b":{"t":15,"h":true,"f":42,"v":"x"}}}'
    )


def test_classic_sorts_columns_and_leaves_empty_names_out() -> None:
    columns = (column("z", "int"), column("a", "int"), column("B", "int"))
    image = {"z": 1, "a": 2, "B": 3}
    assert [
        part.split('"')[1] for part in value_of(change(columns, None, image), profile="classic")[6:].split("},")
    ] == [
        "B",
        "a",
        "z",
    ]
    drop = Decoded(control=[SchemaChange("drop_database", "shop", None, "DROP DATABASE `shop`", PLACE, commit_ts=TS)])
    assert [messages(encode(drop, profile=profile))[0][0] for profile in ("classic", "newarch")] == [
        (f'{{"ts":{TS},"scm":"shop","t":2}}', '{"q":"DROP DATABASE `shop`","t":2}'),
        (f'{{"ts":{TS},"scm":"shop","tbl":"","t":2}}', '{"q":"DROP DATABASE `shop`","t":2}'),
    ]


def test_rid_is_classics_alone() -> None:
    changes = decode(record((f'{{"ts":{TS},"scm":"shop","tbl":"t","rid":-1,"ptn":0,"t":1}}'.encode(), insert())))
    keys = [messages(encode(changes, profile=profile))[0][0][0] for profile in ("classic", "newarch")]
    assert keys == [
        f'{{"ts":{TS},"scm":"shop","tbl":"t","rid":-1,"ptn":0,"t":1}}',
        f'{{"ts":{TS},"scm":"shop","tbl":"t","t":1,"ptn":0}}',
    ]


COLUMNS = (column("a", "int", is_key=True), column("b", "decimal(5,2)"), column("c", "int"))
OLD, NEW = {"a": 1, "b": "1.50", "c": 3}, {"a": 1, "b": "1.50", "c": None}
LOOSE = (COLUMNS[0], column("b", "decimal"), COLUMNS[2])


@pytest.mark.parametrize(
    "options, old",
    [
        ({}, ',"p":{"a":{"t":3,"h":true,"f":11,"v":1},"b":{"t":246,"f":65,"v":"1.50"},"c":{"t":3,"f":65,"v":3}}'),
        ({"output_old_value": False}, ""),
        ({"only_output_updated_columns": True}, ',"p":{"c":{"t":3,"f":65,"v":3}}'),
        ({"only_output_updated_columns": True, "bug_compat": True}, ',"p":{"t":3,"f":65,"v":3}'),
        (
            {"only_output_updated_columns": True, "bug_compat": True, "profile": "classic"},
            ',"p":{"c":{"t":3,"f":65,"v":3}}',
        ),
    ],
    ids=str,
)
def test_the_old_row_is_whole_partial_or_left_out(options: dict[str, Any], old: str) -> None:
    new = '{"u":{"a":{"t":3,"h":true,"f":11,"v":1},"b":{"t":246,"f":65,"v":"1.50"},"c":{"t":3,"f":65,"v":null}}'
    assert value_of(change(LOOSE, OLD, NEW), **options) == new + old + "}"


def test_an_update_of_nothing_has_an_empty_old_row_in_newarch_and_none_in_classic() -> None:
    same = change(LOOSE, OLD, OLD)
    assert value_of(same, only_output_updated_columns=True).endswith('},"p":{}}')
    assert '"p"' not in value_of(same, only_output_updated_columns=True, profile="classic")


def test_newarch_compares_decimals_as_numbers_and_classic_as_text() -> None:
    changed = change(LOOSE, {**OLD, "b": "1.5"}, OLD)
    assert value_of(changed, only_output_updated_columns=True).endswith('"p":{}}')
    assert value_of(changed, only_output_updated_columns=True, profile="classic").endswith(
        '"p":{"b":{"t":246,"f":65,"v":"1.5"}}}'
    )


def test_deletes_can_carry_the_handle_key_alone() -> None:
    deleted = value_of(change(LOOSE, OLD, None), delete_only_output_handle_key_columns=True)
    assert deleted == '{"d":{"a":{"t":3,"h":true,"f":11,"v":1}}}'


def test_without_a_commit_ts_the_commit_time_is_written_as_tidb_would() -> None:
    changes = change(COLUMNS[:1], None, {"a": 1}, commit_ts=None, commit_time=TS >> 18)
    ((message,),) = messages(encode(changes))
    assert message[0] == f'{{"ts":{TS >> 18 << 18},"scm":"shop","tbl":"t","t":1}}'


def test_a_change_without_any_time_is_refused() -> None:
    with pytest.raises(UnsupportedError) as caught:
        encode(change(COLUMNS[:1], None, {"a": 1}, commit_ts=None))
    assert str(caught.value) == "insert of shop.t at shop:1:41: ticdc-open needs a commit_ts or a commit time"


@pytest.mark.parametrize(
    "type_text, value, message",
    [
        ("geometry", {"srid": 0, "wkb": b""}, "ticdc-open cannot carry shop.t.c of type geometry"),
        ("double", float("nan"), "ticdc-open cannot carry nan"),
        ("enum('a')", "z", "'z' is not a member of enum('a')"),
    ],
)
def test_values_that_the_protocol_cannot_carry_are_refused(type_text: str, value: Any, message: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        encode(change((column("c", type_text),), None, {"c": value}))
    assert str(caught.value).endswith(f"{message} (insert of shop.t at shop:1:41)")


def test_events_that_the_protocol_does_not_have_are_left_out() -> None:
    marks: list[Control] = [Heartbeat(PLACE, Instant(0, 3)), TransactionMark("begin", "1", PLACE)]
    assert encode(Decoded(control=marks)).num_rows == 0


def test_a_schema_change_without_text_is_refused() -> None:
    with pytest.raises(UnsupportedError) as caught:
        encode(Decoded(control=[SchemaChange("drop_table", "shop", "t", None, PLACE, commit_ts=TS)]))
    assert str(caught.value) == "ticdc-open: drop_table at shop:1:41 has no statement to send"


def placed(changes: Decoded, **options: Any) -> list[tuple[str, int, int]]:
    batch = encode(changes, **options)
    return [
        (r["topic"], r["partition"], r["offset"]) for r in batch.select(["topic", "partition", "offset"]).to_pylist()
    ]


def test_places_are_kept() -> None:
    assert placed(change(COLUMNS[:1], None, {"a": 1})) == [("shop", 1, 41)]


def test_with_new_partitions_marks_and_schema_changes_go_to_each_partition_once() -> None:
    def on(partition: int, row: int) -> Place:
        return Place("shop", partition, 7, None, row)

    ddl = [SchemaChange("drop_table", "shop", "t", "DROP TABLE `shop`.`t`", on(p, p), commit_ts=5) for p in (0, 1)]
    marks = [Resolved(ts, on(p, 2 + i)) for i, (p, ts) in enumerate([(0, 10), (1, 20), (1, 30), (0, 25)])]
    batch = encode(Decoded(control=[*ddl, *marks]), partition_num=2)
    assert [(r["partition"], r["offset"]) for r in batch.to_pylist()] == [
        (0, 0),
        (1, 0),
        (0, 1),
        (1, 1),
        (0, 2),
        (1, 2),
    ]
    assert [group[0][0] for group in messages(batch)][2::2] == ['{"ts":10,"t":3}', '{"ts":25,"t":3}']


def test_rows_are_dispatched_by_the_rule() -> None:
    changes = change(COLUMNS[:1], None, {"a": 11})
    assert placed(changes, partition_num=16, partition="ts") == [("shop", TS % 16, 0)]
    assert placed(changes, partition_num=3, topic="x_{schema}_{table}", partition="columns", columns="A") == [
        ("x_shop_t", placed(changes, partition_num=3, partition="index-value")[0][1], 0)
    ]


@pytest.mark.parametrize("profile", ["classic", "newarch"])
def test_statements_are_escaped_as_the_profile_does(profile: str) -> None:
    ddl = Decoded(control=[SchemaChange("add_column", "shop", "t", "x <&>", PLACE, commit_ts=TS)])
    text = "x <&>" if profile == "newarch" else r"x \u003c\u0026\u003e"
    assert messages(encode(ddl, profile=profile))[0][0][1] == f'{{"q":"{text}","t":5}}'


def test_a_statement_with_bytes_that_are_not_utf8_comes_back() -> None:
    sent = record((f'{{"ts":{TS},"scm":"shop","tbl":"t","t":2}}'.encode(), b'{"q":"DEFAULT \xff","t":5}'))
    assert encode(decode(sent)).column("value")[0].as_py() == sent["value"]


def test_partial_old_rows_are_filled_for_readers() -> None:
    value = ('{"u":{' + ID + ',"a":{"t":3,"f":65,"v":5}},"p":{"a":{"t":3,"f":65,"v":4}}}').encode()
    (row,) = rows(decode(record((key(), value))))
    assert (row.before, row.after) == ({"id": 1, "a": 4}, {"id": 1, "a": 5})
    assert row.shape.before is None


@pytest.mark.parametrize(
    "number", ["-0", "0.1", "3.4028235e+38", "1e-45", "1e-07", "16777216", "100000000000000000000"]
)
@pytest.mark.parametrize("code", [4, 5])
def test_an_old_number_without_a_column_is_written_verbatim(code: int, number: str) -> None:
    null = ",".join(f'"{name}":{{"t":{code},"f":65,"v":null}}' for name in "ab")
    sent = f'{{"u":{{{ID},{null}}},"p":{{"t":{code},"f":65,"v":{number}}}}}'
    changes = decode(record((key(), sent.encode())))
    assert value_of(changes, bug_compat=True) == sent


def test_an_old_float_without_a_column_is_within_its_range() -> None:
    null = ",".join(f'"{name}":{{"t":4,"f":65,"v":null}}' for name in "ab")
    (error,) = errors(decode(record((key(), f'{{"u":{{{ID},{null}}},"p":{{"t":4,"f":65,"v":1e39}}}}'.encode()))))
    assert "1e39 is not a float - at `p.nameless.v`" in error
