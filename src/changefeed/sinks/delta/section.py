"""The section `sink` with `type: delta`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from changefeed.sinks.catalog import check_pattern
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
    catalog: Literal["spark_catalog"] | None = Field(
        default=None,
        description="Catalog in which the tables have names, for queries in SQL. `spark_catalog`: that of the Spark session, "
        "Hive's metastore or AWS Glue where the session has one. Without it, tables are opened by path. See the guide "
        "*Tables by name*.",
    )
    catalog_names: str = Field(
        default="{database}.{table}",
        description="Database and name of a table in the catalog, in which `{database}` and `{table}` are those of the upstream: "
        "`lake.{database}_{table}`. The catalog folds both to lower case.",
    )

    @field_validator("catalog_names")
    @classmethod
    def _two_parts(cls, value: str) -> str:
        return check_pattern(value)


SECTION = DeltaSink
