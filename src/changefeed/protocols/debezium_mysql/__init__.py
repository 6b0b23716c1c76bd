"""Debezium MySQL and MariaDB connectors; README.md in this folder describes the bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from changefeed.protocols.base import Capabilities, Form, KernelTwin, Protocol
from changefeed.protocols.debezium_mysql.decoder import NAME, Decoder
from changefeed.protocols.debezium_mysql.encoder import Encoder
from changefeed.protocols.debezium_mysql.options import Options
from changefeed.protocols.debezium_mysql.recognize import likely, recognize
from changefeed.protocols.debezium_mysql.redefine import redefine
from changefeed.wire import base64_text

_CARRIES = frozenset(
    {
        *("op.insert", "op.update", "op.delete", "op.read"),
        *("names", "keys", "before", "after", "values", "members"),
        *("commit_time", "commit_time.ms", "gtid"),
        *("transaction.id", "transaction.order", "transaction.table_order", "transaction-mark"),
        *("delete.keys", "delete.before", "delete.commit_time"),
        *("schema", "schema.ddl", "schema.commit_time", "heartbeat"),
    }
)
_PROVIDES = frozenset({"order", "schema.columns"})
_METADATA = frozenset({"transaction.id", "transaction.order", "transaction.table_order", "transaction-mark"})
_SCHEMA = frozenset({"schema", "schema.ddl", "schema.commit_time"})
_SKIPPED = {  # letters of `skipped.operations`
    "c": {"op.insert"},
    "u": {"op.update", "before"},
    "d": {"op.delete", "delete.keys", "delete.before", "delete.commit_time"},
}


def _carries(options: Options) -> frozenset[str]:
    """Returns the keys carried with these options; with `long`, BIGINT UNSIGNED above 2^63-1 becomes another number."""
    lost = set[str]() if options.provide_transaction_metadata else set(_METADATA)
    modes = options.bigint_unsigned_handling_mode, options.decimal_handling_mode, options.time_mode
    if {"long", "double", "connect"} & {*modes}:
        lost |= {"values"}
    if options.field_name_adjustment_mode != "none":
        lost |= {"names"}
    if not options.include_schema_changes:
        lost |= _SCHEMA
    for letter in options.skipped & _SKIPPED.keys():
        lost |= _SKIPPED[letter]
    return _CARRIES - lost


def _kernel(options: Options) -> tuple[str, Mapping[str, Any]] | None:
    """Returns the kernel's class and arguments; None for values without an envelope."""
    if options.unwrap:
        return None
    absent = options.unavailable_value_placeholder
    avro = options.converter == "avro" or options.schema_registry is not None
    return "DebeziumMysqlAvro" if avro else "DebeziumMysql", {
        "placeholders": [absent, base64_text.write(absent.encode())],
        "numeric": options.decimal_format == "NUMERIC",
    }


def _fixed_topics(options: Options) -> frozenset[str]:
    """Returns the topic of schema changes, which the connector writes to partition 0, so that they keep their order."""
    return frozenset(() if options.topic_prefix is None else (options.topic_prefix,))


PROTOCOL = Protocol(
    name=NAME,
    title="Debezium MySQL and MariaDB",
    capabilities=Capabilities(
        carries=_CARRIES,
        provides=_PROVIDES,
        requires={"transaction.id": "transaction.order"},
        cuts="transactions",
        headers=True,
        uncaptured_ddl=True,
    ),
    options=Options,
    decoder=Decoder,
    encoder=Encoder,
    redefine=redefine,
    carries=_carries,
    variants=(
        {"bigint.unsigned.handling.mode": "precise"},
        {"bigint.unsigned.handling.mode": "precise", "provide.transaction.metadata": "true"},
        {"bigint.unsigned.handling.mode": "precise", "include.schema.changes": "false"},
    ),
    self_describing=True,
    verbatim=True,
    forms=(Form("", {"schemas.enable": "false"}), Form("schema"), Form("avro", {"converter": "avro"}, "avro")),
    kernel=KernelTwin(_kernel, headers=True),
    recognize=recognize,
    likely=likely,
    fixed_topics=_fixed_topics,
)
