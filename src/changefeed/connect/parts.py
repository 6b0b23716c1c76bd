"""Keys, values and headers: each is a payload, with its schema in front, behind an id, or without one.

    {"schema":{…},"payload":{…}}      JSON, schemas.enable=true: the schema's bytes are cut out, and read by themselves
    {…}                               JSON, schemas.enable=false
    00 │ 00 00 00 07 │ datum          Avro: the schema is in the schema registry under its id

No JSON begins with 00. A payload that happens to have members `schema` and `payload` is told by its `schema`, which is
no schema then.
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

NO_REGISTRY = 'option "schema-registry" is not set, and the record is Avro'
_SCHEMAS = 1024


class _Wrapped(msgspec.Struct, forbid_unknown_fields=True):
    schema: msgspec.Raw
    payload: msgspec.Raw


_unwrap = msgspec.json.Decoder(_Wrapped).decode


@dataclass(frozen=True, slots=True)
class Block:
    """How a part tells its schema.

    Attributes:
        text: of the Connect schema in front of JSON, or of the Avro schema; "" without a schema.
        avro: the part is Avro.
        id: under which the Avro schema was found, or None.
    """

    text: str = ""
    avro: bool = False
    id: int | None = None


PLAIN = Block()


@dataclass(frozen=True, slots=True)
class Part:
    """A key or a value: its tree, and what its schema says, None without one."""

    payload: Any
    schema: Node | None = None
    block: Block = PLAIN


class Reader:
    """Reads parts; remembers schemas. `get_schema`: id -> text, or None without a schema registry."""

    def __init__(self, get_schema: GetSchema | None) -> None:
        self._get = get_schema
        self._understood = lru_cache(_SCHEMAS)(self._understand)

    def read(self, data: bytes, what: str) -> Part:
        """The part that `data` holds.

        Raises:
            ProtocolError: it is none, or payload and schema do not fit.
            SchemaRegistryError: the schema registry cannot be asked.
        """
        if data[:1] == b"\0":
            return self._datum(data, what)
        if b'"schema"' in data[:64] or b'"payload"' in data[:64]:
            try:
                wrapped = _unwrap(data)
            except (msgspec.DecodeError, RecursionError, UnicodeError):
                pass  # no such object; or no JSON, and then the error is found below
            else:
                block = bytes(wrapped.schema)
                if block.startswith(b'{"'):
                    return _wrapped(block, bytes(wrapped.payload), data, what)
        tree = java_json.read(data, what)
        if not isinstance(tree, dict):
            raise SchemaError(f"{what} is not an object")
        return Part(tree)

    def _datum(self, data: bytes, what: str) -> Part:
        schema_id, cursor = confluent.open_datum(data, what)
        found = self._understood(schema_id)
        if isinstance(found, ProtocolError):
            raise SchemaError(str(found), reason=found.reason)
        t, node, text, read = found
        tree = avro_form.tree(read(cursor), t)
        cursor.finish()
        return Part(tree, node, Block(text, True, schema_id))

    def _understand(self, schema_id: int) -> tuple[avro.Type, Node, str, avro.Read] | ProtocolError:
        """The schema and its reader, or why it is none: that is remembered too, an unknown id is not."""
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


def _wrapped(block: bytes, payload: bytes, data: bytes, what: str) -> Part:
    node = schema.read(block)
    try:
        tree = java_json.read(payload, what)
    except ProtocolError as error:
        at = data.rfind(payload) + (error.byte or 0)
        raise type(error)(str(error), reason=error.reason, byte=at) from error
    if node.type == "struct":
        check_struct(tree, node, what)
    text = block.decode()
    if "\n" in text or "\r" in text:  # a shape's wire text has one line
        text = java_json.write(java_json.read(block, "schema"))
        node = schema.read(text.encode())
    return Part(tree, node, Block(text))


def check_struct(tree: Any, node: Node, path: str) -> None:
    """Checks that a tree has the members of a struct, of the first level.

    Raises:
        SchemaError: it has others.
    """
    if tree is None and node.optional:
        return
    if not isinstance(tree, dict):
        raise SchemaError(f"{path} is not an object")
    if tree.keys() != node.by_name.keys():
        odd = sorted(tree.keys() ^ node.by_name.keys())[0]
        where = "schema" if odd in node.by_name else "payload"
        raise SchemaError(f"{path} has {odd!r:.60} in its {where} only")


def schema_id(value: bytes | None) -> int | None:
    """The id of the schema of a value in Avro."""
    if value is None or value[:1] != b"\0" or len(value) < confluent.HEADER:
        return None
    return confluent.open_datum(value, "value")[0]


def node_of(block: Block) -> Node:
    """What the schema of a block with text says."""
    return avro_form.node(avro.parse(block.text)) if block.avro else schema.read(block.text.encode())


# (tree, block, subject) -> bytes
Write = Callable[[Any, Block, str], bytes]


class Writer:
    """Writes parts of a `protocol`, which its errors name."""

    def __init__(self, protocol: str, get_schema: GetSchema | None, register_schema: RegisterSchema | None) -> None:
        self._protocol = protocol
        self._ids = SchemaIds(get_schema, register_schema) if get_schema and register_schema else None
        self._compiled = lru_cache(_SCHEMAS)(_compiled)

    def write(self, tree: Any, block: Block, subject: str) -> bytes:
        """The bytes of a part; `subject` is where a schema is registered that is not known.

        Raises:
            UnsupportedError: the tree is not of the schema.
            SchemaRegistryError: the schema registry refuses a schema or cannot be asked.
        """
        if block.avro:
            t, write = self._compiled(block.text)
            if self._ids is None:
                raise ConfigError('option "schema-registry" is not set, and records are to be Avro')
            out = bytearray(confluent.header(self._ids.id(subject, block.text, block.id)))
            try:
                write(avro_form.datum(tree, t), out)
            except UnsupportedError as error:
                raise UnsupportedError(f"{self._protocol}: {subject}: {error}") from error
            return bytes(out)
        if block.text:
            return f'{{"schema":{block.text},"payload":{java_json.write(tree)}}}'.encode()
        return java_json.write(tree).encode()


def _compiled(text: str) -> tuple[avro.Type, avro.Write]:
    t = avro.parse(text)
    return t, avro.writer(t)
