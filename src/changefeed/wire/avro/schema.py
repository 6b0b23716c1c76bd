"""Schema text -> a tree of types. The text is untrusted.

    "long"                                                          a primitive, or the name of a type above
    {"type":"long","connect.parameters":{"tidb_type":"BIGINT"}}     the same with attributes
    ["null","long"]                                                 a union
    {"type":"record","name":"items","namespace":"default.shop","fields":[{"name":"id","type":"long","default":0}]}

Rule 1. The size of the text, nesting, and the leaves of the whole tree (a type used twice counts twice) are limited before
        any work is done, so a small schema cannot describe a huge type.
Rule 2. A recursive type is refused, so reading is never deeper than the schema, whatever the bytes contain.
Rule 3. A union is null and one other type, in either order, or one type: the value alone determines the branch.
Rule 4. Members that Avro does not define are kept as attributes; their meaning depends on the producer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from changefeed.errors import ProtocolError, SchemaError
from changefeed.wire import strict_json
from changefeed.wire.strict_json import Number

MAX_TEXT = 4_194_304
MAX_PARTS = 120_000
MAX_LEAVES = 10_000
MAX_DEPTH = 32
MAX_FIXED = 1_048_576

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_STRUCTURE = {
    "record": {"type", "name", "namespace", "fields", "doc", "aliases"},
    "enum": {"type", "name", "namespace", "symbols", "doc", "aliases"},
    "fixed": {"type", "name", "namespace", "size", "doc", "aliases"},
    "array": {"type", "items"},
    "map": {"type", "values"},
}
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_NAME = re.compile(r"[^\W\d]\w*")  # letters and digits of any script, as in Java; Avro itself allows ASCII only


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record. `attributes` contains its other members, including `default` if present."""

    name: str
    type: Type
    attributes: Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Type:
    """A type of an Avro schema.

    Attributes:
        kind: a primitive's name, or record, enum, fixed, array, map, union.
        attributes: members that Avro does not define, such as `connect.parameters`; JSON as `strict_json` reads it.
        name: full name of a record, an enum or a fixed.
        fields: fields of a record.
        symbols: symbols of an enum.
        size: size of a fixed, in bytes.
        items: type of the items of an array or a map.
        branches: branches of a union.
        leaves: number of primitive types in the type, named types counted at each use.
        empty: values of the type take no bytes.
    """

    kind: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    fields: tuple[Field, ...] = ()
    symbols: tuple[str, ...] = ()
    size: int = 0
    items: Type | None = None
    branches: tuple[Type, ...] = ()
    leaves: int = 1
    empty: bool = False

    @property
    def other(self) -> Type:
        """The branch of a union that is not null; for any other type, the type itself."""
        return next((b for b in self.branches if b.kind != "null"), self)

    @property
    def namespace(self) -> str:
        """The full name without its last part."""
        return self.name.rpartition(".")[0]


_PLAIN = {name: Type(name, empty=name == "null") for name in PRIMITIVES}


def parse(text: str) -> Type:
    """Parses the JSON text of an Avro schema.

    Raises:
        SchemaError: reason `bad-schema`: the text is not a schema, or exceeds a limit.
    """
    if len(text) > MAX_TEXT or _too_many_parts(text):
        raise _bad(f"schema is larger than {MAX_TEXT} characters or {MAX_PARTS} parts")
    try:
        tree = strict_json.read(text.encode("utf-8", "surrogatepass"), "schema")
    except ProtocolError as error:
        raise _bad(str(error)) from error
    return _Parser().type(tree, "", 0)


def _too_many_parts(text: str) -> bool:
    """Whether the text has more commas and brackets outside strings than `MAX_PARTS`."""
    if _parts(text) <= MAX_PARTS:
        return False
    return text.count('"') > 4 * MAX_PARTS or _parts(_STRING.sub("", text)) > MAX_PARTS


def _parts(text: str) -> int:
    return text.count(",") + text.count("[") + text.count("{")


