"""The mapping of names, by which readers find columns in data files without field ids: a property of the table.

Programs that add files of others to a table, such as `add_files` and `migrate`, set it:

    [{"field-id": 2, "names": ["note", "remark"]}]      column 2 is `note` or `remark` in such files

Rule 1. changefeed reads such a file by the present names of columns. So a table with a mapping gets new files, with field ids,
when its columns change.
Rule 2. The mapping follows the columns, as Iceberg's own implementation has it: a column keeps its earlier names, except those
that other columns have now.
Rule 3. A file without field ids whose columns have other names by the mapping is refused when it is read.

Source:
    https://iceberg.apache.org/spec/#column-projection, "Name Mapping Serialization"
"""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.schema import Schema
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.name_mapping import MappedField, NameMapping, create_mapping_from_schema
from pyiceberg.table.update import SetPropertiesUpdate, TableUpdate

_PROPERTY = TableProperties.DEFAULT_NAME_MAPPING


def is_mapped(metadata: TableMetadata) -> bool:
    """Whether a table has a mapping of names."""
    return _PROPERTY in metadata.properties


def other_names(metadata: TableMetadata, schema: Schema) -> Mapping[str, int]:
    """Returns name -> field id of a table's mapping; empty if it has the present name of each column alone, or there is none."""
    names = {name: of.field_id for of in _fields(metadata) for name in of.names if of.field_id is not None}
    present = {field.name: field.field_id for field in schema.fields}
    return {} if names == present else names


def mapping_updates(metadata: TableMetadata, schema: Schema) -> list[TableUpdate]:
    """Returns the update of a table's mapping for other columns: rule 2."""
    if not is_mapped(metadata):
        return []
    before = {of.field_id: of for of in _fields(metadata)}
    present = {field.name for field in schema.fields}
    after = list[MappedField]()
    for of in create_mapping_from_schema(schema):
        old = before.pop(of.field_id, of)
        names = [*of.names, *(name for name in old.names if name not in present)]
        after.append(of.model_copy(update={"names": names}))
    for old in before.values():
        if names := [name for name in old.names if name not in present]:
            after.append(old.model_copy(update={"names": names}))
    return [SetPropertiesUpdate(updates={_PROPERTY: NameMapping(after).model_dump_json()})]


def _fields(metadata: TableMetadata) -> list[MappedField]:
    try:
        mapping = metadata.name_mapping()
    except ValueError:  # not a mapping: no reader can use it
        mapping = None
    return [] if mapping is None else list(mapping)
