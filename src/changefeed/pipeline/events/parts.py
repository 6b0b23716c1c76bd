"""The parts of an event pipeline: its folders, its ledger, and its sink."""

from __future__ import annotations

from functools import partial

from changefeed.codec.encoding import encoder
from changefeed.errors import ConfigError
from changefeed.pipeline.config.events import EventDefinition
from changefeed.pipeline.paths import own_folder
from changefeed.pipeline.store.files import FileStore
from changefeed.pipeline.store.reading import FileReader
from changefeed.protocols import protocol
from changefeed.sinks import event_sink
from changefeed.sinks.events import EventSink
from changefeed.storage import Folder
from changefeed.storage.folders import folder_at
from changefeed.stores import stores_of


def open_ledger(definition: EventDefinition) -> FileStore:
    """Opens the ledger for a run, before the run claims it; raises as `open_folder`."""
    return FileStore(open_folder(definition, "ledger"), definition.pipeline.name)


def read_ledger(definition: EventDefinition) -> FileReader:
    """Opens the ledger for reading; raises as `open_folder`."""
    return FileReader(open_folder(definition, "ledger"), definition.pipeline.name)


def open_folder(definition: EventDefinition, name: str) -> Folder:
    """Opens a folder in the pipeline's own.

    Raises:
        ConfigError: it is on a file system that only Spark can reach.
    """
    path = f"{own_folder(definition)}/{name}"
    folder = folder_at(path, definition.storage)
    if folder is None:
        raise ConfigError(f"pipeline.folder: {path} is on a file system that only Spark can reach. Set another folder")
    return folder


def open_sink(definition: EventDefinition, owner: str) -> EventSink:
    """Opens the sink for the pipeline with an owner text.

    Raises:
        ConfigError: an option of the sink or its protocol is wrong.
    """
    chosen = definition.sink.protocol
    options = protocol(chosen.name).read_options(chosen.options)
    return event_sink(definition.sink, partial(encoder, chosen.name, options, stores_of(options))).owned_by(owner)
