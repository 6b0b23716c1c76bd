"""PyIceberg's REST catalog, with a limit to the time that an answer may take.

PyIceberg waits for ever. Here, a server that accepts a connection and then does not answer ends a request, as a lost
connection does. The limits have the names of Iceberg's Java client.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from weakref import finalize

from pyiceberg.catalog.rest import RestCatalog
from requests import PreparedRequest, Response, Session
from requests.adapters import HTTPAdapter

from changefeed.errors import ConfigError

_CONNECTION, _ANSWER = "rest.client.connection-timeout-ms", "rest.client.socket-timeout-ms"
_DEFAULTS = {_CONNECTION: 10_000, _ANSWER: 60_000}
_CONNECTIONS = 32  # that stay open; as many threads as commit at the same time


class TimedRestCatalog(RestCatalog):
    """A REST catalog whose requests end, and which closes its connections when nobody uses it any more."""

    def _create_session(self) -> Session:
        session = super()._create_session()
        limits = tuple(_seconds(self.properties, name) for name in (_CONNECTION, _ANSWER))
        for scheme in ("http://", "https://"):
            session.mount(scheme, _Timed(limits))
        finalize(self, session.close)
        return session


class _Timed(HTTPAdapter):
    """Sends requests with limits: seconds for the connection, and between two pieces of the answer."""

    def __init__(self, limits: tuple[float, ...]) -> None:
        self._limits = limits
        super().__init__(pool_maxsize=_CONNECTIONS)

    def send(self, request: PreparedRequest, *arguments: Any, **options: Any) -> Response:
        if options.get("timeout") is None:
            options["timeout"] = self._limits
        return super().send(request, *arguments, **options)


def _seconds(properties: Mapping[str, Any], name: str) -> float:
    try:
        limit = int(properties.get(name, _DEFAULTS[name]))
    except ValueError:
        limit = 0
    if limit <= 0:
        raise ConfigError(f"sink.catalog-properties: {name} is {properties[name]!r}, not a number of milliseconds")
    return limit / 1000
