"""The section `sink` with `type: delta`."""

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
        "Spark, where `path` is a local folder or in an object store, and the table is plain; `changefeed explain` lists those "
        "that are not. `spark`: every table by a SQL statement of its own.",
    )
    write_mode: Literal["copy-on-write", "merge-on-read"] = Field(
        default="copy-on-write",
        description="What an update or delete does to tables with a key. `copy-on-write`: files that hold the rows are written "
        "again; any reader of Delta reads the tables. `merge-on-read`: the rows are marked in deletion vectors, and new "
        "rows go to new files, so a step writes what has changed. The tables have Delta's table feature `deletionVectors`, "
        "which not every reader has; a table that lacks it gets it with the next write of rows.",
    )
    compaction: Literal["auto", "off"] = Field(
        default="auto",
        description="With `merge-on-read`. `auto`: files with many deleted rows, and small files where there are many, are "
        "written again now and then, in commits that change no row. `off`: that is left to OPTIMIZE.",
    )


SECTION = DeltaSink
