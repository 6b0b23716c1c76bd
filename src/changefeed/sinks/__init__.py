"""Sinks: how a target is written, its types and its guarantee; one folder each, behind the contract in `base.py`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from changefeed.errors import unknown_name
from changefeed.sinks.base import TableSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SINKS: dict[str, str] = {
    "delta": "changefeed.sinks.delta",
}


def sink(definition: Any, session: SparkSession | None = None) -> TableSink:
    """The sink that a definition's `sink` section describes.

    Args:
        definition: the section.
        session: None for methods of the contract that need no Spark.

    Raises:
        ConfigError: there is none of this type.
    """
    if definition.type not in SINKS:
        raise unknown_name("sink", definition.type, SINKS)
    opened: TableSink = import_module(SINKS[definition.type]).open_sink(definition, session)
    return opened
