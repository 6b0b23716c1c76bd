"""Keys, values and headers: each is a payload, with its schema in front or without.

    {"schema":{…},"payload":{…}}      schemas.enable=true: the schema's bytes are cut out, and read by themselves
    {…}                               schemas.enable=false

A payload that happens to have members `schema` and `payload` is told by its `schema`, which is no schema then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from changefeed.errors import ProtocolError, SchemaError
from changefeed.protocols.debezium_mysql import java_json, schema
from changefeed.protocols.debezium_mysql.schema import Node


class _Wrapped(msgspec.Struct, forbid_unknown_fields=True):
    schema: msgspec.Raw
    payload: msgspec.Raw


_unwrap = msgspec.json.Decoder(_Wrapped).decode


@dataclass(frozen=True, slots=True)
class Part:
    """A key, a value or a header.

    Attributes:
        payload: the tree.
        schema: what the schema says, None without one.
        text: the schema's bytes as text, "" without one.
    """

    payload: Any
    schema: Node | None = None
    text: str = ""


def read(data: bytes, what: str) -> Part:
    """The part that `data` holds.

    Raises:
        ProtocolError: it is not JSON, or payload and schema do not fit.
    """
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
        raise SchemaError(f"{what} is no object")
    return Part(tree)


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
    return Part(tree, node, text)


def check_struct(tree: Any, node: Node, path: str) -> None:
    """Checks that a tree has the members of a struct, of the first level.

    Raises:
        SchemaError: it has others.
    """
    if tree is None and node.optional:
        return
    if not isinstance(tree, dict):
        raise SchemaError(f"{path} is no object")
    if tree.keys() != node.by_name.keys():
        odd = sorted(tree.keys() ^ node.by_name.keys())[0]
        where = "schema" if odd in node.by_name else "payload"
        raise SchemaError(f"{path} has {odd!r:.60} in its {where} only")


def write(payload: Any, text: str) -> bytes:
    """The bytes of a part."""
    if text:
        return f'{{"schema":{text},"payload":{java_json.write(payload)}}}'.encode()
    return java_json.write(payload).encode()
