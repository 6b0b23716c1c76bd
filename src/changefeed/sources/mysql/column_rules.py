"""Columns that the section excludes or masks: `exclude-columns`, `mask-columns`.

    log    ─▶ decoder ─▶ table batch ─┬─▶ `ColumnRules.batch` ─▶ chunks, events
    server ─▶ SELECT of the others ───┘

Rule 1. Statements have all columns. A pipeline into tables has the rules, too (`pipeline/planning/column_rules.py`); the schema
        changes of an event pipeline show the tables as the server has them, as Debezium's do.
Rule 2. A column that identifies rows can be neither excluded nor masked, and only texts can be masked.
Rule 3. If the rules change between two runs, the tables whose columns they concern are copied again (`planning.py`). The log
        before that copy is read with the columns of before.
Rule 4. With `binlog_row_image=MINIMAL` an insert lacks columns that have their default, which the pipeline adds. A masked
        column must not be among them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.errors import ConfigError, UnsupportedError
from changefeed.model.batch import IRREGULAR, TableBatch
from changefeed.model.names import full_name
from changefeed.model.table import Column, TableShape, canonical
from changefeed.model.types import TEXTS
from changefeed.mysql.binlog.table_map import TableMap
from changefeed.sources.mysql.masks import ColumnPatterns, CompiledPatterns, Mask
from changefeed.sources.mysql.server import Server
from changefeed.sources.mysql.source_offset import RuledColumns
from changefeed.sources.mysql.tables import Name, all_keys, is_captured
from changefeed.ticdc.dispatch.matcher import ColumnFilter, TableFilter

_COLUMNS = "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, DATA_TYPE FROM information_schema.COLUMNS"
_MASKED_TYPES = TEXTS | {"uuid", "inet4", "inet6"}  # those of MariaDB become texts
_Ruled = tuple[TableShape, dict[str, Mask]]  # the shape of the rows that are left, and masks of columns


class ColumnRules:
    """Removes and masks columns of rows."""

    def __init__(self, patterns: ColumnPatterns, *, of_events: bool = False) -> None:
        """Compiles the patterns.

        Args:
            patterns: the rules.
            of_events: a hash has no more characters than its column, and shapes tell what is masked, as with the connector.
        """
        self._patterns, self._of_events = patterns.compiled(), of_events
        self._known: dict[TableShape, _Ruled] = {}

    def excluded(self, database: str, table: str, columns: Iterable[str]) -> frozenset[str]:
        """Returns those of a table's columns that are excluded."""
        return frozenset(column for column in columns if self._patterns.excludes(database, table, column))

    def masked(self, database: str, table: str, columns: Iterable[str]) -> dict[str, Mask]:
        """Returns the masks of those of a table's columns that have one, by their names."""
        masks = {column: self._patterns.mask(database, table, column) for column in columns}
        return {column: mask for column, mask in masks.items() if mask is not None}

    def without(self, shape: TableShape) -> TableShape:
        """Returns a shape without excluded columns, as a SELECT reads it."""
        excluded = self.excluded(shape.database, shape.table, shape.by_name)
        return _without(shape, excluded, {}) if excluded else shape

    def _ruled(self, shape: TableShape) -> _Ruled:
        known = self._known.get(shape)
        if known is None:
            table = shape.database, shape.table
            excluded = self.excluded(*table, shape.by_name)
            masks = self.masked(*table, (name for name in shape.by_name if name not in excluded))
            if keys := [name for name in shape.keys if name in excluded or name in masks]:
                raise UnsupportedError(_refusal(*table, keys, excluded))
            for name in masks:
                if shape.by_name[name].type.name not in TEXTS:
                    raise UnsupportedError(_not_text(*table, name, str(shape.by_name[name].type)))
            ruled = _without(shape, excluded, masks if self._of_events else {}) if excluded or masks else shape
            known = self._known[shape] = (ruled, masks)
        return known

    def batch(self, batch: TableBatch) -> TableBatch:
        """Returns rows as the rules leave them; the same ones if none concerns them.

        Raises:
            UnsupportedError: Rules 2 and 4.
        """
        shape, masks = self._ruled(batch.shape)
        if shape is batch.shape and not masks:
            return batch
        _check_inserts(batch, masks)
        columns = {name: batch.rows.column(name) for name in batch.rows.schema.names}
        rows = columns["irregular"].to_pylist() if len(columns["irregular"].keys) else ()
        irregular = {row: dict(texts) for row, texts in enumerate(rows) if texts}
        columns["after"] = self._image(columns["after"], shape.after_columns, shape.after_type, masks, irregular)
        columns["before"] = self._image(columns["before"], shape.before_columns, shape.before_type, masks, {})
        if irregular:
            left = (irregular.get(row, {}) for row in range(len(batch)))
            columns["irregular"] = pa.array(
                [[p for p in texts.items() if p[0] in shape.by_name] for texts in left], IRREGULAR
            )
        schema = pa.schema([pa.field(name, array.type) for name, array in columns.items()])
        return TableBatch(shape, pa.RecordBatch.from_arrays(list(columns.values()), schema=schema))

    def _image(
        self,
        image: pa.StructArray,
        columns: Sequence[Column],
        kind: pa.StructType,
        masks: Mapping[str, Mask],
        irregular: dict[int, dict[str, bytes]],
    ) -> pa.StructArray:
        """An image of the columns; what is masked of `irregular`, by row and column, is taken out of it, or cut."""
        if image.null_count == len(image):
            return pa.nulls(len(image), kind)
        absent = image.is_null()
        if not columns:  # an update that changes excluded columns alone, with binlog_row_image=MINIMAL
            return pa.array([None if is_absent else {} for is_absent in absent.to_pylist()], kind)
        arrays = []
        for column in columns:
            values = image.field(image.type.get_field_index(column.name))
            if (mask := masks.get(column.name)) is not None:
                own = {row: texts.pop(column.name) for row, texts in irregular.items() if column.name in texts}
                values = mask.column(values, own, column.type.length if self._of_events else None)
                for row, data in own.items():
                    irregular[row][column.name] = data
            arrays.append(values)
        return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=absent)

    def table(self, table: TableMap) -> TableMap:
        """Returns a table without excluded columns, as a SELECT reads it; the same one if it has none."""
        names = self.excluded(table.database, table.table, (column.name or "" for column in table.columns))
        if not names:
            return table
        kept = [index for index, column in enumerate(table.columns) if column.name not in names]
        primary = None
        if table.primary_key is not None:
            primary = tuple((kept.index(index), prefix) for index, prefix in table.primary_key if index in kept)
        return replace(table, columns=tuple(table.columns[index] for index in kept), primary_key=primary)


