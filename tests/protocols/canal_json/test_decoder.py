"""Canal-JSON: the changes of a record, and the reasons why one is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from changefeed.protocols.base import Stores
from tests.protocols.canal_json.records import COMMIT_TS, decoded, encoded, errors, row, rows

ONE = row([{"id": "1", "a": "x"}])
TWO = row([{"id": "1", "a": "y"}], [{"a": "x"}], kind="UPDATE")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_messages_one_a_line_are_one_record_again(end: str) -> None:
    value = f"{ONE}{end}{TWO}{end}"
    changes = decoded(value)
    assert [(event["op"], event["position"]) for event in rows(changes)] == [
        ("insert", "t:0:0:0"),
        ("update", "t:0:0:1"),
    ]
    assert encoded(changes) == [value.encode()]


def test_the_last_line_may_have_no_end() -> None:
    value = f"{ONE}\n{TWO}"
    assert encoded(decoded(value)) == [value.encode()]


def test_a_message_that_spans_lines_is_read() -> None:
    changes = decoded(json.dumps(json.loads(ONE), indent=2))
    assert [event["after"] for event in rows(changes)] == [{"id": 1, "a": "x"}]


def test_a_bad_line_refuses_the_record_and_is_named() -> None:
    changes = decoded(f'{ONE}\n{{"isDdl":1}}\n{TWO}\n')
    assert not changes.tables
    byte = len(ONE) + 1
    assert errors(changes) == [f"canal-json: 1 is not a boolean - at `isDdl` in message 2 of 3 at byte {byte} (t:0:0)"]
    assert (changes.dead[0].database, changes.dead[0].table) == ("shop", "t")


def test_rows_of_one_message_are_one_message_again() -> None:
    old, new = [{"a": "x"}, {}], [{"id": "1", "a": "y"}, {"id": "2", "a": "z"}]
    value = row(new, old, kind="UPDATE")
    changes = decoded(value, value)
    images = [(event["position"], event["before"], event["after"]) for event in rows(changes)]
    assert images[:2] == [
        ("t:0:0:0", {"id": 1, "a": "x"}, {"id": 1, "a": "y"}),
        ("t:0:0:1", {"id": 2, "a": "z"}, {"id": 2, "a": "z"}),
    ]
    assert encoded(changes) == [value.encode()] * 2


def test_rows_of_one_message_with_other_digits_stay_together() -> None:
    types = {"id": "int", "at": "datetime"}
    value = row([{"id": "1", "at": "2026-01-02 03:04:05"}, {"id": "2", "at": "2026-01-02 03:04:05.100"}], types=types)
    value = value.replace('"at":12', '"at":93')
    changes = decoded(value)
    assert len(changes.tables) == 2
    assert encoded(changes) == [value.encode()]


def test_without_the_extension_there_is_no_commit_ts() -> None:
    (event,) = rows(decoded(ONE))
    assert (event["commit_ts"], event["commit_time"]) == (None, "2026-01-01T00:00:26.357Z")
    (event,) = rows(decoded(row([{"id": "1"}], _tidb={"commitTs": COMMIT_TS})))
    assert event["commit_ts"] == COMMIT_TS


def test_null_pk_names_leave_the_key_unknown() -> None:
    shape = decoded(row([{"id": "1"}], keys=None)).tables[0].shape
    assert [column.key for column in shape.columns] == [None]


def test_a_text_that_its_type_would_write_otherwise_is_kept() -> None:
    types = {"id": "double(20,2)", "f": "float", "d": "decimal(10,3)"}
    value = row([{"id": "56.0", "f": "1.0E7", "d": "1.5"}], types=types)
    value = value.replace('"sqlType":{"id":12,"f":12,"d":12}', '"sqlType":{"id":8,"f":7,"d":3}')
    changes = decoded(value)
    assert rows(changes)[0]["after"] == {"id": 56.0, "f": 1e7, "d": "1.500"}
    assert encoded(changes) == [value.encode()]


@pytest.mark.parametrize(
    "text, kind, canonical",
    [
        ("3", "enum('a','b','c')", "c"),
        ("0", "enum('a','b')", ""),
        ("5", "set('a','b','c')", "a,c"),
        ("2", "enum", {"index": 2}),
        ("257", "bit(10)", 257),
        ("\u0000é", "varbinary(4)", {"base64": "AOk="}),
        ("\u0001\u0000\u0000\u0000é", "point", {"srid": 1, "wkb": "6Q=="}),
        ("-838:59:59.5", "time", "-838:59:59.5"),
        ("42", "INT(5) UNSIGNED ZEROFILL", 42),
    ],
)
def test_values_by_their_type(text: str, kind: str, canonical: Any) -> None:
    (event,) = rows(decoded(row([{"v": text}], types={"v": kind}, keys=None)))
    assert event["after"] == {"v": canonical}


@pytest.mark.parametrize(
    "text, kind",
    [
        ("0000-00-00", "date"),
        ("2026-02-31 00:00:00", "datetime"),
        ("2026-01-02 03:04:05.123", "datetime(2)"),
        ("256", "tinyint unsigned"),
        ("1024", "bit(10)"),
        ("4", "enum('a','b','c')"),
        ("8", "set('a','b','c')"),
        ("123.45", "decimal(4,2)"),
        ("-0.00", "decimal"),
    ],
)
def test_values_that_the_type_cannot_hold_are_kept_verbatim(text: str, kind: str) -> None:
    value = row([{"v": text}], types={"v": kind}, keys=None)
    changes = decoded(value)
    (event,) = rows(changes)
    assert (event["after"], event["irregular"]) == ({"v": None}, {"v": text})
    assert f'"v":"{text}"}}]' in encoded(changes)[0].decode()


@pytest.mark.parametrize(
    "value, error",
    [
        (row([{"id": "1"}], mysqlType=None), "message has no mysqlType, without which the values have no meaning"),
        (row([{"id": "1"}], mysqlType={}), "column 'id' has no type - at `mysqlType`"),
        (row([{"id": "1"}], types={"id": "int128"}), "column type 'int128' is unknown - at `mysqlType.id`"),
        (row([{"id": "01"}]), "'01' is not of type int - at `data[0].id`"),
        (row([{"id": 1}]), "1 is neither a string nor null - at `data[0].id`"),
        (
            row([{"b": "ł"}], types={"b": "blob"}),
            "'ł' has characters that are not a byte of ISO-8859-1 - at `data[0].b`",
        ),
        (row([{"e": "red"}], types={"e": "enum"}), "'red' is not the number of a member of enum - at `data[0].e`"),
        (row(None), "message of type INSERT has no rows - at `data`"),
        (row([{"id": "1"}], [{}]), "message of type INSERT has old rows - at `old`"),
        (row([{"id": "1"}], [{}, {}], kind="UPDATE"), "message has 1 rows and 2 old rows - at `old`"),
        (row([{"id": "1"}], table=""), "row does not name its database and table"),
        (row([{"id": "1"}], _tidb={}), "extension of a row has no commitTs - at `_tidb`"),
        (
            row([{"id": "1"}], _tidb={"onlyHandelKey": True}),
            "extension has an unknown member 'onlyHandelKey' - at `_tidb`",
        ),
        (row([{"id": "1"}], xid=7), "message has an unknown member 'xid'"),
        (row([{"id": "1"}], isDdl=True), "DDL has no statement - at `sql`"),
        (row(None, kind="TIDB_WATERMARK", database="", table=""), "watermark has no watermarkTs - at `_tidb`"),
    ],
)
def test_records_that_contradict_the_protocol_are_refused(value: str, error: str) -> None:
    changes = decoded(value)
    assert not changes.tables
    assert errors(changes) == [f"canal-json: {error} (t:0:0)"]


def test_a_record_without_a_value_is_refused() -> None:
    assert errors(decoded(b"")) == ["canal-json: record has no message (t:0:0)"]


def test_an_unknown_type_asks_for_the_protocol() -> None:
    expected = "expected INSERT, UPDATE, DELETE, TIDB_WATERMARK or a DDL"
    assert errors(decoded(row(None, kind="QUERY"))) == [
        f"canal-json: type 'QUERY' is unknown, {expected} (t:0:0). Is \"protocol\" right for this topic?"
    ]


# Claim checks

LOCATION = "s3://bucket/folder/f.json"
WHOLE = row([{"id": "1", "a": "x"}], _tidb={"commitTs": COMMIT_TS})
SENT = row([{"id": "1"}], _tidb={"commitTs": COMMIT_TS, "claimCheckLocation": LOCATION})
STORED = {"enable_tidb_extension": True, "large_message_handle_option": "claim-check", "claim_check_storage_uri": "/x"}


@pytest.mark.parametrize("raw", [False, True])
def test_a_row_in_a_claim_check_file_is_read_and_written_again(raw: bool) -> None:
    files: dict[str, bytes] = {}
    options = {**STORED, "claim_check_raw_value": raw, "max_message_bytes": 380}
    large = decoded(row([{"id": "1", "a": "x" * 100}], _tidb={"commitTs": COMMIT_TS}))
    (sent,) = encoded(large, Stores(put_body=files.__setitem__), **options)
    ((name, body),) = files.items()
    assert json.loads(sent)["_tidb"] == {"commitTs": COMMIT_TS, "claimCheckLocation": f"/x/{name}"}
    assert json.loads(sent)["data"] == [{"id": "1"}]
    assert body.startswith(b'{"id":0,' if raw else b'{"key":null,"value":"')
    changes = decoded(sent, stores=Stores(get_body=files.__getitem__), **options)
    assert rows(changes)[0]["after"] == {"id": 1, "a": "x" * 100}
    again: dict[str, bytes] = {}
    assert encoded(changes, Stores(put_body=again.__setitem__), **options) == [sent]
    assert again == files


@pytest.mark.parametrize(
    "body, error",
    [
        (WHOLE.replace('"t"', '"u"'), "claim-check file has table 'u', its message 't'"),
        (WHOLE.replace(str(COMMIT_TS), "7"), f"claim-check file has commitTs 7, its message {COMMIT_TS}"),
        (SENT, "claim-check file does not hold a whole row"),
    ],
)
def test_a_claim_check_file_of_another_row_is_refused(body: str, error: str) -> None:
    changes = decoded(SENT, stores=Stores(get_body=lambda _: body.encode()), claim_check_raw_value=True)
    assert errors(changes) == [f"canal-json: {error} (t:0:0)"]


@pytest.mark.parametrize(
    "location, error",
    [
        (LOCATION, 'row is in the claim-check file f.json: set option "claim-check-storage-uri" to read it'),
        ("s3://x/..", "'..' is not a plain name of a claim-check file - at `_tidb.claimCheckLocation`"),
    ],
)
def test_a_claim_check_without_a_store_names_the_option(location: str, error: str) -> None:
    changes = decoded(SENT.replace(LOCATION, location))
    assert errors(changes) == [f"canal-json: {error} (t:0:0)"]
    assert changes.dead[0].reason == "claim-check"
