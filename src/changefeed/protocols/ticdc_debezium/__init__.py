"""TiCDC Debezium protocol, of both producers; README.md in this folder describes the bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from changefeed.protocols.base import Capabilities, Form, KernelTwin, Protocol
from changefeed.protocols.ticdc_debezium.decoder import NAME, Decoder
from changefeed.protocols.ticdc_debezium.encoder import Encoder
from changefeed.protocols.ticdc_debezium.options import Options
from changefeed.protocols.ticdc_debezium.recognize import likely, recognize
from changefeed.protocols.ticdc_debezium.redefine import redefine

_CARRIES = frozenset(
    {
        *("op.insert", "op.update", "op.delete"),
        *("names", "keys", "before", "after", "members"),
        *("commit_ts", "commit_time", "commit_time.ms", "order", "transaction.id"),
        *("delete.keys", "delete.before", "delete.commit_ts", "delete.commit_time"),
        *("schema", "schema.ddl", "schema.columns", "schema.commit_ts", "schema.commit_time", "resolved"),
    }
)


def _carries(options: Options) -> frozenset[str]:
    lost = set() if options.output_old_value else {"before"}
    if not options.enable_tidb_extension:
        lost |= {"resolved"}
    if not options.debezium_include_start_ts:
        lost |= {"transaction.id"}
    return _CARRIES - lost


def _kernel(options: Options) -> tuple[str, Mapping[str, Any]] | None:
    """Returns the kernel's class and arguments; None for compressed values."""
    return ("TicdcDebezium", {}) if options.large_message_handle_compression == "none" else None


PROTOCOL = Protocol(
    name=NAME,
    title="TiCDC Debezium protocol",
    capabilities=Capabilities(
        carries=_CARRIES,
        cuts="marks",
        broadcast=True,
        restored_ddl=True,
    ),
    options=Options,
    decoder=Decoder,
    encoder=Encoder,
    redefine=lambda _: redefine,
    carries=_carries,
    variants=(
        {"output-old-value": "false"},
        {"enable-tidb-extension": "true"},
        {"enable-tidb-extension": "true", "debezium-include-start-ts": "true"},
    ),
    self_describing=True,
    ticdc_names=("debezium",),
    forms=(Form("", {"debezium-disable-schema": "true"}), Form("schema")),
    kernel=KernelTwin(_kernel),
    recognize=recognize,
    likely=likely,
)
