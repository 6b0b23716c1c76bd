"""Keys, values and headers: a payload with its schema before it, with a schema id, or without a schema.

    {"schema":{…},"payload":{…}}      JSON, schemas.enable=true: the schema's bytes are cut out and parsed separately
    {…}                               JSON, schemas.enable=false
    00 │ 00 00 00 07 │ datum          Avro: the schema is in the schema registry under its id
    Struct{id=1}   1                  a key by another converter, such as StringConverter: its bytes

JSON never begins with 00. A payload that happens to have the members `schema` and `payload` is recognized because its
`schema` is not a schema.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec

from changefeed.connect import avro_form, java_json, schema
from changefeed.connect.schema import Node
from changefeed.errors import ConfigError, ProtocolError, SchemaError, UnsupportedError
from changefeed.wire import avro, confluent
from changefeed.wire.schema_ids import GetSchema, RegisterSchema, SchemaIds

NULL = b'{"schema":null,"payload":null}'  # no key or no value, as converters wrote it before KAFKA-3832
NO_REGISTRY = 'the record is Avro: set option "schema-registry" to read its schema'
_SCHEMAS = 1024


class _Wrapped(msgspec.Struct, forbid_unknown_fields=True):
    schema: msgspec.Raw
    payload: msgspec.Raw


_unwrap = msgspec.json.Decoder(_Wrapped).decode


@dataclass(frozen=True, slots=True)
class Block:
    """The format of a part, and its schema.

    Attributes:
        text: the Connect schema of JSON, or the Avro schema; "" without a schema.
        avro: the part is Avro.
        id: the id of the Avro schema in the schema registry, or None.
        raw: the part is its bytes.
    """

    text: str = ""
    avro: bool = False
    id: int | None = None
    raw: bool = False


PLAIN, RAW = Block(), Block(raw=True)


@dataclass(frozen=True, slots=True)
class ConnectPart:
    """A key or a value: its tree, or its bytes if it is `raw`; its parsed schema (None without one), and its format."""

    payload: Any
    schema: Node | None = None
    block: Block = PLAIN

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the members; None if the part is not an object."""
        return tuple(self.payload) if isinstance(self.payload, dict) else None


class PartReader:
    """Reads parts, and caches schemas. `get_schema`: id -> text, or None without a schema registry."""

    def __init__(self, get_schema: GetSchema | None) -> None:
        self._get = get_schema
        self._compiled = lru_cache(_SCHEMAS)(self._compile)

    def read(self, data: bytes, what: str) -> ConnectPart:
        """Reads a key or value: JSON with or without a schema, or Avro after a schema id. `what` names it in errors.

        Raises:
            ProtocolError: the bytes are not a part, or payload and schema contradict each other.
            SchemaRegistryError: the schema registry cannot be reached.
        """
        if data[:1] == b"\0":
            return self._datum(data, what)
        if b'"schema"' in data[:64] or b'"payload"' in data[:64]:
            try:
                wrapped = _unwrap(data)
            except (msgspec.DecodeError, RecursionError, UnicodeError):
                pass  # not such an object; if it is not JSON either, the reader below reports the error
            else:
                block = bytes(wrapped.schema)
                if block.startswith(b'{"'):
                    return _wrapped(block, bytes(wrapped.payload), data, what)
        tree = java_json.read(data, what)
        if not isinstance(tree, dict):
            raise SchemaError(f"{what} is not an object")
        return ConnectPart(tree)

    def read_key(self, data: bytes) -> ConnectPart:
        """Reads a key: as `read`, or as its bytes if it can only be of another converter.

        Raises:
            ProtocolError: as `read`.
            SchemaRegistryError: as `read`.
        """
        if data == NULL or data[:1] not in (b"\0", b"{", b""):
            return ConnectPart(data, None, RAW)
        return self.read(data, "key")

    def _datum(self, data: bytes, what: str) -> ConnectPart:
        schema_id, cursor = confluent.open_datum(data, what)
        compiled = self._compiled(schema_id)
        if isinstance(compiled, ProtocolError):
            raise SchemaError(str(compiled), reason=compiled.reason)
        t, node, text, read = compiled
        tree = avro_form.tree(read(cursor), t)
        cursor.finish()
        return ConnectPart(tree, node, Block(text, True, schema_id))

    def _compile(self, schema_id: int) -> tuple[avro.Type, Node, str, avro.Read] | ProtocolError:
        """Returns the schema and its reader, or the error if it is invalid. The error is cached too; an unknown id is not."""
        if self._get is None:
            return SchemaError(NO_REGISTRY, reason="unknown-schema")
        try:
            text = self._get(schema_id)
            t = avro.parse(text)
            return t, avro_form.node(t), text, avro.reader(t)
        except LookupError as error:
            raise SchemaError(f"schema {schema_id} is not in the schema registry", reason="unknown-schema") from error
        except ProtocolError as error:
            return error


