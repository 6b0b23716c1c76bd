"""Canal-JSON, of TiCDC and of Alibaba's Canal; README.md in this folder describes the bytes."""

from __future__ import annotations

from changefeed.protocols.base import Capabilities, Protocol
from changefeed.protocols.canal_json.decoder import Decoder
from changefeed.protocols.canal_json.encoder import Encoder
from changefeed.protocols.canal_json.options import NAME, Options
from changefeed.protocols.canal_json.recognize import likely, recognize

_CARRIES = frozenset(
    {
        *("op.insert", "op.update", "op.delete"),
        *("names", "keys", "before", "after", "values", "irregular"),
        *("commit_time", "commit_time.ms", "delete.keys", "delete.before", "delete.commit_time"),
        *("schema", "schema.ddl", "schema.commit_time"),
    }
)
_EXTENSION = frozenset({"commit_ts", "delete.commit_ts", "schema.commit_ts", "order", "resolved"})
_FULL_TYPES = frozenset({"types", "members"})
_GTID = frozenset({"gtid"})


def _carries(options: Options) -> frozenset[str]:
    """Returns the keys carried with these options: without the TiDB extension there is no commit_ts."""
    carried = _CARRIES
    if options.enable_tidb_extension:
        carried |= _EXTENSION
    if options.full_types:
        carried |= _FULL_TYPES
    if options.profile == "canal":
        carried |= _GTID
    if options.delete_only_output_handle_key_columns:
        carried -= {"delete.before"}
    if options.large_message_handle_option == "handle-key-only":
        carried -= {"before", "after", "delete.before", "values", "types", "members"}
    return carried


_EXTENDED = {"enable-tidb-extension": "true"}

PROTOCOL = Protocol(
    name=NAME,
    title="Canal-JSON of TiCDC and Canal",
    capabilities=Capabilities(
        carries=_CARRIES | _EXTENSION | _FULL_TYPES | _GTID,
        cuts="marks",
        missing_commit_ts=True,
        key_only=True,
        broadcast=True,  # TiCDC sends DDL to partition 0 alone, and watermarks to all: the others follow from these
        ddl_in_first=True,
        restored_ddl=True,
    ),
    options=Options,
    decoder=Decoder,
    encoder=Encoder,
    carries=_carries,
    variants=(
        _EXTENDED,
        {**_EXTENDED, "content-compatible": "true"},
        {**_EXTENDED, "delete-only-output-handle-key-columns": "true"},
        {"profile": "canal"},
    ),
    self_describing=True,
    ticdc_names=("canal-json",),
    aliases=("canal",),
    recognize=recognize,
    likely=likely,
)
