"""Converts rows to messages, in the form of the producer that the options name.

                  TiCDC                                       Canal
    members       id database table pkNames isDdl type …      ascending by name, `gtid` among them
    mysqlType     bare; with lengths and members when content-compatible, as Canal's
    old           all columns; those that changed with only-output-updated-columns or content-compatible, as Canal's

Rule 1. A row that was read from this protocol has the types, the key and the columns of `old` that it came with.
Rule 2. A foreign row gets `mysqlType` from its type, `pkNames` from its handle key (null without one), `ts` from `es`.
Rule 3. An upsert is an UPDATE without `old`: the row before is unknown. `read` is an INSERT.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from changefeed.columnar.events import Row
from changefeed.errors import UnsupportedError
from changefeed.model.table import Column, TableShape
from changefeed.mysql.zone import zone
from changefeed.protocols.canal_json import text
from changefeed.protocols.canal_json.envelope import write
from changefeed.protocols.canal_json.images import BEFORE, Values
from changefeed.protocols.canal_json.options import NAME, Options
from changefeed.protocols.canal_json.shapes import own
from changefeed.protocols.canal_json.types import sql_type, type_text
from changefeed.protocols.canal_json.values import Write, write_irregular, writer
from changefeed.wire.strict_json import marked

TYPES = {"insert": "INSERT", "read": "INSERT", "update": "UPDATE", "upsert": "UPDATE", "delete": "DELETE"}


@dataclass(frozen=True, slots=True)
class ColumnWriter:
    """The writer of one column; `name` and `type` are JSON strings."""

    column: Column
    name: str
    type: str
    write: Write


@dataclass(frozen=True, slots=True)
class ShapeWriter:
    """The column writers of a shape. `ours`: the shape was read from this protocol; `keys`: the text of `pkNames`."""

    columns: Mapping[str, ColumnWriter]
    keys: str
    handle: frozenset[str]
    ours: bool


@dataclass(frozen=True, slots=True)
class Sent:
    """The parts of a row that are written to `data`.

    Attributes:
        image: the values of the row.
        prefix: prefix of the image's columns in `irregular`.
        columns: the columns to write.
        whole: whether these are all columns of the row.
    """

    row: Row
    writers: ShapeWriter
    image: Values
    prefix: str
    columns: Sequence[ColumnWriter]
    whole: bool


class RowWriter:
    """Writes rows; caches the compiled writers of each shape."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._zone = zone(options.time_zone)
        self._string = text.canal if options.profile == "canal" else text.ticdc
        self.shape = lru_cache(4096)(self._shape)

    def _shape(self, shape: TableShape) -> ShapeWriter:
        wire = own(shape.wire)
        types = [type_text(c.type, full=self._options.full_types) for c in shape.columns]
        keys: Sequence[str] | None = shape.keys or None
        if wire is not None and len(wire["mysqlType"]) == len(types):
            types, keys = wire["mysqlType"], wire["pkNames"]
        columns = {c.name: self._column(c, t, shape) for c, t in zip(shape.columns, types, strict=True)}
        keys_text = "null" if keys is None else "[" + ",".join(map(self._string, keys)) + "]"
        return ShapeWriter(columns, keys_text, frozenset(shape.keys), wire is not None)

    def _column(self, column: Column, mysql_type: str, shape: TableShape) -> ColumnWriter:
        name = f"{shape.database}.{shape.table}.{column.name}"
        try:
            return ColumnWriter(
                column, self._string(column.name), self._string(mysql_type), writer(column.type, self._zone)
            )
        except UnsupportedError as error:
            raise UnsupportedError(f"{NAME} cannot carry {name} of type {column.type}") from error

    def message(self, rows: Sequence[Row], es: int, commit_ts: int, *, handle_only: bool = False, ccl: str = "") -> str:
        """Returns the text of the message for these rows: a single row, or rows that were read from one message.

        Args:
            rows: the rows.
            es: time of the change, in milliseconds since 1970.
            commit_ts: the commit_ts for the extension.
            handle_only: whether to write only the columns of the handle key.
            ccl: location of the claim-check file with the complete row; None if there is none.

        Raises:
            UnsupportedError: the protocol cannot represent a row.
        """
        sent = [self._sent(row, handle_only) for row in rows]
        first, origin = sent[0], self.origin(rows[0])
        old = [self._old(one, handle_only) for one in sent]
        members = {
            "id": str(origin.get("id", 0)),
            "database": self._string(first.row.shape.database),
            "table": self._string(first.row.shape.table),
            "pkNames": first.writers.keys,
            "isDdl": "false",
            "type": f'"{TYPES[first.row.op]}"',
            "es": str(es),
            "ts": str(origin.get("ts", es)),
            "sql": self._string(origin.get("sql", "")),
            **self._types(first, origin),
            "old": "null" if None in old else "[" + ",".join(map(str, old)) + "]",
            "data": "[" + ",".join(self._image(one, one.columns, one.image, one.prefix) for one in sent) + "]",
            **self.gtid(origin, first.row),
        }
        if self._options.enable_tidb_extension:
            members["_tidb"] = self._extension(origin, commit_ts, handle_only, ccl)
        return write(members, canal=self._options.profile == "canal")

    def origin(self, row: Row) -> Mapping[str, Any]:
        """Returns the members of the row's message that its origin has kept; none for a foreign row."""
        return row.origin if self.shape(row.shape).ours else {}

    def _sent(self, row: Row, handle_only: bool) -> Sent:
        writers, deleted = self.shape(row.shape), row.op == "delete"
        image = row.before if deleted else row.after
        if (
            image is None
            or (row.after is not None) == deleted
            or (row.before is not None and TYPES[row.op] == "INSERT")
        ):
            raise UnsupportedError(f"{NAME} cannot represent an {row.op} with these images")
        # An update that has lost its old row may come as a delete of another protocol: its names carry no prefix.
        names = row.shape.before_columns if deleted else row.shape.after_columns
        only = handle_only or (deleted and self._options.delete_only_output_handle_key_columns)
        columns = [writers.columns[c.name] for c in names if not only or c.name in writers.handle]
        if not columns and writers.ours:  # the key is unknown: all columns that came
            columns = [writers.columns[c.name] for c in names]
        if not columns:
            raise UnsupportedError(f"{row}: only handle-key columns are to be sent, but the table has none")
        return Sent(row, writers, image, "", columns, len(columns) == len(names))

    def _types(self, sent: Sent, origin: Mapping[str, Any]) -> dict[str, str]:
        by_name = {c.column.name: c for c in sent.columns}
        if not sent.whole:
            origin = {}  # what was kept is of all columns
        names, others = list(by_name), {}
        kept = origin.get("mysqlType")
        if isinstance(kept, dict):
            names, others = list(kept), kept
        elif isinstance(kept, list):
            names = [name for name in kept if name in by_name]
        numbers: dict[str, int] | None = {
            name: sql_type(c.column.type, sent.image.get(name)) for name, c in by_name.items()
        }
        if "sqlType" in origin:
            numbers = origin["sqlType"]
        sql_types = "null" if numbers is None else self._object(f"{self._string(n)}:{v}" for n, v in numbers.items())
        types = (
            f"{by_name[n].name}:{by_name[n].type}" if n in by_name else f"{self._string(n)}:{self._string(others[n])}"
            for n in names
        )
        return {"sqlType": sql_types, "mysqlType": self._object(types)}

    @staticmethod
    def _object(members: Any) -> str:
        return "{" + ",".join(members) + "}"

    def _image(self, sent: Sent, columns: Sequence[ColumnWriter], image: Values, prefix: str) -> str:
        return self._object(f"{c.name}:{self._value(sent, c, image[c.column.name], prefix)}" for c in columns)

    def _value(self, sent: Sent, column: ColumnWriter, value: Any, prefix: str) -> str:
        name, row = prefix + column.column.name, sent.row
        kept = row.origin if sent.writers.ours else {}
        if value is None and name not in row.irregular:
            return "null"
        try:
            if value is None:
                written = write_irregular(row.irregular[name], column.column.type, self._zone)
            else:
                written = (kept.get("sent") or {}).get(name) or column.write(value)
        except UnsupportedError as error:
            raise UnsupportedError(f"{error} - in `{column.column.name}`") from error
        places = (kept.get("replaced") or {}).get(name)
        return self._string(marked(written, places) if places else written)

    def _old(self, sent: Sent, handle_only: bool) -> str | None:
        """Returns the row for `old`; None if there is none."""
        row = sent.row
        if row.before is None or TYPES[row.op] != "UPDATE":
            return None
        kept = row.origin.get("old") if sent.writers.ours else None
        if kept is not None:
            columns = [sent.writers.columns[name] for name in kept if name in row.before]
        else:
            columns = [sent.writers.columns[c.name] for c in row.shape.before_columns]
            if self._options.changed_only:
                columns = [c for c in columns if self._differs(c.column.name, row)]
        if handle_only:
            columns = [c for c in columns if c.column.name in sent.writers.handle]
        return self._image(sent, columns, row.before, BEFORE)

    @staticmethod
    def _differs(name: str, row: Row) -> bool:
        before, after = row.before or {}, row.after or {}
        if name not in after or before[name] != after[name]:
            return True
        return row.irregular.get(BEFORE + name) != row.irregular.get(name)

    def gtid(self, origin: Mapping[str, Any], row: Row | None) -> dict[str, str]:
        """Returns the member `gtid`, which Canal writes and TiCDC does not."""
        if self._options.profile != "canal":
            return {}
        if origin:
            return {"gtid": self._string(origin["gtid"])} if "gtid" in origin else {}
        if row is None:
            return {"gtid": '""'}
        known = row.origin.get("gtid") or (row.transaction or {}).get("id") or ""
        return {"gtid": self._string(known if isinstance(known, str) and ":" in known else "")}

    def _extension(self, origin: Mapping[str, Any], commit_ts: int, handle_only: bool, ccl: str) -> str:
        parts = [f'"commitTs":{commit_ts}']
        if ccl:
            parts.append(f'"claimCheckLocation":{self._string(ccl)}')
        elif handle_only or origin.get("ohk"):
            parts.append('"onlyHandleKey":true')
        if isinstance(origin.get("rowkey"), str):
            parts.append(f'"rowkey":{self._string(origin["rowkey"])}')
        return "{" + ",".join(parts) + "}"
