"""The two forms of a DataFrame of changes: all tables with VARIANT images, or one table in its own columns.

    all tables          one table          type
    table                                  string, `database.table`
    op                  _op                string: insert update delete read upsert
    commit_ts           _commit_ts         bigint; if the protocol has none, its own order (a position in the binlog)
    commit_time         _commit_time       timestamp
    position            _position          struct<topic, partition, offset, index>: order within a partition
    before, after                          variant
                        the table's columns, as a Delta sink has them; of a delete, those of the image before it
                        _before            struct of the columns; option `before`
                        _irregular         map<column, text>; option `irregular: keep`
    dead_letter         _dead_letter       struct; option `dead-letters: rows`

Changes of all tables contain the values that the records carry: an ENUM of the Open Protocol is an index. Changes of one
table have the types of its definitions. Columns are matched by name, ignoring case; a column that an image does not carry
is NULL. A dead letter is a row in which only the position and the struct are not NULL.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.errors import SchemaError, SourceError, UnsupportedError
from changefeed.frames.types import sink_type
from changefeed.model.batch import Decoded, TableBatch
from changefeed.model.definition import Table
from changefeed.model.event import DeadLetter
from changefeed.model.names import full_name
from changefeed.model.table import Column, TableShape
from changefeed.protocols.base import Redefine
from changefeed.spark.variant import VARIANT, variants
from changefeed.stages.changes import irregular_texts, text_maps
from changefeed.stages.image import BEFORE, DeclaredTypes, Image, named, place

POSITION = pa.struct([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("index", pa.int32())])
LETTER = pa.struct(
    [
        ("reason", pa.string()),
        ("error", pa.string()),
        ("table", pa.string()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
_CHANGE = [
    ("op", pa.string()),
    ("commit_ts", pa.int64()),
    ("commit_time", pa.timestamp("us", tz="UTC")),
    ("position", POSITION),
]
_TEXTS = pa.map_(pa.string(), pa.string())
_FAIL = "Set dead-letters to `rows` to read on: the record is then a row with `_dead_letter`"


@dataclass(frozen=True, slots=True)
class AllTables:
    """Converts changes of every table to rows, with images as VARIANT.

    Attributes:
        letters: whether dead letters become rows; otherwise the first one ends the read.
    """

    letters: bool

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        last = [("dead_letter", LETTER)] if self.letters else []
        return pa.schema([("table", pa.string()), *_CHANGE, ("before", VARIANT), ("after", VARIANT), *last])

    def batches(self, decoded: Decoded) -> Iterator[pa.RecordBatch]:
        """Yields the rows of decoded records, in the order of the records.

        Raises:
            SourceError: a record could not be decoded, and `letters` is False.
        """
        parts = [(_order(t.rows), self._rows(t)) for t in decoded.tables if len(t)]
        parts += _letters(decoded.dead, self.schema, "dead_letter", wanted=self.letters)
        yield from _in_order(parts, self.schema)

    def _rows(self, batch: TableBatch) -> pa.RecordBatch:
        rows = batch.rows
        texts = _raw_texts(rows)
        images = {name: variants(rows.column(name), texts[name]) for name in ("before", "after")}
        name = pa.repeat(pa.scalar(batch.name), len(rows))
        columns = {"table": name, **_change(batch, ""), **images}
        return _filled(columns, len(rows), self.schema)


def _raw_texts(rows: pa.RecordBatch) -> dict[str, dict[str, dict[int, bytes]]]:
    """Returns image -> column -> row -> text, for values that their types cannot hold."""
    texts: dict[str, dict[str, dict[int, bytes]]] = {"before": {}, "after": {}}
    column = rows.column("irregular")
    if not len(column.keys):
        return texts
    there = {side: {f.name for f in rows.column(side).type} for side in texts}
    images = {side: rows.column(side).is_valid() for side in texts}
    for row in pc.indices_nonzero(pc.not_equal(column.offsets[1:], column.offsets[:-1])).to_pylist():
        main = "after" if images["after"][row].as_py() else "before"
        for name, text in column[row].as_py():
            old = name.removeprefix(BEFORE)
            side, own = ("before", old) if name.startswith(BEFORE) and main == "after" else (main, name)
            if own in there[side]:
                texts[side].setdefault(own, {})[row] = text
    return texts


@dataclass(frozen=True, slots=True)
class OneTable:
    """Converts changes of one table to rows, in the table's columns.

    Attributes:
        table: the table, with the columns of the result.
        before: whether the result has the column `_before`.
        irregular: what to do with a value that its column cannot hold: `null`, `keep` or `fail`.
        letters: as in `AllTables`; dead letters of other tables are ignored.
        strict: whether a row with a column that the table lacks ends the read.
        wanted: the columns of the result; None for all columns.
        redefine: the protocol's conversion of values to other types.
    """

    table: Table
    before: bool = False
    irregular: str = "null"
    letters: bool = False
    strict: bool = True
    wanted: tuple[str, ...] | None = None
    redefine: Redefine | None = field(default=None, compare=False)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows that a read returns."""
        columns = [pa.field(c.name, sink_type(c.type).arrow, metadata=_metadata(c)) for c in self.table.columns]
        fields = [pa.field(f"_{name}", kind) for name, kind in _CHANGE] + columns
        more = {"_before": pa.struct(columns), "_irregular": _TEXTS, "_dead_letter": LETTER}
        chosen = {"_before": self.before, "_irregular": self.irregular == "keep", "_dead_letter": self.letters}
        if self.wanted is None:
            return pa.schema(fields + [pa.field(name, kind) for name, kind in more.items() if chosen[name]])
        by_name = {f.name.lower(): f for f in fields + [pa.field(name, kind) for name, kind in more.items()]}
        return pa.schema([by_name[name.lower()].with_name(name) for name in self.wanted])

    def batches(self, decoded: Decoded) -> Iterator[pa.RecordBatch]:
        """The rows of some records, in the order of the records.

        Raises:
            SourceError: a record could not be decoded, and `letters` is False.
            SchemaError: a value is invalid for its column; or its column cannot hold it and `irregular` is `fail`; or a row
                has a column that the schema lacks.
        """
        wanted, parts = (self.table.database, self.table.name), []
        for batch in decoded.tables:
            if (batch.shape.database, batch.shape.table) == wanted and len(batch):
                self._check_columns(batch)
                gone = pc.is_null(batch.rows.column("after"))
                for side, mask in (("before", gone), ("after", pc.invert(gone))):
                    rows = batch.rows.filter(mask)
                    if len(rows):
                        parts.append((_order(rows), self._rows(TableBatch(batch.shape, rows), side)))
        dead = [letter for letter in decoded.dead if letter.table is None or (letter.database, letter.table) == wanted]
        parts += _letters(dead, self.schema, "_dead_letter", wanted=self.letters)
        yield from _in_order(parts, self.schema)

    def _check_columns(self, batch: TableBatch) -> None:
        for column in batch.shape.columns if self.strict else ():
            if self.table.column(column.name) is None:
                raise SchemaError(
                    f"{named(self.table, column.name)} is not in the schema of this read, but the row at "
                    f"{place(batch.rows, 0)} has it. Start the read again: it then finds the columns in the first "
                    "`schema-records` records of the log; or set the columns that you want with .schema(…)"
                )

    def _rows(self, batch: TableBatch, side: str) -> pa.RecordBatch:
        rows, shape = batch.rows, batch.shape
        image = self._image(rows, shape, side)
        texts = irregular_texts(rows, self.table)
        image.irregular = {row: dict(row_texts) for row, row_texts in texts.items()}
        columns = {c.name: image.column(c, self.table) for c in self.table.columns}
        if self.before:
            old = image if side == "before" else self._image(rows, shape, "before")
            known = columns if side == "before" else {c.name: old.column(c, self.table) for c in self.table.columns}
            columns["_before"] = _struct(known, rows.column("before"))
            if side == "after":
                _add_old_texts(image.irregular, old.irregular, rows)
        if self.irregular == "fail" and image.irregular:
            self._refuse(image)
        columns["_irregular"] = text_maps(image.irregular, len(rows))
        return _filled({**_change(batch, "_"), **columns}, len(rows), self.schema)

    def _image(self, rows: pa.RecordBatch, shape: TableShape, side: str) -> Image:
        carried = shape.before_columns if side == "before" else shape.after_columns
        return Image.of(rows, side, carried, DeclaredTypes(self.redefine))

    def _refuse(self, image: Image) -> None:
        row = min(image.irregular)
        name, text = next(iter(image.irregular[row].items()))
        raise SchemaError(
            f"{named(self.table, name)} holds {text!r} at {place(image.rows, row)}, which its type cannot hold, and "
            "`irregular: fail` is set. Correct it upstream, or set irregular to `keep` or `null`"
        )


