"""Where a pipeline keeps what is its own: below the sink's path, in `_changefeed/`."""

from __future__ import annotations

from changefeed.pipeline.config.definition import Definition


def tables_folder(definition: Definition) -> str:
    """The folder of the tables, `<sink path>`."""
    return definition.sink.path.rstrip("/")


def own_folder(definition: Definition) -> str:
    """The pipeline's own folder: `ledger`, `pending`, `dead_letters`."""
    return f"{tables_folder(definition)}/_changefeed"


def ledger_folder(definition: Definition) -> str:
    """The folder of the ledger."""
    return f"{own_folder(definition)}/ledger"
