"""Converts between record headers and the origin's `headers` and `context`.

    __debezium.newkey | __debezium.oldkey          {"schema":{…Key…},"payload":{"id":2003}}    a key that changed
    __debezium.context.connectorLogicalName        {"schema":{"type":"string","optional":false},"payload":"srv1"}
    __debezium.context.taskId                      … "0"
    __debezium.context.connectorName               … "mysql"
    __debezium.context.runId                       … a UUID

Rule 1. The four context headers, in this order and at the end, are the origin's `context`: those of their values that the
        source block does not have, and `"schemas":false` where they are without schema.
Rule 2. All other headers are the origin's `headers`, word for word: [name, text], or [name, {"base64": …}].
"""

from __future__ import annotations

from typing import Any

from changefeed.columnar.records import Headers
from changefeed.connect import java_json
from changefeed.wire import base64_text

NEW_KEY, OLD_KEY = "__debezium.newkey", "__debezium.oldkey"
_CONTEXT = "__debezium.context."
_OP = "__op"
_NAMES = ("connectorLogicalName", "taskId", "connectorName", "runId")
_FROM_SOURCE = {"connectorLogicalName": "name", "connectorName": "connector"}
_OPENING = '{"schema":{"type":"string","optional":false},"payload":'


def read(headers: Headers, source: dict[str, Any]) -> dict[str, Any]:
    """Returns the members of the origin for these headers."""
    context = _context(headers[-4:], source) if len(headers) >= 4 else None
    others = headers if context is None else headers[:-4]
    members: dict[str, Any] = {}
    if others:
        members["headers"] = [[name, None if value is None else base64_text.show(value)] for name, value in others]
    if context is not None:
        members["context"] = context
    return members


def _context(headers: Headers, source: dict[str, Any]) -> dict[str, Any] | None:
    if [name for name, _ in headers] != [_CONTEXT + name for name in _NAMES]:
        return None
    values = [(value or b"").decode("utf-8", "replace") for _, value in headers]
    wrapped = values[0].startswith(_OPENING)
    texts = [_unwrapped(value, wrapped) for value in values]
    context: dict[str, Any] = {} if wrapped else {"schemas": False}
    for name, text in zip(_NAMES, texts, strict=True):
        if text is None:
            return None
        if name not in _FROM_SOURCE or text != source.get(_FROM_SOURCE[name]):
            context[name] = text
    return context if _headers(context, source) == headers else None


def _unwrapped(value: str, wrapped: bool) -> str | None:
    inside = value.removeprefix(_OPENING).removesuffix("}") if wrapped else value
    if not (inside.startswith('"') and inside.endswith('"')) or "\\" in inside:
        return None
    return inside[1:-1]


def _headers(context: dict[str, Any], source: dict[str, Any]) -> Headers:
    opening, closing = ("", "") if context.get("schemas") is False else (_OPENING, "}")
    values = [context.get(name, source.get(_FROM_SOURCE.get(name, ""), "")) for name in _NAMES]
    return tuple(
        (_CONTEXT + name, f"{opening}{java_json.string(str(value))}{closing}".encode())
        for name, value in zip(_NAMES, values, strict=True)
    )


def write(origin: dict[str, Any]) -> Headers:
    """Returns the headers for an origin."""
    others = tuple(
        (name, None if value is None else base64_text.hide(value)) for name, value in origin.get("headers", ())
    )
    context = origin.get("context")
    return others if context is None else (*others, *_headers(context, origin))


def of_tombstone(headers: Headers) -> Headers:
    """Returns the headers of a tombstone whose delete has no envelope: the transform adds the header of the op again."""
    again = (
        (name, value.replace(b'"optional":true', b'"optional":false', 1))
        for name, value in headers
        if name == _OP and value
    )
    return (*headers, *again)
