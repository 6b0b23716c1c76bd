"""Tries a catalog before a run: it answers, this user may make namespaces, and the tables in it can be written."""

from __future__ import annotations

from changefeed.errors import AccessError
from changefeed.sinks.catalog import CatalogTrial
from changefeed.sinks.iceberg.sink import NO_FEATURE, IcebergTables

_SHOWN = 5  # tables that are named


def trial(tables: IcebergTables) -> CatalogTrial:
    """Tries the catalog of a sink; a namespace that it makes is removed.

    Raises:
        AccessError: the catalog refuses this user.
        SinkError: the catalog does not answer.
    """
    catalog = tables.catalog
    catalog.answers()
    doubts = list[str]()
    try:
        if not catalog.try_namespace():
            return CatalogTrial(f"catalog {catalog.name}: none yet, the first run creates it")
    except AccessError as error:
        doubts.append(f"namespaces cannot be made: {error}. Give this user the right, or make those of the databases")
    number, refused = 0, list[str]()
    for path in tables.tables():
        number += 1
        opened = tables.open(path)
        reason = None if opened is None else opened.refused()
        if reason is not None:
            refused.append(f"{path} has {reason}")
    if refused:
        more = f" and {len(refused) - _SHOWN} more" if len(refused) > _SHOWN else ""
        doubts.append(f"tables that changefeed does not write: {', '.join(refused[:_SHOWN])}{more}. {NO_FEATURE}")
    return CatalogTrial(
        f"catalog {catalog.name} answers; it has {number:,} tables below {catalog.location}", tuple(doubts)
    )
