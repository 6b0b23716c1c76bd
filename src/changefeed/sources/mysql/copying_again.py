"""Copies tables again on request: which tables a copy beside the log reads, and what is wrong with a request.

    requests in order     all of a       all of b       some of a      all of c
    one copy reads        └─────── both ───────┘        └── alone      …

Rule 1. Requests for all rows replace the tables: DROP, CREATE and rows, as of tables that join (`planning.py`). Those that follow
        each other are carried out together, with the tables that join.
Rule 2. A request with a condition reads some rows, which are merged by their keys. It is carried out alone.
Rule 3. What has become wrong since a request was made, such as a table that was dropped, ends it with a warning.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile

from changefeed.errors import ConfigError, SourceError
from changefeed.sources.copies import CopyRequest
from changefeed.sources.mysql.server import Server
from changefeed.sources.mysql.tables import Captured, Name, is_captured, key_of, list_tables, listed, quoted

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CopySelection:
    """The tables that the next copy beside the log reads.

    Attributes:
        names: returns their names at this moment.
        requests: the number of requests that the copy carries out.
        where: the condition of the rows; None: all rows replace the tables.
        gone: the requested tables that the server does not have now.
    """

    names: Callable[[], list[Name]]
    requests: int = 0
    where: str | None = None
    gone: frozenset[Name] = frozenset()


def select(
    server: Server,
    captured: Captured,
    requests: tuple[CopyRequest, ...],
    joining: Callable[[], list[Name]],
    *,
    copies: bool,
) -> CopySelection:
    """Returns what is copied next.

    Args:
        server: the server.
        captured: the captured tables.
        requests: those that have not been carried out, in their order.
        joining: returns the tables that join.
        copies: whether the rows of tables that join are copied.
    """
    joins = bool(joining())
    if not requests or (joins and (not copies or requests[0].where is not None)):
        return CopySelection(joining)
    if requests[0].where is not None:
        return _with_condition(server, captured, requests[0])
    whole_requests = tuple(takewhile(lambda request: request.where is None, requests))
    requested = {name for request in whole_requests for name in request.tables}

    def names() -> list[Name]:
        chosen = {*joining(), *requested}
        return [name for name in list_tables(server, captured.selector()) if name in chosen]

    missing = requested.difference(names())
    gone = frozenset(name for name in missing if is_captured(captured.selector(), *name))
    if others := missing - gone:
        _log.warning("not copied again, because they are not captured: %s", listed(sorted(others)))
    return CopySelection(names, len(whole_requests), gone=gone)


def _with_condition(server: Server, captured: Captured, request: CopyRequest) -> CopySelection:
    try:
        check(server, captured, request)
    except (ConfigError, SourceError) as error:
        if getattr(error, "transient", False):
            raise
        _log.warning("not copied again: %s", error)
        return CopySelection(list, 1)
    return CopySelection(lambda: sorted(request.tables), 1, request.where)


def check(server: Server, captured: Captured, request: CopyRequest) -> None:
    """Checks that a request can be carried out.

    Raises:
        ConfigError: a table is not captured or does not exist, has no key where a condition needs one, or the server refuses
            the condition.
        AccessError, SourceError: the server refuses the user, or does not answer.
    """
    selector = captured.selector()
    if others := [name for name in request.tables if not is_captured(selector, *name)]:
        raise ConfigError(
            f"source.tables does not select {listed(others)}: a pipeline copies the tables that it captures"
        )
    existing = {*list_tables(server, selector)}
    if gone := [name for name in request.tables if name not in existing]:
        raise ConfigError(
            f"{server.address} has no table {listed(gone)}: correct the name, with upper and lower case as there. If a run has "
            "stopped at a table that the server has no longer, set `snapshot.mode: when_needed` for one run"
        )
    if request.where is None:
        return
    if keyless := [name for name in request.tables if not key_of(server, *name)]:
        raise ConfigError(
            f"{listed(keyless)} has no primary key, so that single rows cannot be found again: leave the condition out, to copy "
            "all rows"
        )
    for name in request.tables:
        _check_condition(server, name, request.where)


def _check_condition(server: Server, name: Name, where: str) -> None:
    table = ".".join(map(quoted, name))
    try:
        for condition in (where, f"({where}\n)"):  # `a) OR (b` is not one condition
            server.rows(f"SELECT 1 FROM {table} WHERE {condition}\nLIMIT 0")
    except SourceError as error:
        raise ConfigError(f"the condition {where!r} cannot be used for {listed([name])}: {error}") from error