class _Parser:
    def __init__(self) -> None:
        self.named: dict[str, Type | None] = {}  # None while the type itself is being parsed

    def type(self, tree: Any, namespace: str, depth: int) -> Type:
        if depth > MAX_DEPTH:
            raise _bad(f"schema is nested deeper than {MAX_DEPTH}")
        if type(tree) is str:
            return _PLAIN.get(tree) or self._reference(tree, namespace)
        if type(tree) is list:
            return self._union(tree, namespace, depth)
        if type(tree) is not dict or type(tree.get("type")) is not str:
            raise _bad(f"{_show(tree)} is not a type")
        kind = tree["type"]
        attributes = {name: value for name, value in tree.items() if name not in _STRUCTURE.get(kind, {"type"})}
        if kind in PRIMITIVES:
            return Type(kind, attributes, empty=kind == "null")
        if kind in ("array", "map"):
            return self._collection(kind, tree, attributes, namespace, depth)
        if kind in _STRUCTURE:
            return self._define(kind, tree, attributes, namespace, depth)
        if attributes:
            raise _bad(f"{kind!r:.60} is not a type")
        return self._reference(kind, namespace)

    def _reference(self, name: str, namespace: str) -> Type:
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        if full not in self.named:
            raise _bad(f"{name!r:.60} is not a type")
        known = self.named[full]
        if known is None:
            raise _bad(f"{full} contains itself")
        return known

    def _union(self, tree: list[Any], namespace: str, depth: int) -> Type:
        branches = tuple(self.type(branch, namespace, depth + 1) for branch in tree[:3])
        others = [branch for branch in branches if branch.kind != "null"]
        if not branches or len(others) != 1 or len(branches) > 2 or others[0].kind == "union":
            raise _bad(f"{_show(tree)} is not a union of null and one other type")
        return Type("union", branches=branches, leaves=others[0].leaves)

    def _collection(
        self, kind: str, tree: dict[str, Any], attributes: Mapping[str, Any], namespace: str, depth: int
    ) -> Type:
        items = self.type(tree.get("items" if kind == "array" else "values"), namespace, depth + 1)
        if items.empty and kind == "array":
            raise _bad("array has items that take no bytes")
        return Type(kind, attributes, items=items, leaves=items.leaves)

    def _define(
        self, kind: str, tree: dict[str, Any], attributes: Mapping[str, Any], namespace: str, depth: int
    ) -> Type:
        full = _full_name(tree, namespace)
        if full in self.named or full in PRIMITIVES:
            raise _bad(f"{full} is defined twice")
        self.named[full] = None
        if kind == "record":
            made = self._record(full, tree, attributes, depth)
        elif kind == "enum":
            made = Type("enum", attributes, full, symbols=_symbols(tree.get("symbols"), full))
        else:
            size = tree.get("size")
            if type(size) is not Number or not size.isdigit() or len(size) > 7 or int(size) > MAX_FIXED:
                raise _bad(f"{full} has the size {_show(size)}")
            made = Type("fixed", attributes, full, size=int(size), empty=int(size) == 0)
        self.named[full] = made
        return made

    def _record(self, full: str, tree: dict[str, Any], attributes: Mapping[str, Any], depth: int) -> Type:
        entries = tree.get("fields")
        if type(entries) is not list:
            raise _bad(f"{full} has no list of fields")
        namespace, fields, leaves = full.rpartition(".")[0], [], 0
        names: set[str] = set()
        for entry in entries:
            name = entry.get("name") if type(entry) is dict else None
            if type(name) is not str or not _NAME.fullmatch(name) or name in names:
                raise _bad(f"{full} has a field without a valid, unique name: {_show(name)}")
            names.add(name)
            kind = self.type(entry.get("type"), namespace, depth + 1)
            leaves += kind.leaves
            if leaves > MAX_LEAVES:
                raise _bad(f"{full} has more than {MAX_LEAVES} fields in total")
            fields.append(Field(name, kind, {k: v for k, v in entry.items() if k not in ("name", "type")}))
        empty = all(f.type.empty for f in fields)
        return Type("record", attributes, full, tuple(fields), leaves=max(leaves, 1), empty=empty)


def _full_name(tree: dict[str, Any], namespace: str) -> str:
    name, space = tree.get("name"), tree.get("namespace", namespace)
    if type(name) is not str or type(space) is not str:
        raise _bad(f"{_show(name)} is not the name of a type")
    full = name if "." in name or not space else f"{space}.{name}"
    if not _NAME.fullmatch(full.rpartition(".")[2]):  # a namespace may be any text: Java does not check it
        raise _bad(f"{full!r:.60} is not the name of a type")
    return full


def _symbols(names: Any, full: str) -> tuple[str, ...]:
    if type(names) is not list or not all(type(name) is str for name in names) or len(set(names)) != len(names):
        raise _bad(f"{full} has no list of distinct symbols")
    return tuple(names)


def _show(value: Any) -> str:
    text = str(value) if type(value) is Number else repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _bad(message: str) -> SchemaError:
    return SchemaError(message, reason="bad-schema")
