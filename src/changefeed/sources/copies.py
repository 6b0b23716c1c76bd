"""Requests to copy tables again, and the contract of sources that can do it.

    changefeed snapshot ─▶ request ─▶ the pipeline's folder ─▶ run ─▶ source offset ─▶ the source copies the tables

A source keeps requests in its source offset until the tables are complete, so that a run that is killed continues with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class CopyRequest:
    """A request to copy tables again.

    Attributes:
        tables: database and name of each table.
        where: a condition in the server's SQL: only its rows are read, and no row is removed; None: all rows replace the table's.
        id: the name that its sender has given it; None without one.
    """

    tables: tuple[tuple[str, str], ...]
    where: str | None = None
    id: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Returns the request as a JSON object."""
        more = {name: text for name, text in (("where", self.where), ("id", self.id)) if text is not None}
        return {"tables": [list(name) for name in self.tables], **more}


def read_request(document: dict[str, Any]) -> CopyRequest:
    """Returns the request that `CopyRequest.to_dict` wrote."""
    return CopyRequest(
        tuple((database, table) for database, table in document["tables"]), document.get("where"), document.get("id")
    )


@runtime_checkable
class CopyingSource(Protocol):
    """A `Source` that can copy tables again while their changes go on."""

    @property
    def copies_unknown(self) -> bool:
        """Whether the definition wants a copy of each table whose rows a schema change leaves unknown; else a run stops."""
        ...

    def check_copy(self, request: CopyRequest) -> None:
        """Checks with the server that a request can be carried out.

        Raises:
            ConfigError: a table is not captured or cannot be copied again, or the server refuses the condition.
            AccessError, SourceError: the server refuses the user, or does not answer.
        """
        ...

    def with_copies(self, source_offset: str, requests: Sequence[CopyRequest]) -> str:
        """Returns a source offset with further requests, behind those that it has."""
        ...

    def with_signals(self, source_offset: str) -> str:
        """Returns a source offset with the requests that have come since by a way of the source's own; the same without any.

        Raises:
            ConfigError: the definition of that way cannot be used.
            MissingExtraError: what reads it is not installed.
        """
        ...

    def copies_at_start(self, source_offset: str) -> tuple[CopyRequest, ...]:
        """Returns the requests that the definition makes at the start of a run; none while tables are copied already.

        Raises:
            AccessError, SourceError: the server refuses the user, or does not answer.
        """
        ...

    def copies(self, source_offset: str) -> tuple[CopyRequest, ...]:
        """Returns the requests whose tables are not complete at a source offset, in their order."""
        ...
