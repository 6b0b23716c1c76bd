"""The protocols, which convert between bytes and changes: one folder each; none imports another."""

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
    "canal-json": "changefeed.protocols.canal_json",
}


@cache
def protocol(name: str) -> Protocol:
    """Returns the protocol with this name; loads it on first use.

    Raises:
        ConfigError: the name is unknown; the message has the nearest name and all names.
    """
    if name not in PROTOCOLS:
        raise unknown_name("protocol", name, PROTOCOLS, _meant())
    return cast(Protocol, import_module(PROTOCOLS[name]).PROTOCOL)


def ticdc_names() -> dict[str, str]:
    """Returns name in a TiCDC sink URI -> changefeed's name of the protocol."""
    return {called: name for name in PROTOCOLS for called in protocol(name).ticdc_names}


def _meant() -> dict[str, str]:
    return ticdc_names() | {alias: name for name in PROTOCOLS for alias in protocol(name).aliases}
