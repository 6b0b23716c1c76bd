"""Folders of a pipeline: that of its tables, and its own, with ledger, pending changes and dead letters."""

from __future__ import annotations

from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.config.events import AnyDefinition, EventDefinition

PENDING = "pending"


def tables_folder(definition: Definition) -> str:
    """Returns the folder with all tables, `<sink path>`."""
    return definition.sink.path.rstrip("/")


def own_folder(definition: AnyDefinition) -> str:
    """Returns the folder that contains `ledger`, `pending` and `dead_letters`: `pipeline.folder`, or one beside the tables.

    An event pipeline always has `pipeline.folder`, and in it only `ledger`, `heartbeat` and `snapshots`.
    """
    if isinstance(definition, EventDefinition):
        return definition.pipeline.folder.rstrip("/")
    chosen = definition.pipeline.folder
    return _beside(definition) if chosen is None else chosen.rstrip("/")


def rebuilds_folder(definition: Definition) -> str:
    """Returns the folder in which `changefeed repair` rebuilds tables: on the storage of the tables, where they are moved to."""
    return _beside(definition)


def ledger_folder(definition: Definition) -> str:
    """Returns the folder `ledger` in the pipeline's own folder."""
    return f"{own_folder(definition)}/ledger"


def pending_folder(definition: Definition) -> str:
    """Returns the folder of the pending store, in the pipeline's own folder."""
    return f"{own_folder(definition)}/{PENDING}"


def _beside(definition: Definition) -> str:
    return f"{tables_folder(definition)}/_changefeed"