def _without(shape: TableShape, excluded: Collection[str], masks: Mapping[str, Mask]) -> TableShape:
    before, after = (
        None if image is None else tuple(name for name in image if name not in excluded)
        for image in (shape.before, shape.after)
    )
    columns = tuple(column for column in shape.columns if column.name not in excluded)
    return replace(shape, columns=columns, before=before, after=after, wire=_details(shape.wire, excluded, masks))


def _details(wire: str, excluded: Collection[str], masks: Mapping[str, Mask]) -> str:
    """The details of a shape, see `definitions.py`: without those of excluded columns, and with the masks of others."""
    details: dict[str, dict[str, str]] = json.loads(wire) if wire else {}
    kept = {kind: {n: text for n, text in of.items() if n not in excluded} for kind, of in details.items()}
    if masks:
        kept["masks"] = {name: " ".join(mask.parameter) for name, mask in masks.items()}
    kept = {kind: of for kind, of in kept.items() if of}
    return canonical(kept) if kept else ""


def _check_inserts(batch: TableBatch, masks: Mapping[str, Mask]) -> None:
    """Rule 4."""
    shape = batch.shape
    lacking = [name for name in masks if shape.after is not None and name not in shape.after]
    if lacking and pc.any(pc.equal(batch.rows.column("op"), "insert")).as_py():
        raise UnsupportedError(
            f"an insert into {batch.name} does not carry {lacking[0]}, which is masked: SET GLOBAL binlog_row_image = FULL"
        )


