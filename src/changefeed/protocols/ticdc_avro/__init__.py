"""TiCDC Avro, of both producers; see README.md beside this file."""

from __future__ import annotations

from changefeed.protocols.base import Capabilities, Protocol
from changefeed.protocols.ticdc_avro.decoder import Decoder
from changefeed.protocols.ticdc_avro.encoder import Encoder
from changefeed.protocols.ticdc_avro.options import NAME, Options

PROTOCOL = Protocol(
    name=NAME,
    title="TiCDC Avro, Confluent wire format",
    capabilities=Capabilities(
        carries=frozenset(
            {
                "after",
                "commit_ts",
                "commit_time",
                "irregular",
                "schema.type",
                "schema.ddl",
                "schema.commit_ts",
            }
        ),
        ops=frozenset({"insert", "update", "delete", "upsert"}),
        schema_changes=True,
        resolved=True,
        cuts="marks",
        undated=True,
        restored_ddl=True,
    ),
    options=Options,
    decoder=Decoder,
    encoder=Encoder,
)
