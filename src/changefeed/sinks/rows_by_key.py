"""The rows with a key in versions of a table: the contract of what sinks offer for it, and values of keys from text."""

from __future__ import annotations

from typing import Any, Protocol

import pyarrow as pa

from changefeed.errors import ConfigError

Row = dict[str, Any]


class KeyReader(Protocol):
    """Reads the rows with one key from versions of one table."""

    def at(self, version: int) -> list[Row]:
        """Returns the rows with the key at a version of the table: column -> value.

        Raises:
            SinkError: the version cannot be read, or a file of it has been deleted.
            ConfigError: the table has no such column, or the text is not a value of it.
        """
        ...


def value_of(kind: pa.DataType, column: str, text: str) -> pa.Scalar:
    """Returns the value of a column that has this type, from its text: `137`, `2026-01-31`; bytes in hex, `0x00ff`.

    Raises:
        ConfigError: the text is not such a value.
    """
    try:
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            return pa.scalar(bytes.fromhex(text.removeprefix("0x")), kind)
        return pa.scalar(text).cast(kind)
    except (pa.ArrowException, ValueError) as error:
        raise ConfigError(f"{text!r} is not a value of the column {column}, {kind}") from error
