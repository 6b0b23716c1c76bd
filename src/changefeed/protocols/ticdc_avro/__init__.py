"""TiCDC Avro, of both producers; README.md in this folder describes the bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from changefeed.mysql.zone import ahead, zone
from changefeed.protocols.base import Capabilities, Form, KernelTwin, Protocol
from changefeed.protocols.ticdc_avro.decoder import Decoder
from changefeed.protocols.ticdc_avro.encoder import Encoder
from changefeed.protocols.ticdc_avro.options import NAME, Options
from changefeed.protocols.ticdc_avro.recognize import likely, recognize

_ROWS = frozenset({"op.delete", "op.upsert", "keys", "after", "values", "delete.keys", "members", "irregular"})
_EXTENSION = frozenset({"op.insert", "op.update", "commit_ts", "commit_time", "commit_time.ms"})
_MARKS = frozenset({"schema", "schema.ddl", "schema.commit_ts", "schema.commit_time", "resolved"})
_DELETES = frozenset({"delete.commit_ts", "delete.commit_time", "order"})
_OLD = frozenset({"before", "delete.before"})


def _carries(options: Options) -> frozenset[str]:
    """Returns the keys carried with these options: a delete has only its key, unless there is an old row or a marker."""
    carried = _ROWS
    if options.avro_include_before_value:
        carried |= _OLD
    if options.enable_tidb_extension:
        carried = (carried | _EXTENSION) - {"op.upsert"}
    if options.watermarks:
        carried |= _MARKS
    if options.enable_tidb_extension and (
        options.avro_include_before_value or (options.watermarks and options.profile == "newarch")
    ):
        carried |= _DELETES
    return carried


_EXTENDED = {"enable-tidb-extension": "true"}
_MARKED = {**_EXTENDED, "avro-enable-watermark": "true"}


def _kernel(options: Options) -> tuple[str, Mapping[str, Any]]:
    return "TicdcAvro", {"ahead": ahead(zone(options.time_zone))}


PROTOCOL = Protocol(
    name=NAME,
    title="TiCDC Avro, Confluent wire format",
    capabilities=Capabilities(
        carries=_ROWS | _EXTENSION | _MARKS | _DELETES | _OLD,
        cuts="marks",
        missing_commit_ts=True,
        broadcast=True,
        restored_ddl=True,
    ),
    options=Options,
    decoder=Decoder,
    encoder=Encoder,
    carries=_carries,
    variants=(
        _EXTENDED,
        {**_MARKED, "profile": "classic"},
        _MARKED,
        {**_MARKED, "avro-include-before-value": "true"},
    ),
    self_describing=True,
    ticdc_names=("avro", "flat-avro"),
    reasons={
        "checksum": "The row is damaged, or does not match its checksum; `corruption-handle-level` refuses it.",
        "no-key": "A delete names its row by the key alone, and there is none.",
    },
    forms=(Form("", _EXTENDED, "avro"),),
    kernel=KernelTwin(_kernel, topics=True),
    recognize=recognize,
    likely=likely,
)
