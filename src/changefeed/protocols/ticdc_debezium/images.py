"""Reads the two images of a row: values, texts that their types cannot hold, and types that only values show.

With a schema block each column's type is known, except the fraction digits of a timestamp, which its text shows. Without one, a
value shows only its JSON kind:

    number without fraction, within int64   bigint          string        text
    any other number                        double          true, false   bit(1), the only one sent so
    null                                    any type: `null`, until a value shows another

Rule 1. A column has one type in both images: bigint and double make double, anything else makes text.
Rule 2. A value that its writer would write otherwise is kept word for word in `sent`, under its column's name (names of the
        old row of an update carry `before.`), and goes out as it came in.
Rule 3. In a column with a default, a value of another form than the type's stands for NULL: producers write the text of the
        default there. It is NULL in the image, the text is kept in `irregular`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from changefeed.errors import ProtocolError, SchemaError
from changefeed.model.types import ColumnType
from changefeed.model.values import Irregular
from changefeed.protocols.ticdc_debezium.parts import text_of
from changefeed.protocols.ticdc_debezium.schema import Field, Fields
from changefeed.protocols.ticdc_debezium.times import digits_of, instant
from changefeed.protocols.ticdc_debezium.values import reader, writer
from changefeed.wire.json_form import show, unicode_name
from changefeed.wire.strict_json import REPLACED, Number

BIGINT, DOUBLE, TEXT, BIT = (ColumnType.parse(name) for name in ("bigint", "double", "text", "bit(1)"))
_NUMBERS = {BIGINT, DOUBLE}
_INT64 = range(-(2**63), 2**63)
Json = Mapping[str, Any]


class Images:
    """Reads the values of both images of a row, and collects what must be kept beside them.

    Attributes:
        before, after: the images; None if there is no such image.
        irregular: name -> text that the column's type cannot hold, verbatim.
        sent: name -> JSON text of a value that the writers would write in another form.
        types: column -> type, inferred from the values if no schema declares it.
    """

    __slots__ = ("after", "before", "irregular", "sent", "types")

    def __init__(self) -> None:
        self.before: dict[str, Any] | None = None
        self.after: dict[str, Any] | None = None
        self.irregular: dict[str, bytes] = {}
        self.sent: dict[str, str] = {}
        self.types: dict[str, ColumnType] = {}

    def read(self, before: Json | None, after: Json | None, fields: tuple[Fields, Fields] | None) -> None:
        """Reads the images of a row before and after a change; `fields` describe their columns, None if there is no schema."""
        prefix = "before." if after is not None else ""
        sides = ((before, "before", prefix), (after, "after", ""))
        if fields is None:
            self._show_kinds([(image, where) for image, where, _ in sides if image is not None])
        else:
            self._show_digits([image for image, _, _ in sides if image is not None], fields)
        read = [
            None if image is None else self._image(image, None if fields is None else fields[side], where, prefix)
            for side, (image, where, prefix) in enumerate(sides)
        ]
        self.before, self.after = read

    def _show_kinds(self, images: list[tuple[Json, str]]) -> None:
        for image, where in images:
            for name, value in image.items():
                unicode_name(name, where)
                kind = _kind(value, f"{where}.{name}")
                if kind is not None:
                    known = self.types.setdefault(name, kind)
                    self.types[name] = known if known == kind else DOUBLE if {known, kind} == _NUMBERS else TEXT

    def _show_digits(self, images: list[Json], fields: tuple[Fields, Fields]) -> None:
        for name in {n for side in fields for n, field in side.items() if field.type.name == "timestamp"}:
            digits = [digits_of(v) for v in (image.get(name) for image in images) if type(v) is str]
            known = [d for d in digits if d is not None and d <= 6]
            if known:
                self.types[name] = ColumnType("timestamp", length=max(known) or None)

    def _image(self, image: Json, fields: Fields | None, where: str, prefix: str) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name, value in image.items():
            unicode_name(name, where)
            field = None if fields is None else fields.get(name)
            if fields is not None and field is None:
                raise SchemaError(f"the schema has no column {show(name)} - at `{where}`")
            try:
                if value is None:
                    values[name] = None
                elif field is not None:
                    values[name] = self._described(prefix + name, value, field)
                else:
                    values[name] = self._shown(prefix + name, value, self.types[name])
            except ProtocolError as error:
                raise SchemaError(f"{error} - at `{where}.{name}`") from error
        return values

    def _described(self, name: str, value: Any, field: Field) -> Any:
        try:
            ready = field.read(value)
        except ProtocolError:
            if not field.has_default or type(value) in (dict, list):
                raise
            ready = Irregular(_word_for_word(value))
            self.sent[name] = text_of(value)
        if type(ready) is Irregular:
            self.irregular[name] = ready.data
            return None
        if field.type.name == "timestamp":
            shown = self.types.get(field.name)
            if value != instant(ready, 0 if shown is None else shown.length or 0):
                self.sent[name] = text_of(value)
        elif type(ready) is not str or type(value) is not str:
            self._as_sent(name, value, field.write(ready))
        return ready

    def _shown(self, name: str, value: Any, kind: ColumnType) -> Any:
        if kind == TEXT and type(value) is not str:
            self.sent[name] = text_of(value)
            return text_of(value)
        ready = reader(kind)(value)
        if type(ready) is Irregular:
            self.irregular[name] = ready.data
            return None
        if kind != TEXT:
            self._as_sent(name, value, writer(kind)(ready))
        return ready

    def _as_sent(self, name: str, value: Any, written: str) -> None:
        text = text_of(value)
        if text != written:
            self.sent[name] = text


def _kind(value: Any, where: str) -> ColumnType | None:
    if type(value) is Number:
        whole = len(value) <= 20 and value.removeprefix("-").isdigit() and int(value) in _INT64
        return BIGINT if whole else DOUBLE
    if type(value) is str:
        return TEXT
    if value is None or type(value) is bool:
        return None if value is None else BIT
    raise SchemaError(f"{show(value)} is not a value of a column - at `{where}`")


def _word_for_word(value: Any) -> bytes:
    text = value.replace(REPLACED, "\ufffd") if type(value) is str else text_of(value)
    return text.encode("utf-8", "surrogateescape")
