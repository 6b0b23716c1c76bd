"""The base class of writers of streams, which Spark 4.0 lacks: it can hand a stream's rows to Python one by one only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import datasource

from changefeed.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
else:
    DataSourceStreamArrowWriter = getattr(datasource, "DataSourceStreamArrowWriter", datasource.DataSourceStreamWriter)

__all__ = ["DataSourceStreamArrowWriter", "check_arrow_streams"]


def check_arrow_streams() -> None:
    """Checks that this Spark can write streams in Arrow batches.

    Raises:
        ConfigError: it is Spark 4.0.
    """
    if not hasattr(datasource, "DataSourceStreamArrowWriter"):
        raise ConfigError(
            "changefeed: Spark 4.0 cannot write a stream in Arrow batches. Use Spark 4.1 or newer, or write each batch in "
            "foreachBatch"
        )
