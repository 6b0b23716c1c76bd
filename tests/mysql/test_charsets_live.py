"""All characters of one and two bytes, and those of three in Japanese character sets, as the server reads them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from changefeed.mysql import charsets
from tests.services.database import Database, MariaDb, MySql

pytestmark = pytest.mark.nightly
_AT_ONCE = 6000
_OF_UNICODE = ("utf8", "utf8mb3", "utf8mb4", "ucs2", "utf16", "utf16le", "utf32")
_UNKNOWN = "?\ufffd"  # of bytes without a character
_SECOND_TILDE = bytes.fromhex("8fa2b7")  # of eucjpms: read as the one of ASCII


@pytest.fixture(scope="module", params=[MariaDb, MySql], ids=["mariadb", "mysql"])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    with request.param() as server:
        server.execute("CREATE DATABASE x")
        yield server


def texts_of(database: Database, charset: str, values: list[bytes]) -> dict[bytes, str]:
    """The texts that the server reads from bytes; without those that it does not store as they are."""
    database.execute("DROP TABLE IF EXISTS t; CREATE TABLE t (id INT PRIMARY KEY, f VARBINARY(4))", "x")
    for start in range(0, len(values), _AT_ONCE):
        rows = ", ".join(f"({start + i}, X'{v.hex()}')" for i, v in enumerate(values[start : start + _AT_ONCE]))
        database.execute(f"INSERT INTO t VALUES {rows}", "x")
    database.execute(f"SET sql_mode = ''; ALTER TABLE t MODIFY f VARCHAR(20) CHARACTER SET {charset}", "x")
    read = database.selected("SELECT id, HEX(CONVERT(f USING utf8mb4)), HEX(f) FROM t", "x")
    return {
        values[int(number)]: bytes.fromhex(text).decode(errors="replace")
        for number, text, stored in read
        if stored and bytes.fromhex(stored) == values[int(number)]
    }


@pytest.mark.parametrize("charset", [name for name in charsets.NAMES if name not in (*_OF_UNICODE, charsets.BINARY)])
def test_bytes_are_the_characters_of_the_server(database: Database, charset: str) -> None:
    if charset == "gb18030" and database.connector == "mariadb":
        pytest.skip("MariaDB does not have it")
    values = [bytes((byte,)) for byte in range(256)]
    if charset in charsets.MULTIPLE:
        values += [bytes((first, second)) for first in range(0x81, 0xFF) for second in range(0x40, 0xFF)]
    if charset in ("ujis", "eucjpms"):
        values += [bytes((0x8F, first, second)) for first in range(0xA1, 0xFF) for second in range(0xA1, 0xFF)]
    texts = {data: text for data, text in texts_of(database, charset, values).items() if not set(text) <= set(_UNKNOWN)}
    assert len(texts) >= 127
    different = {
        data.hex(): (charsets.decode(data, charset), text) for data, text in texts.items() if data != _SECOND_TILDE
    }
    assert {data: pair for data, pair in different.items() if pair[0] != pair[1]} == {}
    again = {text for text in texts.values() if charsets.decode(charsets.encode(text, charset), charset) != text}
    assert again == set()
