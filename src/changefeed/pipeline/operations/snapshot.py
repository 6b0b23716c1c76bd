"""Requests that a pipeline copies tables again, or sends their rows again: `changefeed snapshot`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from changefeed.errors import ConfigError
from changefeed.pipeline import copy_requests
from changefeed.pipeline.config.events import AnyDefinition, spark_of
from changefeed.pipeline.monitoring.heartbeat import heartbeat_folder, read_heartbeat
from changefeed.pipeline.paths import own_folder
from changefeed.sources import source
from changefeed.sources.copies import CopyingSource, CopyRequest
from changefeed.storage.folders import folder_at


@dataclass(frozen=True, slots=True)
class Requested:
    """A request that was made.

    Attributes:
        request: the tables, and the condition of their rows.
        running: whether a run is alive, which takes the request before its next batch; otherwise the next run does.
    """

    request: CopyRequest
    running: bool

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON document of `changefeed snapshot --json`."""
        tables = [".".join(name) for name in self.request.tables]
        return {"tables": tables, "where": self.request.where, "running": self.running}


def snapshot(definition: AnyDefinition, tables: Sequence[str], where: str | None = None) -> Requested:
    """Requests that tables are copied again, or in an event pipeline their rows sent again, by the run that is alive or the next.

    Args:
        definition: the pipeline.
        tables: names as `database.table`.
        where: a condition in the server's SQL, for a part of the rows; None: all rows replace those of the tables.

    Raises:
        ConfigError: the source does not copy tables, or cannot copy these with this condition.
        AccessError, SourceError: the server refuses the user, or does not answer.
        SinkError: the request cannot be stored.
    """
    opened = source(definition.source)
    try:
        if not isinstance(opened, CopyingSource):
            raise ConfigError(
                f"the source {definition.source.type} does not copy tables. Take a snapshot with the producer, such as an "
                "incremental snapshot of Debezium"
            )
        request = CopyRequest(tuple(map(_name, tables)), where)
        opened.check_copy(request)
    finally:
        opened.close()
    path = f"{own_folder(definition)}/{copy_requests.FOLDER}"
    folder = folder_at(path, definition.storage, spark_of(definition))
    if folder is None:
        raise ConfigError(f"{path} is on a file system that only Spark can reach: set pipeline.folder to another one")
    copy_requests.add(folder, request)
    beat = read_heartbeat(heartbeat_folder(definition))
    return Requested(request, beat is not None and beat.is_alive(datetime.now(UTC)))


def _name(text: str) -> tuple[str, str]:
    database, dot, table = text.partition(".")
    if not (database and dot and table):
        raise ConfigError(f"{text!r} is not the name of a table: write it as database.table")
    return database, table
