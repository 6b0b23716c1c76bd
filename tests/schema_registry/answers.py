"""A schema registry with answers chosen by the test, over HTTP or HTTPS on loopback."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from changefeed.schema_registry import http as client


@dataclass
class Asked:
    """One request."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class Server:
    url: str
    asked: list[Asked] = field(default_factory=list)


Answer = Callable[[Asked], tuple[int, Any]]


@contextmanager
def serving(answer: Answer, context: ssl.SSLContext | None = None) -> Iterator[Server]:
    """A server that answers status and JSON."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def respond(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked = Asked(self.command, self.path, dict(self.headers), json.loads(body) if body else None)
            server.asked.append(asked)
            status, reply = answer(asked)
            data = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = respond

        def log_message(self, format: str, *args: Any) -> None:
            """Writes no log."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    if context is not None:
        http.socket = context.wrap_socket(http.socket, server_side=True)
    scheme = "http" if context is None else "https"
    server = Server(f"{scheme}://127.0.0.1:{http.server_port}")
    client.forget_clients()  # of another server that had this port
    thread = threading.Thread(target=http.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()
