"""Requests to copy tables again, between `changefeed snapshot` and a run: files in the pipeline's folder `snapshots`.

Rule 1. A command creates a file with a new name. It takes no epoch, so that a run goes on.
Rule 2. A run looks before each batch. It writes the requests into the ledger's source offset first, and deletes their files then:
        a run that is killed in between leaves the files, and the tables are copied once more.
        A source may have requests by a way of its own, such as records of a topic: it keeps in the same offset how far it has
        read them.
Rule 3. Before the first batch of a pipeline there is no source offset, and requests wait.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from dataclasses import replace
from typing import Any

from changefeed.errors import SinkError, UnknownRowsError
from changefeed.model.names import full_name
from changefeed.pipeline.store.base import StateStore
from changefeed.pipeline.store.folder import LedgerFolder, WritableFolder
from changefeed.sources.copies import CopyingSource, CopyRequest, read_request

_log = logging.getLogger(__name__)
FOLDER = "snapshots"
_VERSION = 1


def add(folder: WritableFolder, request: CopyRequest) -> None:
    """Adds a request behind all others."""
    document = {"version": _VERSION, **request.to_dict()}
    folder.create(f"{time.time_ns():020}-{uuid.uuid4().hex}.json", (json.dumps(document) + "\n").encode())


def waiting(folder: LedgerFolder) -> dict[str, CopyRequest]:
    """Returns the requests that no run has taken, by the names of their files, oldest first.

    Raises:
        SinkError: a file is not a request, or is one of a later version of changefeed.
    """
    requests = {}
    for name in folder.names(""):
        data = folder.read(name)
        if data is not None:
            requests[name] = _read(f"{folder.path}/{name}", data)
    return requests


def unfinished(folder: LedgerFolder, opened: object, source_offset: str | None) -> tuple[CopyRequest, ...]:
    """Returns the requests whose tables are not complete: those that a run has taken, then those that wait for one.

    Args:
        folder: with the requests that wait.
        opened: the source; there are none if it does not copy tables again.
        source_offset: that of the ledger; None before the first batch.

    Raises:
        SinkError: as `waiting`.
    """
    if not isinstance(opened, CopyingSource):
        return ()
    begun = () if source_offset is None else opened.copies(source_offset)
    return (*begun, *waiting(folder).values())


def take(folder: WritableFolder, ledger: StateStore, source: CopyingSource) -> None:
    """Gives the requests that wait to the source, in the ledger's source offset: Rule 2.

    Raises:
        ConfigError, MissingExtraError: see `CopyingSource.with_signals`.
        SinkError: as `waiting`.
    """
    state = ledger.state
    if state.source is None:
        return
    requests, after = waiting(folder), source.with_signals(state.source)
    if requests:
        after = source.with_copies(after, list(requests.values()))
    if after != state.source:
        ledger.finish(replace(state, source=after))
        folder.delete(requests)


def take_at_start(ledger: StateStore, source: CopyingSource) -> None:
    """Gives the requests that the definition makes at the start of a run to the source."""
    state = ledger.state
    if state.source is not None and (requests := source.copies_at_start(state.source)):
        ledger.finish(replace(state, source=source.with_copies(state.source, requests)))


def take_unknown(ledger: StateStore, source: object, error: UnknownRowsError, earlier: set[str]) -> None:
    """Requests that the source copies the tables again whose rows a schema change leaves unknown, before it is read once more.

    Args:
        ledger: without the batch that has the schema change.
        source: the source.
        error: names the schema change and the tables.
        earlier: the reasons of such requests of this run; this one is added.

    Raises:
        UnknownRowsError: the definition does not want it, or a copy has not helped.
    """
    state = ledger.state
    if (
        not (isinstance(source, CopyingSource) and source.copies_unknown)
        or error.reason in earlier
        or state.source is None
    ):
        raise error
    earlier.add(error.reason)
    _log.warning("%s. Copied again: %s", error.reason, ", ".join(full_name(*names) for names in error.tables))
    ledger.finish(replace(state, source=source.with_copies(state.source, [CopyRequest(error.tables)])))


def _read(path: str, data: bytes) -> CopyRequest:
    try:
        document: dict[str, Any] = json.loads(data)
        if document["version"] == _VERSION:
            return read_request(document)
        reason = f"it has version {document['version']}, and this changefeed reads version {_VERSION}"
    except (ValueError, KeyError, TypeError) as error:
        reason = str(error) or type(error).__name__
    raise SinkError(
        f"{path} is not a request of `changefeed snapshot` ({reason}): delete it, and make the request again"
    )
