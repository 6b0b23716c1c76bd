"""The section `sink` with `type: iceberg`."""

from __future__ import annotations

import os
import tempfile
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import ClassVar, Literal, Self

from pydantic import Field, field_validator

from changefeed.local_files import local_path
from changefeed.sinks.iceberg.partition_fields import FORMS, PartitionField, parsed
from changefeed.sinks.iceberg.sort_fields import SortField, parsed_sort_field
from changefeed.sinks.section import SinkSection


class IcebergSink(SinkSection):
    """Iceberg tables in a catalog, with their files under a folder: `<path>/<database>/<table>`."""

    numbered_versions: ClassVar[bool] = False  # snapshot ids

    type: Literal["iceberg"]
    catalog: str | None = Field(
        default=None,
        description="Name of the catalog, as in `~/.pyiceberg.yaml` and `PYICEBERG_CATALOG__<NAME>__…`. Without it and "
        "`catalog-properties`, the catalog is a SQLite database, `<path>/catalog.db`, which needs a local folder.",
    )
    catalog_properties: dict[str, str] = Field(
        default_factory=dict,
        description="Properties of the catalog, by the names of PyIceberg: `{type: sql, uri: postgresql+psycopg://…}`, "
        "`{type: rest, uri: https://…, credential: …}`, `{type: glue}`, `{type: hive, uri: thrift://…}`.",
    )
    namespace: str = Field(
        default="{database}",
        description="Namespace of a table in the catalog, in which `{database}` is the database of the upstream: "
        "`lake_{database}`. It is made if it is missing.",
    )

    partition_by: dict[str, list[str]] = Field(
        default_factory=dict,
        description="Partitions of tables that the pipeline makes, by patterns as in `adopt`, of which the first that matches "
        "counts: `{shop.orders: [days(created), 'bucket(16, id)'], shop.*: [region]}`. " + f"Each field is {FORMS}. "
        "A table that exists keeps its own.",
    )
    sort_by: dict[str, list[str]] = Field(
        default_factory=dict,
        description="Order of the rows in data files of tables that the pipeline makes, by patterns as in `partition-by`: "
        "`{shop.orders: [created, id desc], shop.*: [days(at) desc nulls first]}`. Readers skip more row groups by the columns "
        "of the order. Fields whose columns a table does not have are left out. A table that exists keeps its own.",
    )
    write_mode: Literal["copy-on-write", "merge-on-read"] = Field(
        default="copy-on-write",
        description="What an update or delete does to tables with a key. `copy-on-write`: files that hold the rows are written "
        "again. `merge-on-read`: the rows of large files are marked as deleted, in position deletes (format version 2) or "
        "deletion vectors (3), and new rows go to new files, so a step writes what has changed. There are never equality "
        "deletes. Readers must know delete files, as all current ones do.",
    )
    compaction: Literal["auto", "off"] = Field(
        default="auto",
        description="With `merge-on-read`. `auto`: files with many deleted rows, and small files where there are many, are "
        "written again now and then, in snapshots that change no row. `off`: that is left to `rewrite_data_files`.",
    )
    format_version: Literal[2, 3] = Field(
        default=2,
        description="Format version of the tables that the pipeline makes. A table that exists keeps its own. Tables of version "
        "3 have row ids, and need readers of that version.",
    )
    cut_tags: int = Field(
        default=0,
        ge=0,
        description="Number of newest cuts that every table has as tags, `cut-<commit_ts>`: any engine reads all tables at one "
        "of them by its name, and their snapshots are not expired. Costs a commit of metadata for each table and cut.",
    )

    def beside(self, folder: str) -> Self:
        """See `SinkSection`: the other tables have a catalog of their own, a database in the folder or on this machine."""
        name = f"changefeed-{sha256(folder.encode()).hexdigest()[:16]}.db"
        place = os.path.join(folder if local_path(folder) is not None else tempfile.gettempdir(), name)
        own = {"cut_tags": 0, "catalog": None, "catalog_properties": {"type": "sql", "uri": f"sqlite:///{place}"}}
        return super().beside(folder).model_copy(update=own)

    def partition_fields(self, table: str) -> tuple[PartitionField, ...]:
        """Returns the partition fields of a new table, by `database.table`."""
        return tuple(map(parsed, _first_match(self.partition_by, table)))

    def sort_fields(self, table: str) -> tuple[SortField, ...]:
        """Returns the sort fields of a new table, by `database.table`."""
        return tuple(map(parsed_sort_field, _first_match(self.sort_by, table)))

    @field_validator("partition_by")
    @classmethod
    def _are_fields(cls, value: dict[str, list[str]]) -> dict[str, list[str]]:
        for text in (text for texts in value.values() for text in texts):
            parsed(text)
        return value

    @field_validator("sort_by")
    @classmethod
    def _are_sort_fields(cls, value: dict[str, list[str]]) -> dict[str, list[str]]:
        for text in (text for texts in value.values() for text in texts):
            parsed_sort_field(text)
        return value

    @field_validator("namespace")
    @classmethod
    def _has_database(cls, value: str) -> str:
        if value.count("{database}") != 1 or not value.replace("{database}", "x").replace("_", "").isalnum():
            raise ValueError(
                f"expected letters, digits and `_` around one `{{database}}`, as `lake_{{database}}`, not {value!r}"
            )
        return value


def _first_match(texts: dict[str, list[str]], table: str) -> list[str]:
    """Returns the fields of the first pattern that matches a table; none if there is no such pattern."""
    return next((fields for pattern, fields in texts.items() if fnmatchcase(table, pattern)), [])


SECTION = IcebergSink
