"""Claim checks: a row that is too large for Kafka is in a file; `_tidb.claimCheckLocation` of its message is the file's path.

    message   {… "data":[{<handle key>}],"_tidb":{"commitTs":…,"claimCheckLocation":"s3://bucket/<uuid>.json"}}
    file      {"key":null,"value":"<base64>"}, or the value alone with claim-check-raw-value

Rule 1. The file must contain the event of the message: equal table, type and commit_ts, and the complete row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from changefeed.errors import ProtocolError
from changefeed.protocols.canal_json.envelope import CanalMessage, Extension
from changefeed.protocols.canal_json.options import Options
from changefeed.ticdc import claim_check
from changefeed.wire import base64_text, strict_json


def read(location: str, get: Callable[[str], bytes] | None, options: Options) -> bytes:
    """Reads the value in the claim-check file at `location`.

    Raises:
        ProtocolError: reason `claim-check`: there is no store or no such file, or it is not a claim-check file.
    """
    name = file_name(location)
    content = claim_check.fetch(name, get, options.claim_check_max_bytes)
    try:
        return content if options.claim_check_raw_value else _value(content)
    except ProtocolError as error:
        raise claim_check.failed(f"claim-check file {name}: {error}") from error


def _value(content: bytes) -> bytes:
    members: Any = strict_json.read(content, "content")
    if type(members) is not dict or members.keys() != {"key", "value"} or type(members["value"]) is not str:
        raise ProtocolError("content must have exactly the members key and value")
    return base64_text.read(members["value"])


def file_name(location: str) -> str:
    """Returns the name of the file in a location: the text after the last slash.

    Raises:
        ProtocolError: the text is not a plain file name.
    """
    return claim_check.file_name(location, "_tidb.claimCheckLocation")


def check_same(sent: CanalMessage, stored: CanalMessage) -> None:
    """Checks that the file contains the row that the message announces.

    Raises:
        ProtocolError: the file contains another row.
    """
    extension = stored.extension or Extension()
    if stored.is_ddl or extension.claim_check is not None or extension.only_handle_key:
        raise claim_check.failed("claim-check file does not hold a whole row")
    for what in ("database", "table", "type", "es"):
        if getattr(sent, what) != getattr(stored, what):
            raise claim_check.failed(
                f"claim-check file has {what} {getattr(stored, what)!r}, its message {getattr(sent, what)!r}"
            )
    expected, actual = (sent.extension or Extension()).commit_ts, extension.commit_ts
    if expected != actual:
        raise claim_check.failed(f"claim-check file has commitTs {actual}, its message {expected}")


def body(value: bytes, *, raw: bool) -> bytes:
    """Returns the content of the claim-check file for a value."""
    return value if raw else f'{{"key":null,"value":"{base64_text.write(value)}"}}'.encode()
