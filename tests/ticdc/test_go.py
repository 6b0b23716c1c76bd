"""Text as Go writes it: `tests/data/wire/go.jsonl` was printed by Go 1.26 (encoding/json, strconv)."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path

import pytest

from changefeed.errors import SchemaError
from changefeed.ticdc.go_quote import quote, unquote
from changefeed.ticdc.unicode15 import is_print
from changefeed.wire.floats import fixed, float32
from changefeed.wire.go_json import W_HTML, W_RAW

GO = [json.loads(line) for line in (Path(__file__).parents[1] / "data/wire/go.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("case", [c for c in GO if c["kind"] == "string"], ids=lambda c: c["input"])
def test_strings_are_gos(case: dict[str, str]) -> None:
    data, as_json, quoted = (base64.b64decode(case[name]) for name in ("input", "json", "text"))
    assert W_HTML.string(data.decode("utf-8", "surrogateescape")).encode() == as_json
    assert quote(data).encode() == quoted
    assert unquote(quoted.decode()) == data


@pytest.mark.parametrize("case", [c for c in GO if c["kind"] != "string"], ids=lambda c: c["kind"] + c["input"])
def test_floats_are_gos(case: dict[str, str]) -> None:
    value, bits = float.fromhex(case["input"]), int(case["kind"][-2:])
    assert (W_HTML.float(value, bits), fixed(value, bits)) == (case["json"], case["text"])
    assert (float32(case["json"]) if bits == 32 else float(case["json"])) == value


@pytest.mark.parametrize(
    "value, html, raw",
    [
        (1e-7, "1e-7", "1e-07"),
        (1e-10, "1e-10", "1e-10"),
        (1e21, "1e+21", "1e+21"),
        (-0.0, "-0", "-0"),
        (1e-6, "0.000001", "0.000001"),
    ],
)
def test_the_two_writers_differ_in_small_exponents(value: float, html: str, raw: str) -> None:
    assert (W_HTML.float(value, 64), W_RAW.float(value, 64)) == (html, raw)


def test_the_two_writers_differ_in_what_they_escape() -> None:
    text = '<&>\u2028\b\f\n"\\\x01\x7fé\udcff'
    assert W_HTML.string(text) == r'"\u003c\u0026\u003e\u2028\b\f\n\"\\\u0001' + "\x7fé" + r'\ufffd"'
    assert W_RAW.string(text) == '"<&>\u2028' + r"\u0008\u000c\n\"\\\u0001" + '\x7fé\udcff"'


@pytest.mark.parametrize(
    "text, data",
    [(r"\101\377", b"A\xff"), (r"\x41é\u00e9\U0001f41f", b"A\xc3\xa9\xc3\xa9\xf0\x9f\x90\x9f"), (r"\"\\'", b"\"\\'")],
)
def test_unquote_accepts_the_texts_that_go_accepts(text: str, data: bytes) -> None:
    assert unquote(text) == data


@pytest.mark.parametrize("text", ['"', "\\", r"\x1", r"\400", r"\'", r"\q", "a\nb", r"\u12", "\udc80"])
def test_unquote_refuses_texts_that_quote_never_prints(text: str) -> None:
    with pytest.raises(SchemaError, match=r"^escaped text is broken at "):
        unquote(text)


@pytest.mark.parametrize("text", [r"\ud800", r"\U00110000"])
def test_unquote_refuses_other_texts_than_runes(text: str) -> None:
    with pytest.raises(SchemaError) as caught:
        unquote(text)
    assert str(caught.value) == f"escaped text has an invalid escape {text}"


@pytest.mark.parametrize("printed", [" ", "~", "é", "\U0001fae8", "\U00011f02", "\U00031350", "\ufffd"])
def test_characters_of_unicode_15_print(printed: str) -> None:
    assert is_print(printed)


@pytest.mark.parametrize(
    "hidden",
    ["\x7f", "\xa0", "\xad", "\u3000", "\ufeff", "\ue000", "\U0002ebf0", "\u1c8a", "\ua7cb", "\U0001ccd6", "\u20c1"],
)
def test_characters_of_later_versions_do_not(hidden: str) -> None:
    assert not is_print(hidden)


def test_the_frozen_table_is_the_whole_of_gos() -> None:
    """The digest is of one byte per code point: 1 if Go's `strconv.IsPrint` returns true."""
    printable = bytes(is_print(chr(code)) for code in range(0x110000))
    assert hashlib.sha256(printable).hexdigest() == "a24a109bc8e347f9490466c59e4160d0dc9dd1006a5be9a4c91af71cd2e7fa99"
