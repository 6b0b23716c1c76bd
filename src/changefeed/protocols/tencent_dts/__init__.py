"""Tencent Cloud DTS data subscription, ProtoBuf over Kafka; see README.md beside this file."""

from __future__ import annotations

from changefeed.protocols.base import Capabilities, Protocol
from changefeed.protocols.tencent_dts.decoder import NAME, Decoder
from changefeed.protocols.tencent_dts.encoder import Encoder
from changefeed.protocols.tencent_dts.options import Options

PROTOCOL = Protocol(
    name=NAME,
    title="Tencent Cloud DTS subscription, ProtoBuf",
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
            }
        ),
        ops=frozenset({"insert", "update", "delete"}),
        schema_changes=True,
        transactions=True,
        heartbeats=True,
        fragments=True,
        cuts="marks",
        headers=True,
    ),
    options=Options,
    decoder=Decoder,
    encoder=Encoder,
)
