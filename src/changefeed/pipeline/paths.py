"""Folders of a pipeline below the sink's path."""

from __future__ import annotations

from changefeed.pipeline.config.definition import Definition


def tables_folder(definition: Definition) -> str:
    """Returns the folder with all tables, `<sink path>`."""
    return definition.sink.path.rstrip("/")


def own_folder(definition: Definition) -> str:
    """Returns `<sink path>/_changefeed`, which contains `ledger`, `pending` and `dead_letters`."""
    return f"{tables_folder(definition)}/_changefeed"


def ledger_folder(definition: Definition) -> str:
    """Returns `<sink path>/_changefeed/ledger`."""
    return f"{own_folder(definition)}/ledger"
