"""TiCDC Debezium protocol, of both producers; see README.md beside this file."""

from __future__ import annotations

from changefeed.protocols.base import Capabilities, Protocol
from changefeed.protocols.ticdc_debezium.decoder import NAME, Decoder
from changefeed.protocols.ticdc_debezium.definition import redefine
from changefeed.protocols.ticdc_debezium.encoder import Encoder
from changefeed.protocols.ticdc_debezium.options import Options

PROTOCOL = Protocol(
    name=NAME,
    title="TiCDC Debezium protocol",
    capabilities=Capabilities(
        carries=frozenset(
            {
                "before",
                "after",
                "commit_ts",
                "commit_time",
                "transaction",
                "irregular",
                "schema.type",
                "schema.ddl",
                "schema.columns",
                "schema.commit_ts",
            }
        ),
        ops=frozenset({"insert", "update", "delete"}),
        schema_changes=True,
        resolved=True,
        cuts="marks",
        restored_ddl=True,
    ),
    options=Options,
    decoder=Decoder,
    encoder=Encoder,
    redefine=lambda _: redefine,
)
