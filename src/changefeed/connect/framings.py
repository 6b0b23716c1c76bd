"""Recognizes the framings of other schema registries, to name them in the error for a record that cannot be read.

03 │ 00 or 05 │ 16 bytes of a UUID │ datum      AWS Glue Schema Registry
00 │ 00 00 00 00 00 00 00 07 │ datum            Apicurio: an id of eight bytes
00 │ 00 00 00 07 │ {…}                          Confluent, JSON Schema
datum                                           the id is in a header: apicurio.*, __value_schema_id, __key_schema_id
"""

from __future__ import annotations

from collections.abc import Iterable

from changefeed.wire import confluent

_IN_HEADERS = ("__value_schema_id", "__key_schema_id")
_USE = "only Confluent's framing is read, a byte 00 and an id of four bytes"


def hint(value: bytes, headers: Iterable[tuple[str, bytes | None]]) -> str:
    """Returns a sentence that names the framing of an unreadable value, with a space before it; empty if it is Confluent's."""
    names = [name for name, _ in headers]
    apicurio = next((name for name in names if name.startswith("apicurio.")), None)
    if apicurio is not None:
        return (
            f" The header {apicurio} shows that Apicurio's serializer keeps the schema's id out of the value; {_USE}: set "
            "apicurio.registry.headers.enabled=false and apicurio.registry.as-confluent=true for the converter."
        )
    header = next((name for name in names if name in _IN_HEADERS), None)
    if header is not None:
        return f" The header {header} shows that the schema's id is in a header; {_USE}: let the serializer write it there."
    if value[:2] in (b"\x03\x00", b"\x03\x05"):
        return f" The value begins with 03 as values of the AWS Glue Schema Registry do; {_USE}, and JSON without a schema."
    if value[:1] == b"\0" and len(value) > 9 and not any(value[1:5]):
        return (
            f" The value seems to begin with an id of eight bytes, as Apicurio's serializer writes it; {_USE}: set "
            "apicurio.registry.as-confluent=true for the converter."
        )
    if value[:1] == b"\0" and value[confluent.HEADER : confluent.HEADER + 1] == b"{":
        return " Behind the schema's id is JSON, as JsonSchemaConverter writes it; use JsonConverter, or AvroConverter."
    return ""
