"""Connect schemas: the text of a schema block -> a tree of nodes.

    {"type":"struct","fields":[{"type":"int32","optional":false,"field":"id"}, …],"optional":false,"name":"srv1.inv.t.Key"}

    members, in the order in which they are written:
    type  (fields | items | keys values)  optional  name  version  doc  parameters  default  field

Rule 1. The tree depends only on the bytes of the block, so each block is parsed once and then cached.
Rule 2. Unknown members are ignored; the text is kept, and written again verbatim.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from changefeed.connect import java_json
from changefeed.errors import SchemaError
from changefeed.mysql.type_codes import MOST_COLUMNS
from changefeed.wire.strict_json import Number

BASES = frozenset(
    "int8 int16 int32 int64 float double boolean string bytes array map struct".split()  # noqa: SIM905 (reads as a list)
)
DECIMAL, BITS = "org.apache.kafka.connect.data.Decimal", "io.debezium.data.Bits"
_DEEPEST = 12  # the schema-change topic needs 7
_CACHED_BYTES = 1 << 20


@dataclass(frozen=True, eq=False)
class Node:
    """A schema of Kafka Connect, of a record or of one of its fields.

    Attributes:
        type: one of `BASES`.
        name: the semantic name, or "".
        default: the value that the converter may write for NULL, as a tree; None if there is none.
        field: the node's field name in its struct, or "".
        fields: the fields of a struct.
        items: the items of an array.
    """

    type: str
    optional: bool = False
    name: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    default: Any = None
    field: str = ""
    fields: tuple[Node, ...] = ()
    items: Node | None = None

    def number(self, name: str, most: int) -> int | None:
        """A parameter as a natural number up to `most`; None if it is missing or another value."""
        value = self.parameters.get(name, "")
        return int(value) if value.isdecimal() and len(value) <= 9 and int(value) <= most else None

    @cached_property
    def scale(self) -> int | None:
        """The scale of a Decimal; None for any other schema."""
        return self.number("scale", 65) if (self.type, self.name) == ("bytes", DECIMAL) else None

    @cached_property
    def bits(self) -> int | None:
        """The length of a BIT column; None for any other schema."""
        return (self.number("length", 64) or None) if (self.type, self.name) == ("bytes", BITS) else None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of a struct's fields."""
        return tuple(node.field for node in self.fields)

    @cached_property
    def identity(self) -> tuple[Any, ...]:
        """A key that is equal for equal schemas, apart from their own field names and defaults."""
        fields = tuple((node.field, node.identity) for node in self.fields)
        items = None if self.items is None else self.items.identity
        return self.type, self.optional, self.name, tuple(self.parameters.items()), fields, items

    @cached_property
    def row(self) -> Node:
        """The struct of the images in the schema of a row.

        Raises:
            SchemaError: the schema is not the schema of a row, or its images differ.
        """
        images = [self.by_name[side] for side in ("after", "before") if side in self.by_name]
        source = self.by_name.get("source")
        if not images or source is None or any(node.type != "struct" for node in (*images, source)):
            raise SchemaError("schema is not the schema of a row")
        if any(node.identity != images[0].identity for node in images):
            raise SchemaError("schema has different columns in `before` and `after`")
        return images[0]

    @cached_property
    def by_name(self) -> dict[str, Node]:
        """The fields of a struct by name."""
        return {node.field: node for node in self.fields}


def read(text: bytes) -> Node:
    """Parses the `schema` of a record in JSON; results are cached by text.

    Raises:
        ProtocolError: the block is not JSON, or not a schema.
    """
    return _cached(text) if len(text) <= _CACHED_BYTES else _read(text)


def _read(text: bytes) -> Node:
    return _node(java_json.read(text, "schema"), "schema", 0)


_cached = lru_cache(512)(_read)


def _node(tree: Any, path: str, depth: int) -> Node:
    if depth > _DEEPEST:
        raise SchemaError(f"schema is nested more than {_DEEPEST} deep")
    if not isinstance(tree, dict):
        raise SchemaError(f"schema is not an object - at `{path}`")
    base = tree.get("type")
    if type(base) is not str or base not in BASES:
        raise SchemaError(f"schema has no known type - at `{path}`")
    fields: tuple[Node, ...] = ()
    if base == "struct":
        fields = _fields(tree.get("fields"), path, depth)
    return Node(
        base,
        optional=_member(tree, "optional", bool, False, path),
        name=_member(tree, "name", str, "", path),
        parameters=_parameters(tree.get("parameters"), path),
        default=tree.get("default"),
        field=_member(tree, "field", str, "", path),
        fields=fields,
        items=_node(tree.get("items"), path + ".items", depth + 1) if base == "array" else None,
    )


def _fields(tree: Any, path: str, depth: int) -> tuple[Node, ...]:
    if not isinstance(tree, list) or len(tree) > MOST_COLUMNS:
        raise SchemaError(f"struct has no list of fields - at `{path}`")
    fields = tuple(_node(item, f"{path}.fields[{i}]", depth + 1) for i, item in enumerate(tree))
    if len({node.field for node in fields}) != len(fields):
        raise SchemaError(f"a field occurs twice, or has no name - at `{path}`")
    return fields


def _member(tree: dict[str, Any], name: str, kind: type, missing: Any, path: str) -> Any:
    value = tree.get(name)
    if value is None:
        return missing
    if type(value) is not kind or type(value) is Number:
        raise SchemaError(f"{name} is not a {'boolean' if kind is bool else 'string'} - at `{path}`")
    return value


def _parameters(tree: Any, path: str) -> Mapping[str, str]:
    if tree is None:
        return {}
    if not isinstance(tree, dict) or not all(type(value) is str for value in tree.values()):
        raise SchemaError(f"parameters are not an object of strings - at `{path}`")
    return tree
