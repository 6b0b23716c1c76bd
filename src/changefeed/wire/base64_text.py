"""Base64 as TiCDC writes it: standard alphabet, padded, without line breaks or other characters."""

from __future__ import annotations

import base64
import binascii

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
