"""The protocols: bytes to changes and back, one folder each; none imports another."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import cast

from changefeed.errors import unknown_name
from changefeed.protocols.base import Protocol

PROTOCOLS: dict[str, str] = {
    "ticdc-open": "changefeed.protocols.ticdc_open",
    "ticdc-avro": "changefeed.protocols.ticdc_avro",
    "ticdc-debezium": "changefeed.protocols.ticdc_debezium",
    "debezium-mysql": "changefeed.protocols.debezium_mysql",
    "tencent-dts": "changefeed.protocols.tencent_dts",
}

# As TiCDC and their documentation call them.
_MEANT = {
    "open-protocol": "ticdc-open",
    "open": "ticdc-open",
    "avro": "ticdc-avro",
    "flat-avro": "ticdc-avro",
    "dts": "tencent-dts",
}


@cache
def protocol(name: str) -> Protocol:
    """The protocol of this name, loaded on first use.

    Raises:
        ConfigError: there is none; the message has the nearest name and all of them.
    """
    if name not in PROTOCOLS:
        raise unknown_name("protocol", name, PROTOCOLS, _MEANT)
    return cast(Protocol, import_module(PROTOCOLS[name]).PROTOCOL)
