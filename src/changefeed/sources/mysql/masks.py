"""Masks of texts, as Debezium's connectors have them: `mask-columns`.

    asterisks 8         ********                          column.mask.with.8.chars
    truncate 4          the first four characters         column.truncate.to.4.chars
    hash SHA-256        of salt and text, in hex          column.mask.hash.v2.SHA-256.with.salt.…
    hash-v1 SHA-256     of salt and Java's form of it     column.mask.hash.SHA-256.with.salt.…
    keep                the text itself                   after a pattern that matches more

Rule 1. NULL stays NULL. Equal texts have equal masks.
Rule 2. The bytes of a text that is invalid in its character set are hashed as they are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.ticdc.dispatch.matcher import ColumnFilter

_M = TypeVar("_M")
_ALGORITHMS = {"MD5": "md5", "SHA-1": "sha1", "SHA-256": "sha256", "SHA-384": "sha384", "SHA-512": "sha512"}
_JAVA_STRING, _JAVA_LONG_STRING = b"\xac\xed\x00\x05\x74", b"\xac\xed\x00\x05\x7c"
_FORMS = "`asterisks 8`, `truncate 4`, `hash SHA-256`, `hash-v1 SHA-256` or `keep`"


@dataclass(frozen=True, slots=True)
class Mask:
    """One way to mask texts; see the head of this file."""

    method: str
    argument: str = ""
    salt: str = field(default="", repr=False)

    @classmethod
    def parse(cls, text: str, salt: str) -> Mask | None:
        """Reads the text of a definition; None for `keep`.

        Raises:
            ValueError: it is none of the forms.
        """
        match text.split():
            case ["keep"]:
                return None
            case ["asterisks" | "truncate" as method, number] if number.isascii() and number.isdigit():
                return cls(method, number)
            case ["hash" | "hash-v1" as method, algorithm] if algorithm.upper() in _ALGORITHMS:
                return cls(method, algorithm.upper(), salt)
        raise ValueError(f"expected {_FORMS}; algorithms are {', '.join(_ALGORITHMS)}")

    @property
    def is_hash(self) -> bool:
        """Whether it is one of hashes."""
        return self.method.startswith("hash")

    @property
    def fingerprint(self) -> str:
        """12 hex digits that differ between masks, for the ledger."""
        return _fingerprint("\0".join((self.method, self.argument, self.salt)).encode())

    @property
    def parameter(self) -> tuple[str, str]:
        """The parameter by which the connector marks a field's schema: its name and value."""
        return ("truncateLength", self.argument) if self.method == "truncate" else ("masked", "true")

    def text(self, value: str) -> str:
        """Returns the mask of a text."""
        match self.method:
            case "asterisks":
                return "*" * int(self.argument)
            case "truncate":
                return value[: int(self.argument)]
        return self._hash()(value.encode())

    def column(self, values: pa.StringArray, irregular: dict[int, bytes], length: int | None = None) -> pa.StringArray:
        """Returns the masks of a column's texts.

        Args:
            values: the texts.
            irregular: row -> the bytes of a text that is invalid, beside NULL in `values`; those that are masked are taken out.
            length: most characters of a hash; None: all.
        """
        match self.method:
            case "asterisks":
                is_there, rows = values.is_valid().to_pylist(), set(irregular)
                irregular.clear()
                stars = self.text("")
                return pa.array([stars if ok or row in rows else None for row, ok in enumerate(is_there)], pa.string())
            case "truncate":
                most = int(self.argument)
                irregular.update({row: data[:most] for row, data in irregular.items()})
                return pc.utf8_slice_codeunits(values, 0, most)
        hashed, encoded = self._hash(), values.dictionary_encode()
        texts = [hashed(text.encode())[:length] for text in encoded.dictionary.to_pylist()]
        masked = pa.array(texts, pa.string()).take(encoded.indices)
        if irregular:
            each = masked.to_pylist()
            for row, data in irregular.items():
                each[row] = hashed(data)[:length]
            irregular.clear()
            masked = pa.array(each, pa.string())
        return masked

    def _hash(self) -> Callable[[bytes], str]:
        salted = hashlib.new(_ALGORITHMS[self.argument], self.salt.encode(), usedforsecurity=False)
        is_java = self.method == "hash-v1"

        def hashed(data: bytes) -> str:
            digest = salted.copy()
            digest.update(_java(data) if is_java else data)
            return digest.hexdigest()

        return hashed


@dataclass(frozen=True, slots=True)
class ColumnPatterns:
    """The columns that a section excludes and masks; it is sent to Spark's workers.

    Attributes:
        excluded: the patterns of `exclude-columns`.
        masks: those of `mask-columns`, each with its mask; None: the column is kept as it is.
    """

    excluded: tuple[str, ...] = ()
    masks: tuple[tuple[str, Mask | None], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.excluded or self.masks)

    @property
    def masked(self) -> tuple[str, ...]:
        """The patterns of masks, each with the mask's fingerprint, for the ledger."""
        return tuple(f"{pattern} {'' if mask is None else mask.fingerprint}" for pattern, mask in self.masks)

    def compiled(self) -> CompiledPatterns[Mask]:
        """Compiles the patterns."""
        return CompiledPatterns(self.excluded, self.masks)

    def every(self) -> list[tuple[str, str]]:
        """All patterns without `!`, each with the name of its option."""
        excluded = [("exclude-columns", pattern.removeprefix("!")) for pattern in self.excluded]
        return [*excluded, *(("mask-columns", pattern) for pattern, _ in self.masks)]


class CompiledPatterns(Generic[_M]):
    """Finds the last pattern that matches a column."""

    def __init__(self, excluded: Iterable[str], masks: Sequence[tuple[str, _M | None]]) -> None:
        """Compiles patterns of columns that are excluded, and patterns with masks, or with what stands for a mask."""
        self._excluded = ColumnFilter(excluded)
        self._masks = [(ColumnFilter([pattern]), mask) for pattern, mask in reversed(masks)]

    def excludes(self, database: str, table: str, column: str) -> bool:
        """Whether a column is excluded."""
        return self._excluded.matches(database, table, column)

    def mask(self, database: str, table: str, column: str) -> _M | None:
        """Returns the mask of a column; None if it has none."""
        return next((mask for pattern, mask in self._masks if pattern.matches(database, table, column)), None)


@cache
def _fingerprint(text: bytes) -> str:
    """A slow hash, for a salt that might be guessed."""
    return hashlib.scrypt(text, salt=b"changefeed.mask", n=2**14, r=8, p=1, dklen=6).hex()


def _java(data: bytes) -> bytes:
    """Java's serialisation of a text in UTF-8."""
    modified = data
    if b"\0" in data or any(byte >= 0xF0 for byte in data):
        modified = b"".join(map(_java_character, data.decode("utf-8", "surrogateescape")))
    if len(modified) < 2**16:
        return _JAVA_STRING + len(modified).to_bytes(2, "big") + modified
    return _JAVA_LONG_STRING + len(modified).to_bytes(8, "big") + modified


def _java_character(character: str) -> bytes:
    """A character in Java's modified UTF-8."""
    if character == "\0":
        return b"\xc0\x80"
    if character > "\uffff":
        units = character.encode("utf-16-be")
        return b"".join(chr(int.from_bytes(units[i : i + 2], "big")).encode("utf-8", "surrogatepass") for i in (0, 2))
    return character.encode("utf-8", "surrogateescape")
