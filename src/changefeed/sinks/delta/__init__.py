"""Delta tables as a sink.

`sink.py` implements the contract, `native/` writes rows, `letters.py` implements the contract of dead letters; `log.py` reads a
table's log through Spark, `read.py` reads small tables without Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from changefeed.sinks.delta.letters import DeltaLetters
    from changefeed.sinks.delta.sink import DeltaSink


def open_sink(definition: Any, session: SparkSession | None) -> DeltaSink:
    """The sink that a `type: delta` section describes."""
    from changefeed.sinks.delta.sink import DeltaSink

    names = [*definition.metadata_columns, *(["_irregular"] if definition.irregular == "keep" else [])]
    return DeltaSink(definition.path.rstrip("/"), tuple(names), session, native=definition.writer == "native")


def open_letters(path: str, session: SparkSession | None) -> DeltaLetters:
    """The dead letters of a pipeline with such a sink, kept at `path`."""
    from changefeed.sinks.delta.letters import DeltaLetters

    return DeltaLetters(path, session)
