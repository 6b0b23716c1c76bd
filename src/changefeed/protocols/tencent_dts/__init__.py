"""Tencent Cloud DTS data subscription, ProtoBuf over Kafka; README.md in this folder describes the bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from changefeed.protocols.base import Capabilities, Form, KernelTwin, Protocol
from changefeed.protocols.tencent_dts.decoder import Decoder
from changefeed.protocols.tencent_dts.encoder import Encoder
from changefeed.protocols.tencent_dts.options import NAME, Options
from changefeed.protocols.tencent_dts.recognize import recognize


def _kernel(options: Options) -> tuple[str, Mapping[str, Any]]:
    most = min(options.max_data_bytes, options.max_group_bytes)
    return "TencentDts", {"signed": options.bit64_signed, "most": most}


PROTOCOL = Protocol(
    name=NAME,
    title="Tencent Cloud DTS subscription, ProtoBuf",
    capabilities=Capabilities(
        carries=frozenset(
            {
                *("op.insert", "op.update", "op.delete"),
                *("names", "keys", "before", "after", "values", "types", "members", "irregular"),
                *("commit_time", "order", "gtid", "transaction-mark"),
                *("delete.keys", "delete.before", "delete.commit_time"),
                *("schema", "schema.ddl", "schema.commit_time"),
                *("checkpoint", "heartbeat"),
            }
        ),
        cuts="marks",
        session_database=True,
        headers=True,
        fragments=True,
    ),
    options=Options,
    decoder=Decoder,
    encoder=Encoder,
    aliases=("dts",),
    reasons={
        "ps": "The header `ps` is missing, twice there, or not a number.",
        "ps-gap": "Records are missing in front of this one, by its header `ps`. Read again from before the gap, or go on "
        "with `on_gap=warn`.",
    },
    forms=(Form("", {}, "protobuf"),),
    kernel=KernelTwin(_kernel, record_groups=True),
    recognize=recognize,
)
