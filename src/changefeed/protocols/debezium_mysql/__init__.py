"""Debezium MySQL and MariaDB connectors; see README.md beside this file."""

from __future__ import annotations

from changefeed.protocols.base import Capabilities, Protocol
from changefeed.protocols.debezium_mysql.decoder import NAME, Decoder
from changefeed.protocols.debezium_mysql.definition import redefine
from changefeed.protocols.debezium_mysql.encoder import Encoder
from changefeed.protocols.debezium_mysql.options import Options
from changefeed.protocols.debezium_mysql.recognize import likely, recognize

_CARRIES = frozenset(
    {
        *("op.insert", "op.update", "op.delete", "op.read"),
        *("keys", "before", "after", "values", "members"),
        *("commit_time", "commit_time.ms", "gtid"),
        *("transaction.id", "transaction.order", "transaction.table_order", "transaction-mark"),
        *("delete.keys", "delete.before", "delete.commit_time"),
        *("schema", "schema.ddl", "schema.commit_time", "heartbeat"),
    }
)
_TELLS = frozenset({"order", "schema.columns"})
_METADATA = frozenset({"transaction.id", "transaction.order", "transaction.table_order", "transaction-mark"})


def _carries(options: Options) -> frozenset[str]:
    """BIGINT UNSIGNED above 2^63-1 is another number unless it is sent as a decimal."""
    lost = set() if options.provide_transaction_metadata else set(_METADATA)
    if options.bigint_unsigned_handling_mode == "long":
        lost |= {"values"}
    return _CARRIES - lost


PROTOCOL = Protocol(
    name=NAME,
    title="Debezium MySQL and MariaDB",
    capabilities=Capabilities(
        carries=_CARRIES,
        tells=_TELLS,
        cuts="transactions",
        headers=True,
    ),
    options=Options,
    decoder=Decoder,
    encoder=Encoder,
    redefine=redefine,
    carries=_carries,
    variants=(
        {"bigint.unsigned.handling.mode": "precise"},
        {"bigint.unsigned.handling.mode": "precise", "provide.transaction.metadata": "true"},
    ),
    self_telling=True,
    recognize=recognize,
    likely=likely,
)
