"""An address that leads to one server and then to another, as a virtual IP or a name does in a failover.

with Relay(primary.port) as relay:
    connect("127.0.0.1", relay.port)
    relay.lead_to(replica.port)         # ends the connections to the first
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType

_SIZE = 64 * 1024


class Relay:
    """Passes bytes on between its own port and another one of this machine.

    Attributes:
        port: its own, on 127.0.0.1.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []

    def __enter__(self) -> Relay:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._listener.close()
        self.end_connections()

    def lead_to(self, target: int) -> None:
        """Leads new connections to another port, and ends those that are open."""
        self._target = target
        self.end_connections()

    def end_connections(self) -> None:
        """Ends all open connections."""
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    def _accept(self) -> None:
        with suppress(OSError):  # the listener is closed
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self._target))
                except OSError:
                    client.close()
                    continue
                self._open += [client, server]
                for source, target in ((client, server), (server, client)):
                    threading.Thread(target=_pass_on, args=(source, target), daemon=True).start()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with source:
        with suppress(OSError):
            while data := source.recv(_SIZE):
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)
