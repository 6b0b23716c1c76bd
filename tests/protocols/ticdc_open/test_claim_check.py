"""Rows in claim-check files: read from the file, written to it, and never read from another place."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from changefeed import stores
from changefeed.errors import ConfigError, SourceError
from changefeed.model.batch import Decoded
from changefeed.protocols.base import Stores
from changefeed.protocols.ticdc_open import framing
from tests.protocols.ticdc_open.messages import ID, decode, encode, errors, insert, key, messages, record, rows

NAME = "b7d2f7b0-0000-4000-8000-000000000000.json"
BIG = insert('"v":{"t":15,"f":64,"v":"' + "x" * 500 + '"}')
SENT = record((key(f',"ohk":true,"ohk":false,"ccl":"s3://bucket/a/{NAME}"'), insert()))


def file(*held: tuple[bytes, bytes]) -> bytes:
    parts = zip(("key", "value"), framing.join(held), strict=True)
    return json.dumps({name: base64.b64encode(data).decode() for name, data in parts}).encode()


def from_files(**files: bytes) -> Decoded:
    def get(name: str) -> bytes:
        if name not in files:
            raise FileNotFoundError(name)
        return files[name]

    return decode(SENT, stores=Stores(get_body=get))


def test_the_row_comes_from_the_file_and_not_from_the_message() -> None:
    (row,) = rows(from_files(**{NAME: file((key(), BIG))}))
    assert row.after == {"id": 1, "v": "x" * 500}
    assert row.origin == {"ccl": f"s3://bucket/a/{NAME}"}


def test_without_a_store_the_dead_letter_names_the_option() -> None:
    assert errors(decode(SENT)) == [
        f'ticdc-open: row is in the claim-check file {NAME}: set option "claim-check-storage-uri" to read it '
        "at byte 8 (orders:3:118204)"
    ]
    assert decode(SENT).dead[0].reason == "claim-check"


@pytest.mark.parametrize(
    "held, message",
    [
        (None, f"claim-check file {NAME} is not in the store"),
        (b"{}", f"claim-check file {NAME}: content must have exactly the members key and value, both strings"),
        (b"nonsense", f"claim-check file {NAME}: content is not JSON: expecting value"),
        (b'{"key":"!","value":""}', f"claim-check file {NAME}: '!' is not base64"),
        (file((key(), BIG))[:-9] + b'"}', f"claim-check file {NAME}: "),
        (file(), f"claim-check file {NAME} holds 0 messages, expected 1"),
        (file((key(), BIG), (key(), BIG)), f"claim-check file {NAME} holds 2 messages, expected 1"),
        (file((key(',"ccl":"a.json"'), BIG)), "claim-check file does not hold a whole row"),
        (file((key(',"ohk":true'), BIG)), "claim-check file does not hold a whole row"),
        (file((key(table="u"), BIG)), "claim-check file has table 'u', its message 't'"),
    ],
)
def test_a_file_of_another_row_is_refused(held: bytes | None, message: str) -> None:
    changes = from_files(**({} if held is None else {NAME: held}))
    assert changes.tables == []
    (letter,) = changes.dead
    assert letter.error.startswith(f"ticdc-open: {message}")
    assert letter.reason == "claim-check"


@pytest.mark.parametrize(
    "location", ["", "/", "a/", "a/..", "..", ".hidden", r"a\\b.json", "a b.json", "a/\\u0000", "é"]
)
def test_a_location_without_a_plain_file_name_is_refused(location: str) -> None:
    changes = decode(record((key(f',"ccl":"{location}"'), insert())), stores=Stores(get_body=lambda name: b""))
    (letter,) = changes.dead
    assert letter.reason == "claim-check"
    assert "is not a plain name of a claim-check file - at `ccl`" in letter.error


@pytest.mark.parametrize("location", ["../../etc/passwd", "file:///etc/passwd", "http://host/passwd"])
def test_only_the_last_part_of_a_location_reaches_the_store(location: str) -> None:
    asked: list[str] = []

    def get(name: str) -> bytes:
        asked.append(name)
        raise FileNotFoundError(name)

    decode(record((key(f',"ccl":"{location}"'), insert())), stores=Stores(get_body=get))
    assert asked == ["passwd"]


def test_a_file_above_the_limit_is_refused(tmp_path: Path) -> None:
    get, put = stores.claim_check_store(str(tmp_path), max_bytes=100)
    put(NAME, file((key(), BIG)))
    changes = decode(SENT, stores=Stores(get_body=get), claim_check_max_bytes=100)
    assert errors(changes) == [
        f'ticdc-open: claim-check file {NAME} has 101 bytes, above option "claim-check-max-bytes" 100 '
        "at byte 8 (orders:3:118204)"
    ]


@pytest.mark.parametrize("scheme", ["", "file://", "memory://"])
@pytest.mark.parametrize("profile", ["classic", "newarch"])
def test_a_large_row_goes_through_a_store_and_back(scheme: str, profile: str, tmp_path: Path) -> None:
    uri = f"{scheme}{tmp_path}/checks"
    options = {
        "profile": profile,
        "max_message_bytes": 400,
        "large_message_handle_option": "claim-check",
        "claim_check_storage_uri": uri,
    }
    store = stores.stores(uri)
    whole = decode(record((key(), BIG)))
    sent = encode(whole, store, **options)
    (((event_key, value),),) = messages(sent)
    assert value == "{" + f'"u":{{{ID}}}' + "}"
    name = event_key.rsplit("/", 1)[1].removesuffix('"}')
    between = '"t":1,' if profile == "classic" else '"t":1,"ohk":true,"ohk":false,'
    assert event_key == f'{{"ts":463267587983154927,"scm":"shop","tbl":"t",{between}"ccl":"{uri}/{name}"}}'
    changes = decode(*sent.to_pylist(), stores=store, **options)
    assert [row.after for row in rows(changes)] == [row.after for row in rows(whole)]
    assert encode(changes, store, **options).equals(sent)


def test_the_name_of_a_file_depends_on_its_content(tmp_path: Path) -> None:
    options = {"max_message_bytes": 400, "large_message_handle_option": "claim-check", "claim_check_storage_uri": "s"}
    whole = decode(record((key(), BIG)))
    first, second = (encode(whole, stores.stores(str(tmp_path)), **options) for _ in range(2))
    assert first.equals(second)
    assert len(list(tmp_path.iterdir())) == 1


def test_writing_without_a_store_is_a_configuration_error() -> None:
    options: dict[str, Any] = {
        "max_message_bytes": 400,
        "large_message_handle_option": "claim-check",
        "claim_check_storage_uri": "s",
    }
    with pytest.raises(ConfigError) as caught:
        encode(decode(record((key(), BIG))), **options)
    assert str(caught.value) == "large-message-handle-option claim-check needs a claim-check store to write to"


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a\\b", ".x", "a\0"])
def test_a_store_does_not_read_names_outside_of_it(name: str, tmp_path: Path) -> None:
    get, _ = stores.claim_check_store(str(tmp_path))
    with pytest.raises(SourceError) as caught:
        get(name)
    assert str(caught.value) == f"{name!r} is not a plain name of a claim-check file"


def test_a_missing_store_is_not_reported_as_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        stores.claim_check_store(str(tmp_path))[0]("a.json")
    with pytest.raises(SourceError) as caught:
        stores.claim_check_store(f"{tmp_path}/none")[0]("a.json")
    assert str(caught.value) == f"claim-check-storage-uri: there is no folder {tmp_path}/none"


def test_an_unknown_scheme_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match=r"^claim-check-storage-uri nowhere://x: "):
        stores.claim_check_store("nowhere://x?access-key=secret")


def test_a_link_that_leads_out_of_the_store_is_not_followed(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    (tmp_path / "secret.json").write_bytes(b"secret")
    (store / "there.json").write_bytes(b"there")
    (store / "inside.json").symlink_to(store / "there.json")
    (store / NAME).symlink_to(tmp_path / "secret.json")
    get, _ = stores.claim_check_store(str(store))
    assert get("inside.json") == b"there"
    with pytest.raises(SourceError) as caught:
        get(NAME)
    assert str(caught.value) == (
        f"claim-check file {store / NAME}: a symbolic link that leads out of the folder is not followed"
    )
