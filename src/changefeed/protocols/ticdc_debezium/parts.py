"""Reads keys and values: JSON documents with a payload and, unless it is switched off, its schema.

    {"payload":{…},"schema":{"type":"struct",…}}        {"payload":{…}}
     parsed each time        text: what it means is looked up, see `schema`

Rule 1. The schema stays text. Records of one table repeat it byte for byte, so that it is parsed once and not per record.
Rule 2. Producers write the payload first and no white space: the text is cut in two. `,"schema":{` cannot stand inside of a
        payload's string (its quotes would be escaped), and if it stands at another place, the halves are not JSON.
Rule 3. Members in another order, or with white space, are read as well; the schema's text is then written again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

from changefeed.errors import ProtocolError, SchemaError
from changefeed.wire import strict_json
from changefeed.wire.go_json import W_RAW
from changefeed.wire.json_form import mapping, refuse_others
from changefeed.wire.strict_json import REPLACED, Number

_OPENING, _JOINT = b'{"payload":', b',"schema":{'
_MEMBERS = frozenset({"payload", "schema"})


LONGEST_KEPT = 1 << 18  # characters of a schema that is worth remembering
_Meaning = TypeVar("_Meaning")


def by_text(function: Callable[[str], _Meaning]) -> Callable[[str], _Meaning]:
    """Caches the results of a function of a schema's text, for the latest texts."""
    remembered = lru_cache(maxsize=256)(function)
    return lambda text: (remembered if len(text) <= LONGEST_KEPT else function)(text)


@dataclass(frozen=True, slots=True)
class Document:
    """A key or a value: its payload, and the text of its schema, None without one."""

    payload: dict[str, Any]
    schema: str | None


def read(data: bytes, what: str) -> Document:
    """Parses a document; `what` is `key` or `value`.

    Raises:
        ProtocolError: the data is not JSON, or not a document.
    """
    return _halves(data, what) or _whole(data, what)


def _halves(data: bytes, what: str) -> Document | None:
    cut = data.find(_JOINT)
    if cut < 0 or not data.startswith(_OPENING) or not data.endswith(b"}}"):
        return None
    try:
        payload = strict_json.read(data[len(_OPENING) : cut], what)
        schema = data[cut + len(_JOINT) - 1 : -1].decode()
    except (ProtocolError, UnicodeDecodeError):
        return None
    return Document(_payload(payload, what), schema) if _is_json(schema) else None


@by_text
def _is_json(schema: str) -> bool:
    try:
        strict_json.read(schema.encode(), "schema")
    except ProtocolError:
        return False
    return True


def _whole(data: bytes, what: str) -> Document:
    members = mapping(strict_json.read(data, what), what)
    refuse_others(members, _MEMBERS, what)
    if "payload" not in members:
        raise SchemaError(f"{what} has no payload")
    payload = _payload(members["payload"], what)
    if members.get("schema") is None:
        return Document(payload, None)
    try:
        schema = text_of(mapping(members["schema"], "schema", "schema"))
        schema.encode()
    except UnicodeEncodeError as error:
        raise SchemaError(f"schema of the {what} is not UTF-8") from error
    except RecursionError as error:
        raise SchemaError(f"schema of the {what} is nested too deeply") from error
    return Document(payload, schema)


def _payload(value: Any, what: str) -> dict[str, Any]:
    return mapping(value, f"payload of the {what}", "payload")


def text_of(value: Any) -> str:
    """Formats a value that was read as JSON: numbers verbatim, no white space."""
    if type(value) is Number:
        return str(value)
    if type(value) is str:
        return W_RAW.string(value.replace(REPLACED, "\ufffd"))
    if type(value) is dict:
        return "{" + ",".join(f"{text_of(name)}:{text_of(item)}" for name, item in value.items()) + "}"
    if type(value) is list:
        return "[" + ",".join(map(text_of, value)) + "]"
    return json.dumps(value)
