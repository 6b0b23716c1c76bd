"""The data files of Delta tables: names, statistics, deletion vectors."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from changefeed.sinks.apply.layout import Floats, RowNumbers, WholeFiles
from changefeed.sinks.delta.native import vectors
from changefeed.sinks.delta.native.statistics import INDEXED, statistics
from changefeed.storage import Folder

# Readers of Spark 3 ask this before they take old dates as what they are. Files without it have the calendar of a setting.
_SPARK_VERSION = {"org.apache.spark.version": "4.1.0"}


@dataclass(frozen=True, slots=True)
class DeltaLayout(WholeFiles):
    """See `Layout`.

    Attributes:
        indexed: number of columns that get statistics; all if it is negative.
    """

    folder: Folder
    indexed: int = INDEXED

    @property
    def footer(self) -> Mapping[str, str]:
        """See `Layout`."""
        return _SPARK_VERSION

    def new_name(self, number: int) -> str:
        """See `Layout`."""
        return f"part-{number:05d}-{uuid.uuid4()}-c000.zstd.parquet"

    def statistics(self, footer: Any, schema: pa.Schema, floats: Mapping[str, Floats], partition: str) -> str:
        """See `Layout`: the JSON of `stats` in an `add` action."""
        return statistics(footer, schema, floats, self.indexed)

    def deleted(self, vector: str) -> RowNumbers:
        """See `Layout`: `vector` is the descriptor as JSON."""
        return vectors.read(self.folder, json.loads(vector))
