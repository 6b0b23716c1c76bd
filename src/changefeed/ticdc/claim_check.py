"""Claim checks: a row too large for Kafka lies in a file, and its message carries the file's place.

Rule 1. The place comes from outside: only its last part is used, as a plain file name in the configured store.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Callable

from changefeed.errors import ProtocolError

_FILE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,254}", re.ASCII)


def fetch(name: str, get: Callable[[str], bytes] | None, limit: int) -> bytes:
    """What the file of this name holds.

    Raises:
        ProtocolError: reason `claim-check`: no store, no such file, or a larger one than `limit`.
    """
    if get is None:
        raise failed(f'row lies in the claim-check file {name}: set option "claim-check-storage-uri" to read it')
    try:
        body = get(name)
    except FileNotFoundError as error:
        raise failed(f"claim-check file {name} is not in the store") from error
    if len(body) > limit:
        raise failed(f'claim-check file {name} has {len(body)} bytes, above option "claim-check-max-bytes" {limit}')
    return body


def file_name(location: str, member: str) -> str:
    """The file's name in a location, which is what follows the last slash; `member` is where the message has it.

    Raises:
        ProtocolError: reason `claim-check`: that is not a plain file name.
    """
    name = location.rsplit("/", 1)[-1]
    if not _FILE.fullmatch(name):
        raise failed(f"{name[:60]!r} is not a plain name of a claim-check file - at `{member}`")
    return name


def new_file_name(content: bytes) -> str:
    """`<uuid v4>.json`, made of the content: the same row sent again is the same file."""
    return f"{uuid.UUID(bytes=hashlib.sha256(content).digest()[:16], version=4)}.json"


def failed(text: str) -> ProtocolError:
    """The error of a claim check."""
    return ProtocolError(text, reason="claim-check")
