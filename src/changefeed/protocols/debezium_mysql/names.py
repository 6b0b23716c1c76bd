"""Topics, and names of schemas and fields.

topic          <topic.prefix>.<database>.<table>; what is not in [A-Za-z0-9._-] becomes _, cut at 249 characters
schema names   the topic's, then .Key .Value .Envelope
adjustment     none: as they are; avro: what Avro does not have becomes _; avro_unicode: _uXXXX, and _ itself _u005f
"""

from __future__ import annotations

import re

_NOT_IN_TOPIC = re.compile(r"[^A-Za-z0-9._-]")
_TOPIC_LENGTH = 249


def topic(prefix: str, database: str, table: str, delimiter: str) -> str:
    """Returns the topic of a table."""
    name = in_topic(delimiter.join((prefix, database, table)))[:_TOPIC_LENGTH]
    return "_" * len(name) if name in (".", "..") else name


def in_topic(text: str) -> str:
    """Returns a name as topics spell it."""
    return _NOT_IN_TOPIC.sub("_", text)


def adjusted(name: str, mode: str) -> str:
    """Adjusts the full name of a schema, or the name of a field, in the given mode."""
    if mode == "none":
        return name
    return ".".join(_part(part, mode) for part in name.split("."))


def _part(part: str, mode: str) -> str:
    parts = [_char(char, i == 0, mode) for i, char in enumerate(part)]
    return "".join(parts)


def _char(char: str, first: bool, mode: str) -> str:
    letter = char.isascii() and (char.isalpha() or (char == "_" and mode == "avro"))
    digit = char.isascii() and char.isdigit()
    if letter or (digit and not first):
        return char
    if mode == "avro":
        return "_" + char if digit else "_"
    return f"_u{ord(char):04x}"
