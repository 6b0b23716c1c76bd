"""Debezium MySQL and MariaDB connectors; see README.md beside this file."""

from __future__ import annotations

from changefeed.protocols.base import Capabilities, Protocol
from changefeed.protocols.debezium_mysql.decoder import NAME, Decoder
from changefeed.protocols.debezium_mysql.encoder import Encoder
from changefeed.protocols.debezium_mysql.options import Options

PROTOCOL = Protocol(
    name=NAME,
    title="Debezium MySQL and MariaDB",
    capabilities=Capabilities(
        carries=frozenset(
            {
                "before",
                "after",
                "commit_time",
                "transaction",
                "irregular",
                "schema.type",
                "schema.ddl",
                "schema.columns",
            }
        ),
        ops=frozenset({"insert", "update", "delete", "read"}),
        schema_changes=True,
        transactions=True,
        heartbeats=True,
        cuts="transactions",
        headers=True,
    ),
    options=Options,
    decoder=Decoder,
    encoder=Encoder,
)
