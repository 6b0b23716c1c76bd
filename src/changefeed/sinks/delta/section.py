"""`sink: {type: delta}`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from changefeed.sinks.section import SinkSection


class DeltaSink(SinkSection):
    """Delta tables under a folder: `<path>/<database>/<table>`."""

    type: Literal["delta"]
    writer: Literal["native", "spark"] = Field(
        default="native",
        description="How rows are written. `native`: the data files of all tables in one Spark job, each table committed without "
        "Spark, where `path` is a local folder and the table is plain; `changefeed explain` says which are not. `spark`: every "
        "table by a SQL statement of its own.",
    )


SECTION = DeltaSink
