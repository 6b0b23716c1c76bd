"""The section `sink` with `type: iceberg`."""

from __future__ import annotations

import os
import tempfile
from hashlib import sha256
from typing import Literal, Self

from pydantic import Field, field_validator

from changefeed.local_files import local_path
from changefeed.sinks.section import SinkSection


class IcebergSink(SinkSection):
    """Iceberg tables in a catalog, with their files under a folder: `<path>/<database>/<table>`."""

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

    @field_validator("namespace")
    @classmethod
    def _has_database(cls, value: str) -> str:
        if value.count("{database}") != 1 or not value.replace("{database}", "x").replace("_", "").isalnum():
            raise ValueError(
                f"expected letters, digits and `_` around one `{{database}}`, as `lake_{{database}}`, not {value!r}"
            )
        return value


SECTION = IcebergSink
