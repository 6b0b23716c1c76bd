"""Masks of texts: those of Debezium's connectors, and of every text alike."""

from __future__ import annotations

import hashlib

import pyarrow as pa
import pytest

from changefeed.sources.mysql.masks import ColumnPatterns, Mask
from changefeed.sources.mysql.section import MySqlSource

TEXTS = ["", "a", None, "sally.thomas@acme.com", "a", "naïve 😀 \0 x", "x" * 70_000]


def mask(text: str, salt: str = "CzQMA0cB5K") -> Mask:
    """A mask that is not `keep`."""
    read = Mask.parse(text, salt)
    assert read is not None
    return read


def test_hashes_are_those_of_the_connector() -> None:
    """The first is what a connector wrote; Java writes a long text, and characters outside of the BMP, in another form."""
    assert mask("hash-v1 SHA-256").text("sally.thomas@acme.com").startswith("d540e71a")
    assert mask("hash-v1 SHA-256").text("sally.thomas@acme.com").endswith("ffd0e82")
    assert mask("hash sha-256").text("ä") == hashlib.sha256("CzQMA0cB5Kä".encode()).hexdigest()
    java = b"\xac\xed\x00\x05\x74\x00\x0aa\xc0\x80\xed\xa0\xbd\xed\xb8\x80b"
    assert mask("hash-v1 MD5").text("a\0😀b") == hashlib.md5(b"CzQMA0cB5K" + java).hexdigest()


@pytest.mark.parametrize("text", ["asterisks 8", "asterisks 0", "truncate 7", "hash SHA-512", "hash-v1 SHA-1"])
def test_columns_are_masked_as_single_texts(text: str) -> None:
    made = mask(text)
    expected = [None if value is None else made.text(value) for value in TEXTS]
    assert made.column(pa.array(TEXTS), {}).to_pylist() == expected
    assert made.column(pa.array(TEXTS).slice(1, 4), {}).to_pylist() == expected[1:5]
    assert made.column(pa.array([], pa.string()), {}).to_pylist() == []
    assert made == mask(text)
    assert (made.fingerprint == mask(text, "other").fingerprint) is not made.is_hash


def test_bytes_that_are_not_text() -> None:
    values, invalid = pa.array(["a", None, None]), {1: b"\xffxyz"}
    hashed = mask("hash MD5").column(values, dict(invalid), 10).to_pylist()
    assert hashed == [hashlib.md5(b"CzQMA0cB5K" + data).hexdigest()[:10] for data in (b"a", b"\xffxyz")] + [None]
    assert mask("asterisks 2").column(values, dict(invalid)).to_pylist() == ["**", "**", None]
    assert mask("truncate 2").column(values, invalid).to_pylist() == ["a", None, None]
    assert invalid == {1: b"\xffx"}


def test_the_last_pattern_that_matches_decides() -> None:
    stars = mask("asterisks 1")
    patterns = ColumnPatterns(("*.*.a", "!s.t.*"), (("s.*.*", stars), ("s.t.keep", None)))
    rules = patterns.compiled()
    assert [rules.excludes("s", table, "A") for table in "tu"] == [False, True]
    assert [rules.mask("S", "t", column) for column in ("x", "KEEP")] == [stars, None]
    assert rules.mask("r", "t", "x") is None


@pytest.mark.parametrize(
    "options, why",
    [
        ({"mask-columns": {"shop.a": "keep"}}, "expected a dot and the column"),
        ({"mask-columns": {"!shop.a.b": "keep"}}, "write `keep` in place of `!`"),
        ({"mask-columns": {"shop.a.b": "hash CRC32"}}, "expected `asterisks 8`"),
        ({"mask-columns": {"shop.a.b": "truncate -1"}}, "expected `asterisks 8`"),
        ({"mask-columns": {"shop.a.b": "hash SHA-256"}}, "needs `mask-salt`"),
        ({"exclude-columns": ["shop.a"]}, "expected a dot and the column"),
    ],
)
def test_definitions_that_are_wrong(options: dict[str, object], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        MySqlSource.model_validate({"type": "mysql", "host": "db", "user": "u"} | options)
