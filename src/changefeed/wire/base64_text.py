"""Base64 as TiCDC writes it: standard alphabet, padded, without line breaks or other characters.

Bytes that are usually text are shown in JSON as that text, and as `{"base64": …}` if they are not UTF-8.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from changefeed.errors import SchemaError


def read(text: str) -> bytes:
    """Decodes base64 with the standard alphabet and its padding.

    Raises:
        SchemaError: the text is not base64.
    """
    try:
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error) as error:
        raise SchemaError(f"{text[:40]!r} is not base64") from error


def write(data: bytes) -> str:
    """Encodes bytes as base64 with the standard alphabet and padding."""
    return base64.b64encode(data).decode("ascii")


def show(data: bytes) -> Any:
    """Returns bytes as their text, or as `{"base64": …}`."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": write(data)}


def hide(shown: Any) -> bytes:
    """Returns the bytes that `show` has shown."""
    return read(shown["base64"]) if isinstance(shown, dict) else str(shown).encode()
