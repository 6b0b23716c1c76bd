"""Claim checks: a row that is too large for Kafka is in a file; `ccl` of its message is the file's path.

    file    {"key":"<base64>","value":"<base64>"}      key and value framed as in a Kafka record of one message

Rule 1. The file must contain the event of the message: equal ts, schema and table, and no `ccl` of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from changefeed.errors import ProtocolError
from changefeed.protocols.ticdc_open.envelope import ROW, EventKey
from changefeed.protocols.ticdc_open.framing import EventFrame, split
from changefeed.ticdc import claim_check
from changefeed.wire import base64_text, strict_json


def read(key: EventKey, get: Callable[[str], bytes] | None, limit: int) -> EventFrame:
    """Reads the single message in the claim-check file `key.ccl`.

    Raises:
        ProtocolError: reason `claim-check`: there is no store or no such file, or it is not a claim-check file.
    """
    name = file_name(key.ccl or "")
    body = claim_check.fetch(name, get, limit)
    try:
        messages = split(*_framed(body))
    except ProtocolError as error:
        raise claim_check.failed(f"claim-check file {name}: {error}") from error
    if len(messages) != 1:
        raise claim_check.failed(f"claim-check file {name} holds {len(messages)} messages, expected 1")
    return messages[0]


def file_name(location: str) -> str:
    """Returns the name of the file in `ccl`: the text after the last slash.

    Raises:
        ProtocolError: the text is not a plain file name.
    """
    return claim_check.file_name(location, "ccl")


def check_same(message: EventKey, stored: EventKey) -> None:
    """Checks that the file contains the row that the message announces."""
    if stored.kind != ROW or stored.ccl is not None or stored.ohk:
        raise claim_check.failed("claim-check file does not hold a whole row")
    for what in ("ts", "schema", "table"):
        sent, actual = getattr(message, what), getattr(stored, what)
        if sent != actual:
            raise claim_check.failed(f"claim-check file has {what} {actual!r}, its message {sent!r}")


def body(key: bytes, value: bytes) -> bytes:
    """Returns the content of the claim-check file for a framed key and value."""
    return f'{{"key":"{base64_text.write(key)}","value":"{base64_text.write(value)}"}}'.encode()


def _framed(content: bytes) -> tuple[bytes, bytes]:
    members: Any = strict_json.read(content, "content")
    if (
        type(members) is not dict
        or members.keys() != {"key", "value"}
        or any(type(v) is not str for v in members.values())
    ):
        raise ProtocolError("content must have exactly the members key and value, both strings")
    return base64_text.read(members["key"]), base64_text.read(members["value"])
