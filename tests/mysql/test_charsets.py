"""MySQL's character sets, both ways."""

from __future__ import annotations

import pytest

from changefeed.errors import SchemaError, UnsupportedError
from changefeed.mysql.binlog import collations
from changefeed.mysql.charsets import BINARY, NAMES, decode, encode, known


@pytest.mark.parametrize(
    "charset, text, data",
    [
        ("utf8", "naïve 🐟", b"na\xc3\xafve \xf0\x9f\x90\x9f"),
        ("latin1", "€ é \x81\x8d\x8f\x90\x9d", b"\x80 \xe9 \x81\x8d\x8f\x90\x9d"),
        ("ascii", "a\x80\xff", b"a\x80\xff"),
        ("gbk", "中文", b"\xd6\xd0\xce\xc4"),
        ("gb18030", "𠀀", b"\x95\x32\x82\x36"),
        ("gb2312", "中文", b"\xd6\xd0\xce\xc4"),
        ("big5", "中文", b"\xa4\xa4\xa4\xe5"),
        ("ucs2", "中", b"\x4e\x2d"),
        ("utf16", "🐟", b"\xd8\x3d\xdc\x1f"),
        ("utf16le", "🐟", b"\x3d\xd8\x1f\xdc"),
        ("utf32", "🐟", b"\0\x01\xf4\x1f"),
        ("ujis", "日本", b"\xc6\xfc\xcb\xdc"),
        ("eucjpms", "日本", b"\xc6\xfc\xcb\xdc"),
        ("sjis", "日本", b"\x93\xfa\x96\x7b"),
        ("cp932", "①", b"\x87\x40"),
        ("big5", "宏碁", b"\xa7\xbb\xf9\xd6"),
        ("eucjpms", "①㈱髙～", b"\xad\xa1\xad\xea\x8f\xf4\xfb\xa1\xc1"),
        ("ujis", "\ue000\ue3ac", b"\xf5\xa1\x8f\xf5\xa1"),
        ("sjis", "〜", b"\x81\x60"),
        ("cp866", "ⁿ²", b"\xfc\xfd"),
        ("gb18030", "ḿ\ue7c7", b"\xa8\xbc\x81\x35\xf4\x37"),
        ("euckr", "한국", b"\xc7\xd1\xb1\xb9"),
        ("latin2", "Ł", b"\xa3"),
        ("latin5", "İ", b"\xdd"),
        ("latin7", "Ž", b"\xde"),
        ("greek", "Ελ", b"\xc5\xeb"),
        ("hebrew", "ש", b"\xf9"),
        ("cp1250", "Ł", b"\xa3"),
        ("cp1251", "П", b"\xcf"),
        ("cp1256", "س", b"\xd3"),
        ("cp1257", "Ž", b"\xde"),
        ("koi8r", "П", b"\xf0"),
        ("koi8u", "ї", b"\xa7"),
        ("tis620", "ไ", b"\xe4"),
    ],
)
def test_text_both_ways(charset: str, text: str, data: bytes) -> None:
    assert decode(data, charset) == text
    assert encode(text, charset) == data


@pytest.mark.parametrize("charset", [name for name in NAMES if name != BINARY])
def test_every_character_set_is_there_and_has_letters(charset: str) -> None:
    assert decode(encode("shop", charset), charset) == "shop"


@pytest.mark.parametrize(
    "name, charset",
    [("gbk_chinese_ci", "gbk"), ("UTF8MB4_0900_ai_ci", "utf8mb4"), ("latin1", "latin1"), ("klingon", None), ("", None)],
)
def test_a_collation_names_its_character_set(name: str, charset: str | None) -> None:
    assert known(name) == charset


def test_bytes_of_another_character_set_are_refused() -> None:
    with pytest.raises(SchemaError) as caught:
        decode(b"a\x81\xff", "gbk")
    assert str(caught.value) == "byte 1 is not gbk"


@pytest.mark.parametrize("charset", ["gbk", "latin1", "ascii"])
def test_a_character_that_is_not_there_is_not_replaced(charset: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        encode("a🐟", charset)
    assert str(caught.value) == f"'🐟' is not in the character set {charset}"


@pytest.mark.parametrize(
    "number, charset",
    [(45, "utf8mb4"), (255, "utf8mb4"), (579, "utf8mb3"), (611, "utf8mb4"), (2304, "utf8mb4"), (9999, None)],
)
def test_the_number_of_a_collation_has_its_character_set(number: int, charset: str | None) -> None:
    assert collations.charset(number) == charset
