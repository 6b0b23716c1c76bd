"""Hex dumps of records."""

from __future__ import annotations

from changefeed.cli.hexdump import hexdump


def test_the_offending_byte_is_pointed_at() -> None:
    assert list(hexdump(b'{"ts":1,"t":1}\xff\n', 14)) == [
        '00000000  7b 22 74 73 22 3a 31 2c  22 74 22 3a 31 7d ff 0a  |{"ts":1,"t":1}..|',
        "                                                     ^^ byte 14",
    ]
    line, mark = hexdump(bytes(8), 3)
    assert line[mark.index("^^") :].startswith("00")
    line, mark = hexdump(bytes([*range(16)]), 9)
    assert line[mark.index("^^") :].startswith("09")


def test_the_byte_after_the_last_is_pointed_at_where_more_was_expected() -> None:
    assert list(hexdump(b"ab", 2)) == [
        "00000000  61 62                                             |ab|",
        "                ^^ byte 2",
    ]
    assert [line.strip() for line in hexdump(bytes(16), 16)][1:] == [
        "00000010                                                    ||",
        "^^ byte 16",
    ]
    assert list(hexdump(b"")) == ["00000000                                                    ||"]


def test_only_the_bytes_around_it_are_shown_on_request() -> None:
    lines = list(hexdump(bytes(160), 85, around=1))
    assert lines[0] == "… 64 bytes"
    assert [line[:8] for line in lines[1:3]] == ["00000040", "00000050"]
    assert lines[3].strip() == "^^ byte 85"
    assert lines[4][:8] == "00000060"
    assert lines[5] == "… 48 bytes"
    assert len(list(hexdump(bytes(160), 85))) == 11