def _wrapped(block: bytes, payload: bytes, data: bytes, what: str) -> ConnectPart:
    node = schema.read(block)
    try:
        tree = java_json.read(payload, what)
    except ProtocolError as error:
        at = data.rfind(payload) + (error.byte or 0)
        raise type(error)(str(error), reason=error.reason, byte=at) from error
    if node.type == "struct":
        check_struct(tree, node, what)
    text = block.decode()
    if "\n" in text or "\r" in text:  # the wire text of a shape is a single line
        text = java_json.write(java_json.read(block, "schema"))
        node = schema.read(text.encode())
    return ConnectPart(tree, node, Block(text))


def check_struct(tree: Any, node: Node, path: str) -> None:
    """Checks that a tree has exactly the members of a struct, at the first level only.

    Raises:
        SchemaError: a member is missing or unknown.
    """
    if tree is None and node.optional:
        return
    if not isinstance(tree, dict):
        raise SchemaError(f"{path} is not an object")
    if tree.keys() != node.by_name.keys():
        name = sorted(tree.keys() ^ node.by_name.keys())[0]
        where = "schema" if name in node.by_name else "payload"
        raise SchemaError(f"{path} has {name!r:.60} only in its {where}")


def schema_id(value: bytes | None) -> int | None:
    """The schema id of a value in Avro; None for any other value."""
    if value is None or value[:1] != b"\0" or len(value) < confluent.HEADER:
        return None
    return confluent.open_datum(value, "value")[0]


def node_of(block: Block) -> Node:
    """Parses the schema of a block, which must have one."""
    return avro_form.node(avro.parse(block.text)) if block.avro else schema.read(block.text.encode())


# (tree, block, subject) -> bytes
Write = Callable[[Any, Block, str], bytes]


class PartWriter:
    """Writes parts; `protocol` is the prefix of errors."""

    def __init__(self, protocol: str, get_schema: GetSchema | None, register_schema: RegisterSchema | None) -> None:
        self._protocol = protocol
        self._ids = SchemaIds(get_schema, register_schema) if get_schema and register_schema else None
        self._compiled = lru_cache(_SCHEMAS)(_compiled)

    def write(self, tree: Any, block: Block, subject: str) -> bytes:
        """Encodes a part; an unknown schema is registered under `subject`.

        Raises:
            ConfigError: the block is Avro, and there is no schema registry.
            UnsupportedError: the tree does not match the schema.
            SchemaRegistryError: the schema registry refuses a schema or cannot be reached.
        """
        if block.avro:
            t, write = self._compiled(block.text)
            if self._ids is None:
                raise ConfigError('Avro records need a schema registry: set option "schema-registry"')
            out = bytearray(confluent.header(self._ids.id(subject, block.text, block.id)))
            try:
                write(avro_form.datum(tree, t), out)
            except UnsupportedError as error:
                raise UnsupportedError(f"{self._protocol}: {subject}: {error}") from error
            return bytes(out)
        if block.raw:
            return bytes(tree)
        if block.text:
            return f'{{"schema":{block.text},"payload":{java_json.write(tree)}}}'.encode()
        return java_json.write(tree).encode()


def _compiled(text: str) -> tuple[avro.Type, avro.Write]:
    t = avro.parse(text)
    return t, avro.writer(t)