def _metadata(column: Column) -> dict[str, str]:
    return {"mysql": str(column.type), **({"key": "true"} if column.key else {})}


def _add_old_texts(texts: dict[int, dict[str, str]], old: dict[int, dict[str, str]], rows: pa.RecordBatch) -> None:
    """Adds the texts of the image before the change, as `before.<column>`."""
    for row, row_texts in old.items():
        texts.setdefault(row, {}).update({BEFORE + name: text for name, text in row_texts.items()})
    for column, by_row in _raw_texts(rows)["before"].items():
        for row, text in by_row.items():
            texts.setdefault(row, {})[BEFORE + column] = text.decode(errors="replace")


def _change(batch: TableBatch, prefix: str) -> dict[str, pa.Array]:
    rows = batch.rows
    try:
        ts = rows.column("commit_ts").cast(pa.int64())
    except pa.ArrowInvalid as error:
        name = batch.name
        raise UnsupportedError(f"{name}: a commit_ts is above 2^63-1, which Spark's bigint cannot hold") from error
    columns = {
        "op": rows.column("op"),
        "commit_ts": ts,
        "commit_time": rows.column("commit_time").cast(pa.timestamp("us", tz="UTC")),
        "position": pa.StructArray.from_arrays([rows.column(f.name) for f in POSITION], fields=list(POSITION)),
    }
    return {prefix + name: column for name, column in columns.items()}