def check_columns(server: Server, selector: TableFilter, patterns: ColumnPatterns) -> list[str]:
    """Checks the rules for the captured tables; returns a sentence for each pattern that matches nothing.

    Raises:
        ConfigError: Rule 2, or no column of a table is left.
    """
    if not patterns:
        return []
    columns, keys, rules = _captured_columns(server, selector), all_keys(server), ColumnRules(patterns)
    for name, of_table in columns.items():
        excluded = rules.excluded(*name, of_table)
        masks = rules.masked(*name, (column for column in of_table if column not in excluded))
        if wrong := [key for key in keys.get(name, ()) if key in excluded or key in masks]:
            raise ConfigError(_refusal(*name, wrong, excluded))
        if len(excluded) == len(of_table):
            raise ConfigError(
                f"source.exclude-columns leaves no column of {full_name(*name)}: leave the table out of source.tables"
            )
        for column in masks:
            if of_table[column] not in _MASKED_TYPES:
                raise ConfigError(_not_text(*name, column, of_table[column]))
    return [
        f"source.{option}: {pattern!r} matches no column of a captured table. Correct it, unless the column is still to come"
        for option, pattern in patterns.every()
        if not any(ColumnFilter([pattern]).matches(*name, column) for name, of in columns.items() for column in of)
    ]


def tables_between(
    server: Server, selector: TableFilter, patterns: ColumnPatterns, earlier: RuledColumns
) -> list[Name]:
    """Returns the captured tables whose columns are excluded or masked in another way than before.

    Args:
        server: the server.
        selector: of the captured tables.
        patterns: those of now.
        earlier: those of before.
    """
    now, before = _by_fingerprints(RuledColumns(patterns.excluded, patterns.masked)), _by_fingerprints(earlier)

    def is_alike(*column: str) -> bool:
        one, other = (rules.excludes(*column) or rules.mask(*column) or "" for rules in (now, before))
        return one == other

    return [
        name
        for name, columns in _captured_columns(server, selector).items()
        if not all(is_alike(*name, column) for column in columns)
    ]


def _by_fingerprints(columns: RuledColumns) -> CompiledPatterns[str]:
    """Patterns with the fingerprints of masks in their place."""
    masks = [text.rpartition(" ") for text in columns.masked]
    return CompiledPatterns(columns.excluded, [(pattern, fingerprint) for pattern, _, fingerprint in masks])


def _captured_columns(server: Server, selector: TableFilter) -> dict[Name, dict[str, str]]:
    """The columns of each captured table, with their types."""
    columns: dict[Name, dict[str, str]] = {}
    for database, table, column, kind in server.texts(_COLUMNS):
        if is_captured(selector, database, table):
            columns.setdefault((database, table), {})[column] = kind
    return dict(sorted(columns.items()))


def _refusal(database: str, table: str, keys: Sequence[str], excluded: Collection[str]) -> str:
    name = f"{database}.{table}.{keys[0]}"
    option, what, fix = (
        ("exclude-columns", "excludes", f"`!{name}`")
        if keys[0] in excluded
        else ("mask-columns", "masks", f"`{name}: keep`")
    )
    return (
        f"source.{option} {what} {keys[0]} of {full_name(database, table)}, which identifies the table's rows: add {fix} behind "
        "the other patterns"
    )


def _not_text(database: str, table: str, column: str, kind: str) -> str:
    return (
        f"source.mask-columns masks {column} of {full_name(database, table)}, which is {kind}, and no text: exclude it, or add "
        f"`{database}.{table}.{column}: keep` behind the other patterns"
    )
