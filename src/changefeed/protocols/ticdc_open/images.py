"""Reads the two images of a row: the values of its columns, and the texts that their types cannot hold.

A value that its type cannot hold is NULL in its image and kept in `irregular`, under the column's name; names of the
old row of an update carry `before.`.
"""

from __future__ import annotations

from typing import Any

from changefeed.errors import ProtocolError, SchemaError
from changefeed.model.values import Irregular, Moment
from changefeed.protocols.ticdc_open.shapes import CompiledColumn
from changefeed.wire.strict_json import REPLACED, unmarked

Values = dict[str, Any]


class Images:
    """Reads the values of both images of a row, and collects what must be kept beside them.

    Attributes:
        before: the old row, or None.
        after: the new row, or None.
        irregular: name -> text that the column's type cannot hold, verbatim.
        replaced: image and column -> numbers of the U+FFFD that the producer wrote for bytes that are not UTF-8.
        digits: column -> fraction digits of a datetime or timestamp.
    """

    __slots__ = ("after", "before", "digits", "irregular", "replaced")

    def __init__(self) -> None:
        self.replaced: dict[str, dict[str, list[int]]] = {}
        self.before: Values | None = None
        self.after: Values | None = None
        self.irregular: dict[str, bytes] = {}
        self.digits: dict[str, int] = {}

    def read(self, columns: tuple[CompiledColumn, ...], values: list[Any], where: str, prefix: str = "") -> Values:
        """Reads one image; returns ready values by column name."""
        image: Values = {}
        for compiled, value in zip(columns, values, strict=True):
            name = compiled.column.name
            if value is None:
                image[name] = None
                continue
            if type(value) is str and REPLACED in value:
                value, self.replaced.setdefault(where, {})[name] = unmarked(value)
            try:
                ready = compiled.read(value)
            except ProtocolError as error:
                raise SchemaError(f"{error} - at `{where}.{name}.v`") from error
            if type(ready) is Moment:
                if self.digits.setdefault(name, ready.digits) != ready.digits:
                    raise SchemaError(
                        f"{name} has {self.digits[name]} fraction digits in `u`, but {ready.digits} in `p`"
                    )
                ready = ready.us
            elif type(ready) is Irregular:
                self.irregular[prefix + name] = ready.data
                ready = None
            image[name] = ready
        return image

    def filled(self, sent: Values, names: tuple[str, ...]) -> Values:
        """Completes the before image: columns that were not sent get the value of the after image."""
        after = self.after or {}
        for name in names:
            if name not in sent and name in self.irregular:
                self.irregular["before." + name] = self.irregular[name]
        return {name: sent[name] if name in sent else after[name] for name in names}

    def digits_of(self, names: tuple[str, ...]) -> list[int | None]:
        """Returns the fraction digits of these columns; None if the row does not show them."""
        return [self.digits.get(name) for name in names]
