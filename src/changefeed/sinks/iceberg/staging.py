"""The metadata of a commit, and the place of its file, where a catalog of PyIceberg makes them itself: all but REST.

PyIceberg 0.12 lets properties of the table choose the place, and a class that chooses it, and takes the time of each commit from
this machine's clock. Here the place is always `<table>/metadata`, and a table's time never goes back: Iceberg's own
implementation cannot open a table whose last update is older than its newest snapshot by more than a minute.
"""

from __future__ import annotations

import uuid
from functools import partial

from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.table import StagedTable, Table
from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata
from pyiceberg.typedef import Identifier


def staged(
    catalog: MetastoreCatalog,
    current: Table | None,
    identifier: Identifier,
    requirements: tuple[TableRequirement, ...],
    updates: tuple[TableUpdate, ...],
) -> StagedTable:
    """Returns a table with the metadata after updates, which is not written yet; the arguments are those of PyIceberg."""
    before = None if current is None else current.metadata
    for requirement in requirements:
        requirement.validate(before)
    made = update_table_metadata(
        catalog._empty_table_metadata() if before is None else before,
        updates,
        enforce_validation=before is None,
        metadata_location=None if current is None else current.metadata_location,
    )
    if before is not None and made.last_updated_ms < before.last_updated_ms:
        made = made.model_copy(update={"last_updated_ms": before.last_updated_ms})
    version = 0 if current is None else catalog._parse_metadata_version(current.metadata_location) + 1
    place = f"{made.location.rstrip('/')}/metadata/{version:05d}-{uuid.uuid4()}.metadata.json"
    return StagedTable(identifier, made, place, catalog._load_file_io(made.properties, place), catalog)


def stages_below_tables(catalog: Catalog) -> Catalog:
    """Lets a catalog stage metadata by `staged`; returns the catalog."""
    if (
        isinstance(catalog, MetastoreCatalog)
        and type(catalog)._update_and_stage_table is MetastoreCatalog._update_and_stage_table
    ):
        catalog._update_and_stage_table = partial(staged, catalog)  # type: ignore[method-assign]
    return catalog
