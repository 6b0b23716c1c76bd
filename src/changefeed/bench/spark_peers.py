"""Alternatives to a decoder on Spark: its own functions, with a declared schema of the required members."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from changefeed.bench.on_spark import Usual
from changefeed.bench.workload import JSON_TYPES

if TYPE_CHECKING:
    from pyspark.sql import Column

_HEADER = 5  # Confluent's: magic and schema id
_OPEN = JSON_TYPES | {"id": "bigint", "qty": "int"}
_TICDC = _OPEN | {"status": "string", "total": "double", "note": "string", "placed": "int", "updated": "string"}
_MYSQL = _TICDC | {"total": "binary"}
_COLUMNS = ", ".join(f"{name}: struct<v: {kind}>" for name, kind in _OPEN.items())
_MESSAGE = f"struct<u: struct<{_COLUMNS}>, p: struct<{_COLUMNS}>, d: struct<{_COLUMNS}>>"


def _envelope(columns: Mapping[str, str], source: str) -> str:
    image = ", ".join(f"{name}: {kind}" for name, kind in columns.items())
    return f"before: struct<{image}>, after: struct<{image}>, op: string, source: struct<{source}>"


_TICDC_ENVELOPE = _envelope(_TICDC, "db: string, table: string, commit_ts: bigint")
_MYSQL_ENVELOPE = _envelope(_MYSQL, "db: string, table: string, ts_ms: bigint, gtid: string, file: string, pos: bigint")


def _from_json(schema: str, start: int = 1) -> tuple[str, Usual]:
    def typed(value: Column) -> Column:
        from pyspark.sql import functions as f

        return f.from_json(f.substring(value, start, 2**31 - 1).cast("string"), schema)

    return "from_json", typed


def _from_avro(schema: str) -> tuple[str, Usual]:
    def typed(value: Column) -> Column:
        from pyspark.sql import functions as f
        from pyspark.sql.avro.functions import from_avro

        return from_avro(f.substring(value, _HEADER + 1, 2**31 - 1), schema)

    return "from_avro", typed


def usual(form: str, values: list[bytes], schemas: Mapping[int, str]) -> tuple[str, Usual] | None:
    """Returns the name of Spark's function for values of this form, and the function that applies it; None if there is none."""
    match form:
        case "ticdc-open":
            return _from_json(_MESSAGE, start=9)  # after the length of the only message
        case "ticdc-debezium" | "ticdc-debezium, schema":
            return _from_json(f"struct<payload: struct<{_TICDC_ENVELOPE}>>")
        case "debezium-mysql":
            return _from_json(f"struct<{_MYSQL_ENVELOPE}>")
        case "debezium-mysql, schema":
            return _from_json(f"struct<payload: struct<{_MYSQL_ENVELOPE}>>")
        case "ticdc-avro" | "debezium-mysql, avro":
            return _from_avro(schemas[int.from_bytes(values[0][1:_HEADER], "big")])
        case _:
            return None
