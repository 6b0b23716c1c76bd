"""Converts a row to a message: JSON of its key and value, in the profile of either producer.

                      classic                              newarch
    key               ts scm tbl rid ptn t ohk ccl         ts scm tbl t ohk ccl ptn
    columns           ascending by name                    as in the table
    p, nothing left   left out                             "p":{}
    claim check       "ccl":"…"                            "ohk":true,"ohk":false,"ccl":"…"

Rule 1. Which columns `p` gets: those that the origin's `p` names, if the row was read with a partial one; else with
        only-output-updated-columns those that changed; else all.
Rule 2. A value that became NULL is written with its name, though newarch forgets it; with bug-compat as newarch does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from typing import Any

from changefeed.columnar.events import Row
from changefeed.errors import UnsupportedError
from changefeed.model.table import TableShape
from changefeed.mysql import type_codes
from changefeed.mysql.zone import zone
from changefeed.protocols.ticdc_open import envelope
from changefeed.protocols.ticdc_open.columns import ColumnWriter, ShapeWriter, Style, shape_writer
from changefeed.protocols.ticdc_open.options import Options
from changefeed.protocols.ticdc_open.values import writer
from changefeed.ticdc.commit_ts import needed_ts
from changefeed.wire import compression
from changefeed.wire.go_json import W_HTML, W_RAW
from changefeed.wire.strict_json import marked


@dataclass(frozen=True, slots=True)
class Side:
    """One image of a row to write; `prefix`: prefix of its columns in the row's irregular values."""

    columns: tuple[ColumnWriter, ...]
    values: dict[str, Any]
    prefix: str = ""


class RowWriter:
    """Writes rows; caches the compiled writers of each shape."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.classic = options.profile == "classic"
        self.json = W_HTML if self.classic else W_RAW
        self._style = Style(self.json, self.classic, zone(options.time_zone), options.legacy_v4)
        self.shape = lru_cache(4096)(self._shape)

    def _shape(self, shape: TableShape) -> ShapeWriter:
        return shape_writer(shape, self._style)

    def message(self, row: Row, *, handle_only: bool = False, ccl: str | None = None) -> tuple[bytes, bytes]:
        """Returns the event key and the compressed event value of one row.

        Args:
            row: the row.
            handle_only: whether to write only the columns of the handle key.
            ccl: location of the claim-check file with the complete row; None if there is none.

        Raises:
            UnsupportedError: the protocol cannot represent the row.
        """
        if self.classic and "replaced" in row.origin:
            row = _marked(row)
        text = self._value(row, handle_only)
        value = compression.deflate(_encoded(text), self.options.large_message_handle_compression)
        ohk = bool(row.origin.get("ohk")) or (handle_only and ccl is None)
        key = envelope.EventKey(
            needed_ts(row, "ticdc-open"),
            envelope.ROW,
            row.shape.database,
            row.shape.table,
            row.origin.get("rid"),
            row.origin.get("ptn"),
            ohk,
            ccl,
        )
        return _encoded(envelope.write_key(key, self.json, classic=self.classic)), value

    def _value(self, row: Row, handle_only: bool) -> str:
        writers = self.shape(row.shape)
        if row.after is None:
            if row.before is None:
                raise UnsupportedError(f"{row} has no image")
            handle_only = handle_only or self.options.delete_only_output_handle_key_columns
            return '{"d":{' + self._image(row, Side(writers.before, row.before), handle_only) + "}}"
        new = Side(writers.after, row.after)
        text = '{"u":{' + self._image(row, new, handle_only) + "}"
        old = self._old(row, new, writers, handle_only)
        return text + "}" if old is None else text + ',"p":{' + old + "}}"

    def _image(self, row: Row, side: Side, handle_only: bool) -> str:
        columns = [c for c in side.columns if c.column.key] if handle_only else side.columns
        if not columns:
            raise UnsupportedError(
                f"{row}: only handle-key columns are to be sent, but the table has none "
                "(ErrOpenProtocolCodecInvalidData)"
            )
        return ",".join(_column(c, row, side) for c in columns)

    def _old(self, row: Row, new: Side, writers: ShapeWriter, handle_only: bool) -> str | None:
        """Returns the content of `p`; None to leave it out."""
        if not self.options.output_old_value or (row.before is None and "p" not in row.origin):
            return None
        old = Side(writers.before, row.before or {}, "before.")
        if "p" in row.origin:
            parts = list(self._as_sent(row, old, new, row.origin["p"], handle_only))
        elif not self.options.only_output_updated_columns:
            return self._image(row, old, handle_only)
        else:
            parts = [
                self._changed(c, row, old, new)
                for c in old.columns
                if (c.column.key or not handle_only) and self._differs(c, row, old, new)
            ]
        return None if self.classic and not parts else ",".join(parts)

    def _as_sent(self, row: Row, old: Side, new: Side, sent: Any, handle_only: bool) -> Iterator[str]:
        by_name = {c.name: c for c in old.columns}
        for entry in sent:
            if isinstance(entry, dict):
                if self._forgets_names:
                    yield self._nameless(entry)
            elif entry in by_name and entry in old.values and (by_name[entry].column.key or not handle_only):
                yield self._changed(by_name[entry], row, old, new)

    @property
    def _forgets_names(self) -> bool:
        return self.options.bug_compat and not self.classic

    def _changed(self, column: ColumnWriter, row: Row, old: Side, new: Side) -> str:
        was, now = (_has_value(column, row, side) for side in (old, new))
        if self._forgets_names and was and not now and column.name in new.values:
            name = column.name
            return column.members + column.value(old.values[name], row.irregular.get(old.prefix + name))
        return _column(column, row, old)

    def _differs(self, column: ColumnWriter, row: Row, old: Side, new: Side) -> bool:
        name = column.name
        if name not in new.values:
            return True
        was, now = old.values[name], new.values[name]
        if was is None or now is None:
            return was is not now or row.irregular.get(old.prefix + name) != row.irregular.get(new.prefix + name)
        if column.column.type.name == "decimal" and not self.classic:
            return Decimal(was) != Decimal(now)
        return bool(was != now)

    def _nameless(self, entry: dict[str, Any]) -> str:
        code, flags, value = entry["t"], entry.get("f", 0), entry["v"]
        text = f'"t":{code},' + ('"h":true,' if entry.get("h") else "") + (f'"f":{flags},' if "f" in entry else "")
        if value is None or isinstance(value, str):
            return f'{text}"v":{"null" if value is None else self.json.string(value)}'
        write = writer(type_codes.column_type(code, flags), code, self._style.zone, self.json, False)
        return f'{text}"v":{write(value)}'


def _column(column: ColumnWriter, row: Row, side: Side) -> str:
    name = column.name
    value = column.value(side.values[name], row.irregular.get(side.prefix + name))
    return f"{column.opening}{column.members}{value}}}"


def _has_value(column: ColumnWriter, row: Row, side: Side) -> bool:
    return side.values.get(column.name) is not None or side.prefix + column.name in row.irregular


def _marked(row: Row) -> Row:
    """Returns the row with invalid bytes at the places where the producer had bytes that are not UTF-8."""
    replaced = row.origin["replaced"]
    before = _marked_image(row.before, {**replaced.get("p", {}), **replaced.get("d", {})})
    return replace(row, before=before, after=_marked_image(row.after, replaced.get("u", {})))


def _marked_image(image: dict[str, Any] | None, places: dict[str, list[int]]) -> dict[str, Any] | None:
    if image is None:
        return None
    texts = {name: marked(image[name], at) for name, at in places.items() if isinstance(image.get(name), str)}
    return {**image, **texts}


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
