"""Metadata of tables of format version 3, which PyIceberg 0.12 reads and updates, but neither makes nor writes.

It refuses to, because its own commits write no manifests of version 3; changefeed's do (`manifest_files.py`). A REST catalog
makes and writes the metadata itself. For the others, a new table gets its version by an update of this module, and the method
that writes the file is replaced, in the catalog that the sink has opened.
"""

from __future__ import annotations

from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.io import FileIO, OutputFile
from pyiceberg.serializers import Compressor
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil, TableMetadataV3
from pyiceberg.table.update import UpgradeFormatVersionUpdate, _apply_table_update, _TableMetadataUpdateContext
from pyiceberg.typedef import IcebergBaseModel


def next_row_id(metadata: TableMetadata) -> int:
    """Returns the id for the next row that a table of format version 3 gets."""
    ends = [(of.first_row_id or 0) + (of.added_rows or 0) for of in metadata.snapshots]
    return max([0, getattr(metadata, "next_row_id", None) or 0, *ends])


class UpgradeTo3(UpgradeFormatVersionUpdate):
    """The update that makes a new table one of format version 3."""


@_apply_table_update.register(UpgradeTo3)
def _(update: UpgradeTo3, base_metadata: TableMetadata, context: _TableMetadataUpdateContext) -> TableMetadata:
    context.add_update(update)
    upgraded = base_metadata.model_copy(update={"format_version": 3})
    return TableMetadataUtil._construct_without_validation(upgraded).model_copy(update={"next_row_id": 0})


def writes_version_3(catalog: Catalog) -> Catalog:
    """Lets a catalog write the metadata of tables of format version 3; returns the catalog."""
    if isinstance(catalog, MetastoreCatalog):
        of_earlier_versions = catalog._write_metadata

        def write(metadata: TableMetadata, io: FileIO, metadata_path: str) -> None:
            if isinstance(metadata, TableMetadataV3):
                _write(metadata, io.new_output(metadata_path))
            else:
                of_earlier_versions(metadata, io, metadata_path)

        catalog._write_metadata = write  # type: ignore[method-assign]
    return catalog


def _write(metadata: TableMetadataV3, file: OutputFile) -> None:
    whole = metadata.model_copy(update={"next_row_id": next_row_id(metadata)})
    text = IcebergBaseModel.model_dump_json(whole)
    with file.create() as stream:
        stream.write(Compressor.get_compressor(file.location).bytes_compressor()(text.encode()))
