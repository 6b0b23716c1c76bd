"""Reads the two images of a row: the values of its columns, and the texts that their types cannot hold.

A value that its type cannot hold is NULL in its image and kept in `irregular`, under the column's name; names of the
old row of an update carry `before.`. A column whose value is the placeholder was not sent: its image does not have it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from changefeed.connect import java_json
from changefeed.errors import ProtocolError, SchemaError, UnsupportedError
from changefeed.model.table import TableShape
from changefeed.model.types import ColumnType
from changefeed.model.values import Irregular, Moment
from changefeed.protocols.debezium_mysql.shapes import CompiledColumn, Family, Shown
from changefeed.protocols.debezium_mysql.values import schemaless
from changefeed.protocols.debezium_mysql.values.writing import write_irregular, writing
from changefeed.wire import base64_text

Values = dict[str, Any]
Tree = dict[str, Any]


class Images:
    """Reads the values of both images of a row, and collects what must be kept beside them."""

    __slots__ = ("_absent", "_shown", "_trees", "_types", "after", "before", "irregular")

    def __init__(self, placeholder: str) -> None:
        self.before: Values | None = None
        self.after: Values | None = None
        self.irregular: dict[str, bytes] = {}
        self._absent = {placeholder, base64_text.write(placeholder.encode())}
        self._shown: dict[str, Shown] = {}
        self._trees: dict[str, Tree] = {}
        self._types: dict[str, ColumnType] = {}

    def infer(self, names: Iterable[str], trees: list[Tree]) -> None:
        """Infers the columns' types from the values of both images, where there is no schema."""
        for name in names:
            inferred = schemaless.infer([tree[name] for tree in trees])
            if inferred is not None:
                self._shown[name] = self._types[name] = inferred

    def read(self, fields: tuple[CompiledColumn, ...], tree: Tree, side: str, prefix: str) -> Values:
        """Reads one image; returns ready values by column name. `tree` has the members that `fields` name."""
        image: Values = {}
        self._trees[side] = tree
        for f in fields:
            name = f.column.name
            value = tree[name]
            if value is None:
                image[name] = None
            elif type(value) is not str or value not in self._absent:
                image[name] = self._value(f, value, side, prefix)
        return image

    def _value(self, f: CompiledColumn, value: Any, side: str, prefix: str) -> Any:
        name = f.column.name
        try:
            ready = schemaless.read(value, self._types[name]) if f.read is None else f.read(value)
        except ProtocolError as error:
            raise SchemaError(f"{error} - at `{side}.{name}`") from error
        if type(ready) is Moment:
            known = self._shown.get(name)
            self._shown[name] = max(ready.digits, known if isinstance(known, int) else 0)
            return ready.us
        if type(ready) is Irregular:
            self.irregular[prefix + name] = ready.data
            return None
        return ready

    def shape(self, family: Family) -> TableShape:
        """Returns the shape of the row."""
        shown = [self._shown.get(f.column.name) for f in family.fields if f.open]
        return family.shape(shown, self._names(family, self.before), self._names(family, self.after))

    def _names(self, family: Family, image: Values | None) -> tuple[str, ...] | None:
        return None if image is None or len(image) == len(family.fields) else tuple(image)

    def differing(self, family: Family, shape: TableShape, numeric: bool) -> dict[str, str]:
        """Returns values that would be written in another form: name, such as `before.price` -> JSON as sent."""
        texts: dict[str, str] = {}
        both = self.before is not None and self.after is not None
        for side, image in (("before", self.before), ("after", self.after)):
            prefix = "before." if both and side == "before" else ""
            tree = self._trees.get(side, {})
            for f in family.fields:
                name = f.column.name
                if image is None or name not in image or tree.get(name) is None:
                    continue
                t = shape.by_name[name].type
                sent = java_json.write(tree[name])
                if _written(f, t, image[name], self.irregular.get(prefix + name), numeric) != sent:
                    texts[f"{side}.{name}"] = sent
        return texts


def _written(f: CompiledColumn, t: ColumnType, ready: Any, irregular: bytes | None, numeric: bool) -> str | None:
    node = f.node if f.node is not None else schemaless.node(t)
    try:
        tree = writing(t, node, numeric=numeric)(ready) if irregular is None else write_irregular(irregular, node)
    except (UnsupportedError, ProtocolError):
        return None
    return java_json.write(tree)
