"""PyIceberg's Hive catalog, for several threads, with a limit to the time that an answer may take.

PyIceberg has one connection for all threads, in which their requests would mix; of several servers it takes the first one, also
if that is down; and it waits for ever. Here each use of the catalog has a connection of its own, to the first server that
answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import local
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from pyiceberg.catalog.hive import (  # type: ignore[attr-defined]  # the module names no exports
    Client,
    HiveCatalog,
    TSocket,
    TTransport,
    _HiveClient,
)

_ANSWER = 60.0  # seconds for a connection, and for an answer


class ThreadedHiveCatalog(HiveCatalog):
    """A Hive catalog that threads use at the same time."""

    @staticmethod
    def _create_hive_client(properties: dict[str, str]) -> Any:
        return _Connections(properties)


class _Connections:
    """A connection for each block `with`, as PyIceberg's client is used."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties
        self._open = local()

    def __enter__(self) -> Client:
        *others, last = self._properties["uri"].split(",")
        for uri in others:
            try:
                return self._opened(uri)
            except TTransport.TTransportException:
                continue  # the next server
        return self._opened(last)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.clients.pop().__exit__(kind, error, trace)

    def _opened(self, uri: str) -> Client:
        client: Any = _TimedClient(uri.strip(), self._properties)
        opened: Client = client.__enter__()
        self._open.__dict__.setdefault("clients", []).append(client)
        return opened


class _TimedClient(_HiveClient):
    """A connection to one server."""

    def __init__(self, uri: str, properties: Mapping[str, str]) -> None:
        is_kerberos = str(properties.get("hive.kerberos-authentication", "")).lower() == "true"
        super().__init__(uri, properties.get("ugi"), is_kerberos, properties.get("hive.kerberos-service-name", "hive"))

    def _init_thrift_transport(self) -> Any:
        if self._kerberos_auth:
            return super()._init_thrift_transport()
        place = urlsplit(self._uri)
        socket = TSocket.TSocket(place.hostname, place.port)
        socket.setTimeout(_ANSWER * 1000)
        return TTransport.TBufferedTransport(socket)
