"""Claim checks: a row too large for Kafka lies in a file, its message carries the file's place in `_tidb.claimCheckLocation`.

    message   {… "data":[{<handle key>}],"_tidb":{"commitTs":…,"claimCheckLocation":"s3://bucket/<uuid>.json"}}
    file      {"key":null,"value":"<base64>"}, or the value alone with claim-check-raw-value

Rule 1. The place comes from outside: only its last part is used, as a plain file name in the configured store.
Rule 2. The file must tell of the same event as the message: equal table, type and commit_ts, and be the whole row.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Callable
from typing import Any

from changefeed.errors import ProtocolError
from changefeed.protocols.canal_json.message import Extension, Message
from changefeed.protocols.canal_json.options import Options
from changefeed.wire import base64_text, strict_json

_FILE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,254}", re.ASCII)


def read(location: str, get: Callable[[str], bytes] | None, options: Options) -> bytes:
    """The value that the file at `location` holds.

    Raises:
        ProtocolError: reason `claim-check`: no store, no such file, or not what a claim-check file is.
    """
    name, limit = file_name(location), options.claim_check_max_bytes
    if get is None:
        raise _failed(f'row lies in the claim-check file {name}: set option "claim-check-storage-uri" to read it')
    try:
        body = get(name)
    except FileNotFoundError as error:
        raise _failed(f"claim-check file {name} is not in the store") from error
    if len(body) > limit:
        raise _failed(f'claim-check file {name} has {len(body)} bytes, above option "claim-check-max-bytes" {limit}')
    try:
        return body if options.claim_check_raw_value else _value(body)
    except ProtocolError as error:
        raise _failed(f"claim-check file {name}: {error}") from error


def _value(content: bytes) -> bytes:
    found: Any = strict_json.read(content, "content")
    if type(found) is not dict or found.keys() != {"key", "value"} or type(found["value"]) is not str:
        raise ProtocolError("content has not exactly the members key and value")
    return base64_text.read(found["value"])


def file_name(location: str) -> str:
    """The file's name in a location: what follows the last slash.

    Raises:
        ProtocolError: that is no plain file name.
    """
    name = location.rsplit("/", 1)[-1]
    if not _FILE.fullmatch(name):
        raise _failed(f"{name[:60]!r} is no plain name of a claim-check file - at `_tidb.claimCheckLocation`")
    return name


def check_same(sent: Message, stored: Message) -> None:
    """Checks that the file is about the row that the message announces.

    Raises:
        ProtocolError: it is not.
    """
    extension = stored.extension or Extension()
    if stored.is_ddl or extension.claim_check is not None or extension.only_handle_key:
        raise _failed("claim-check file does not hold a whole row")
    for what in ("database", "table", "type", "es"):
        if getattr(sent, what) != getattr(stored, what):
            raise _failed(f"claim-check file has {what} {getattr(stored, what)!r}, its message {getattr(sent, what)!r}")
    told, found = (sent.extension or Extension()).commit_ts, extension.commit_ts
    if told != found:
        raise _failed(f"claim-check file has commitTs {found}, its message {told}")


def body(value: bytes, *, raw: bool) -> bytes:
    """The file that holds a value."""
    return value if raw else f'{{"key":null,"value":"{base64_text.write(value)}"}}'.encode()


def new_file_name(content: bytes) -> str:
    """`<uuid v4>.json`, made of the content: the same row sent again is the same file."""
    return f"{uuid.UUID(bytes=hashlib.sha256(content).digest()[:16], version=4)}.json"


def _failed(text: str) -> ProtocolError:
    return ProtocolError(text, reason="claim-check")
