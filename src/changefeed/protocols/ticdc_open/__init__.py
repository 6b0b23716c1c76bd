"""TiCDC Open Protocol, of both producers; see README.md beside this file."""

from __future__ import annotations

from changefeed.protocols.base import Capabilities, Protocol
from changefeed.protocols.ticdc_open.decoder import NAME, Decoder
from changefeed.protocols.ticdc_open.encoder import Encoder
from changefeed.protocols.ticdc_open.options import Options

PROTOCOL = Protocol(
    name=NAME,
    title="TiCDC Open Protocol",
    capabilities=Capabilities(
        carries=frozenset(
            {
                "before",
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
        restored_ddl=True,
    ),
    options=Options,
    decoder=Decoder,
    encoder=Encoder,
)
