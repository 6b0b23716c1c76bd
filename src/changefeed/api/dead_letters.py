"""The dead letters that a pipeline has stored, as Python values."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from changefeed.api.moments import iso
from changefeed.model.names import full_name
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.dead_letters import letters, position
from changefeed.pipeline.letter_files import StoredLetter

_ID_DIGITS = 12


@dataclass(frozen=True, slots=True)
class KeptDeadLetter:
    """A dead letter that a pipeline has stored: a record, or one message of a record, that could not be decoded.

    Attributes:
        id: the first hex digits of `sha256`; dead letters with the same bytes have the same id.
        position: `topic:partition:offset`, with `:index` for one message of a record.
        reason: a stable code, such as `truncated` (docs/reference/errors.md).
        error: the full error message.
        table: `database.table`; None if the record does not show it.
        byte: byte offset of the error in the key or value; None if unknown.
        at: when the dead letter was stored, in UTC.
        replayed: when it was replayed, in UTC; None if it has not been replayed.
        pipeline, protocol: the names of the pipeline and of its protocol.
        schema_id: id of the record's schema in the schema registry; None if the record names none.
        sha256: SHA-256 of the record's key and value, in hex.
        key, value, headers: those of the whole record, as read.
    """

    id: str
    position: str
    reason: str
    error: str
    table: str | None
    byte: int | None
    at: datetime
    replayed: datetime | None
    pipeline: str
    protocol: str
    schema_id: str | None
    sha256: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    def has(self, which: str) -> bool:
        """Whether a text identifies this dead letter.

        Args:
            which: the dead letter's position, or its record's; or at least the first six digits of `sha256`.
        """
        return which in (self.position, self.record) or (len(which) >= 6 and self.sha256.startswith(which))

    @property
    def record(self) -> str:
        """The record's position, without an index: `topic:partition:offset`."""
        return ":".join(self.position.split(":")[:3])

    def summary(self) -> dict[str, Any]:
        """Returns the attributes without the record's bytes: one entry of `changefeed dlq list --json`."""
        return {
            "id": self.id,
            "position": self.position,
            "reason": self.reason,
            "table": self.table,
            "error": self.error,
            "byte": self.byte,
            "at": iso(self.at),
            "replayed": self.replayed and iso(self.replayed),
        }

    def to_dict(self) -> dict[str, Any]:
        """Returns all attributes, with bytes in base64: the output of `changefeed dlq show --json`."""
        return {
            **self.summary(),
            **{name: getattr(self, name) for name in ("pipeline", "protocol", "schema_id", "sha256")},
            "key": _base64(self.key),
            "value": _base64(self.value),
            "headers": [[name, _base64(value)] for name, value in self.headers],
        }


def dead_letters(definition: Definition, *, replayed: bool = False) -> list[KeptDeadLetter]:
    """Returns the dead letters that have not been replayed, sorted by position; with `replayed`, the replayed ones too.

    Raises:
        ConfigError: the ledger belongs to another pipeline.
        SinkError: the dead letters cannot be read.
    """
    return [_kept(row) for row in letters(definition, replayed=replayed)]


def _kept(letter: StoredLetter) -> KeptDeadLetter:
    return KeptDeadLetter(
        id=letter.sha256[:_ID_DIGITS],
        position=position(letter),
        table=None if letter.table is None else full_name(str(letter.database), letter.table),
        **{name: getattr(letter, name) for name in _SAME},
    )


_SAME = (
    "reason", "error", "byte", "at", "replayed", "pipeline", "protocol", "schema_id", "sha256", "key", "value",
    "headers",
)  # fmt: skip


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()
