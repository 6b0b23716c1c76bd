"""Base64 as TiCDC writes it: standard alphabet, padded, nothing else in between."""

from __future__ import annotations

import base64
import binascii

from changefeed.errors import SchemaError


def read(text: str) -> bytes:
    """The bytes that the text stands for.

    Raises:
        SchemaError: it is not base64.
    """
    try:
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error) as error:
        raise SchemaError(f"{text[:40]!r} is not base64") from error


def write(data: bytes) -> str:
    """The text that stands for the bytes."""
    return base64.b64encode(data).decode("ascii")