def _struct(columns: dict[str, pa.Array], image: pa.StructArray) -> pa.StructArray:
    return pa.StructArray.from_arrays(list(columns.values()), names=list(columns), mask=pc.is_null(image))


def _filled(columns: dict[str, pa.Array], count: int, schema: pa.Schema) -> pa.RecordBatch:
    """Arranges columns as in the schema, matched by name ignoring case; missing columns are NULL."""
    by_name = {name.lower(): column for name, column in columns.items()}
    arrays = [by_name[f.name.lower()] if f.name.lower() in by_name else pa.nulls(count, f.type) for f in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


_Part = tuple[pa.Array, pa.RecordBatch]


def _order(rows: pa.RecordBatch) -> pa.Array:
    """Returns the sort keys of the events of one batch of records."""
    high = pc.shift_left(rows.column("record").cast(pa.int64()), pa.scalar(32, pa.int64()))
    return pc.add(high, pc.coalesce(rows.column("index"), pa.scalar(0, pa.int32())).cast(pa.int64()))


def _letters(dead: Iterable[DeadLetter], schema: pa.Schema, name: str, *, wanted: bool) -> list[_Part]:
    letters = list(dead)
    if not letters:
        return []
    if not wanted:
        raise SourceError(f"{letters[0].error} ({letters[0].reason}). {_FAIL}")
    places = [letter.place for letter in letters]
    position = [{"topic": p.topic, "partition": p.partition, "offset": p.offset, "index": p.index} for p in places]
    columns = {
        name.replace("dead_letter", "position"): pa.array(position, POSITION),
        name: pa.array([_letter(letter) for letter in letters], LETTER),
    }
    order = pa.array([(p.record << 32) + (p.index or 0) for p in places], pa.int64())
    return [(order, _filled(columns, len(letters), schema))]


def _letter(letter: DeadLetter) -> dict[str, Any]:
    table = None if letter.table is None else full_name(str(letter.database), letter.table)
    headers = [{"key": key, "value": value} for key, value in letter.headers]
    return {
        "reason": letter.reason, "error": letter.error, "table": table, "key": letter.key, "value": letter.value,
        "headers": headers,
    }  # fmt: skip


def _in_order(parts: list[_Part], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    if len(parts) == 1:
        yield parts[0][1]
    elif parts:
        rows = pa.Table.from_batches([rows for _, rows in parts], schema).combine_chunks()
        order = pc.sort_indices(pa.concat_arrays([order for order, _ in parts]))
        yield from rows.take(order).to_batches()
