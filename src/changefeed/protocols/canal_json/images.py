"""Reads the two images of a row: the values of its columns, and the texts that their types cannot hold.

A value that its type cannot hold is NULL in its image and kept in `irregular`, under the column's name; names of the old
row of an update carry `before.`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from changefeed.errors import ProtocolError, SchemaError, UnsupportedError
from changefeed.model.values import Irregular, Moment
from changefeed.protocols.canal_json.shapes import CompiledColumn
from changefeed.wire.strict_json import REPLACED, unmarked

Values = dict[str, Any]
BEFORE = "before."


class Images:
    """Reads the values of both images of a row, and collects what must be kept beside them.

    Attributes:
        irregular: name -> text that the column's type cannot hold, verbatim.
        replaced: name, as in `irregular` -> numbers of the U+FFFD that the producer wrote for bytes that are not UTF-8.
        sent: name, as in `irregular` -> text that the writer would write in another form.
        digits: column -> fraction digits of a datetime or timestamp whose type does not declare them.
    """

    __slots__ = ("digits", "irregular", "replaced", "sent")

    def __init__(self) -> None:
        self.irregular: dict[str, bytes] = {}
        self.replaced: dict[str, list[int]] = {}
        self.sent: dict[str, str] = {}
        self.digits: dict[str, int] = {}

    def read(
        self, columns: Mapping[str, CompiledColumn], row: Mapping[str, str | None], where: str, prefix: str
    ) -> Values:
        """Reads one image; returns ready values by column name."""
        image: Values = {}
        for name, text in row.items():
            if text is None:
                image[name] = None
                continue
            if REPLACED in text:
                text, self.replaced[prefix + name] = unmarked(text)
            try:
                image[name] = self._value(columns[name], text, prefix + name)
            except ProtocolError as error:
                raise SchemaError(f"{error} - at `{where}.{name}`") from error
        return image

    def _value(self, column: CompiledColumn, text: str, name: str) -> Any:
        ready = column.read(text)
        if type(ready) is Irregular:
            self.irregular[name] = ready.data
            return None
        if type(ready) is Moment:
            if column.bare and self.digits.setdefault(column.column.name, ready.digits) != ready.digits:
                known = self.digits[column.column.name]
                raise SchemaError(f"one image has {known} fraction digits, the other {ready.digits}")
            ready = ready.us
        if column.write is not None and _written(column, ready) != text:
            self.sent[name] = text
        return ready

    def completed(self, old: Values, after: Values) -> Values:
        """Completes the old row: columns that were not sent get the value of the new row."""
        for name in after.keys() - old.keys():
            if name in self.irregular:
                self.irregular[BEFORE + name] = self.irregular[name]
        return {**{name: old.get(name, value) for name, value in after.items()}, **old}


def _written(column: CompiledColumn, ready: Any) -> str | None:
    try:
        return None if column.write is None else column.write(ready)
    except UnsupportedError:
        return None
