"""TiCDC Open Protocol, of both producers; README.md in this folder describes the bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from changefeed.mysql.zone import ahead, zone
from changefeed.protocols.base import Capabilities, Form, KernelTwin, Protocol
from changefeed.protocols.ticdc_open.decoder import NAME, Decoder
from changefeed.protocols.ticdc_open.encoder import Encoder
from changefeed.protocols.ticdc_open.options import Options
from changefeed.protocols.ticdc_open.recognize import likely, recognize

_CARRIES = frozenset(
    {
        *("op.insert", "op.update", "op.delete", "op.upsert"),
        *("names", "keys", "before", "after", "values", "irregular"),
        *("commit_ts", "commit_time", "commit_time.ms", "order"),
        *("delete.keys", "delete.before", "delete.commit_ts", "delete.commit_time"),
        *("schema", "schema.ddl", "schema.commit_ts", "schema.commit_time", "resolved"),
    }
)


def _carries(options: Options) -> frozenset[str]:
    """Returns the keys carried with these options: `u` alone is an insert if updates have `p`, otherwise an upsert."""
    lost = {"op.upsert"} if options.output_old_value else {"op.insert", "op.update", "before"}
    if options.delete_only_output_handle_key_columns:
        lost |= {"delete.before"}
    if options.large_message_handle_option == "handle-key-only":
        lost |= {"before", "after", "delete.before", "values"}
    return _CARRIES - lost


def _kernel(options: Options) -> tuple[str, Mapping[str, Any]] | None:
    """Returns the kernel's class and arguments; None for compressed values and for the form of old producers."""
    if options.large_message_handle_compression != "none" or options.legacy_v4:
        return None
    return "TicdcOpen", {"upsert": not options.output_old_value, "ahead": ahead(zone(options.time_zone))}


PROTOCOL = Protocol(
    name=NAME,
    title="TiCDC Open Protocol",
    capabilities=Capabilities(
        carries=_CARRIES,
        requires={"op.update": "before"},
        cuts="marks",
        key_only=True,
        broadcast=True,
        restored_ddl=True,
    ),
    options=Options,
    decoder=Decoder,
    encoder=Encoder,
    carries=_carries,
    variants=(
        {"output-old-value": "false"},
        {"delete-only-output-handle-key-columns": "true"},
        {"large-message-handle-option": "handle-key-only"},
    ),
    ticdc_names=("open-protocol", "default"),
    aliases=("open",),
    forms=(Form("", {"max-batch-size": "1"}, "framed json"),),
    kernel=KernelTwin(_kernel),
    recognize=recognize,
    likely=likely,
)
