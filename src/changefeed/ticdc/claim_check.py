"""Claim checks: a row too large for Kafka is stored in a file, and its message contains the file's location.

Rule 1. The location is untrusted: only its last part is used, as a plain file name in the configured store.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Callable

from changefeed.errors import ProtocolError

_FILE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,254}", re.ASCII)


def fetch(name: str, get: Callable[[str], bytes] | None, limit: int) -> bytes:
    """Returns the content of the file `name`.

    Raises:
        ProtocolError: reason `claim-check`: no store, no such file, or more than `limit` bytes.
    """
    if get is None:
        raise failed(f'row is in the claim-check file {name}: set option "claim-check-storage-uri" to read it')
    try:
        body = get(name)
    except FileNotFoundError as error:
        raise failed(f"claim-check file {name} is not in the store") from error
    if len(body) > limit:
        raise failed(f'claim-check file {name} has {len(body)} bytes, above option "claim-check-max-bytes" {limit}')
    return body


def file_name(location: str, member: str) -> str:
    """Returns the part of a location after the last slash; `member` is the path of the location in the message.

    Raises:
        ProtocolError: reason `claim-check`: that is not a plain file name.
    """
    name = location.rsplit("/", 1)[-1]
    if not _FILE.fullmatch(name):
        raise failed(f"{name[:60]!r} is not a plain name of a claim-check file - at `{member}`")
    return name


def new_file_name(content: bytes) -> str:
    """Returns `<uuid v4>.json`, derived from the content: the same row sent again gets the same file."""
    return f"{uuid.UUID(bytes=hashlib.sha256(content).digest()[:16], version=4)}.json"


def failed(text: str) -> ProtocolError:
    """Builds the ProtocolError with reason `claim-check`."""
    return ProtocolError(text, reason="claim-check")
