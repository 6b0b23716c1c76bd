"""A proxy in front of an HTTP server that loses, delays, refuses and damages requests; it counts those that it has seen.

    with FaultProxy(s3.url) as proxy:
        proxy.add(lose_answer, method="PUT", path=r"log/0+6\\.json")     # once; `times=None`: always
        ...
        assert proxy.count("PUT", "log/") == 2

A fault is a function: it gets the request, and may forward it, answer it, or end the connection. As a program:

    python -m tests.services.fault_proxy http://127.0.0.1:9000 --port 9001 --latency 0.02
"""

from __future__ import annotations

import argparse
import http.client
import re
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from urllib.parse import urlsplit

_HOP = {"connection", "keep-alive", "transfer-encoding", "proxy-connection", "expect"}


@dataclass
class Answer:
    """An answer of the server."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


@dataclass
class Request:
    """A request on its way."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    handler: _Handler = field(repr=False)

    def forward(self) -> Answer:
        """Sends the request to the server."""
        return self.handler.forwarded(self)

    def answer(self, answer: Answer, *, body: bytes | None = None) -> None:
        """Answers the request; `body`: the part of the body that is sent, while the header announces all of it."""
        self.handler.sent(answer, answer.body if body is None else body)

    def reset(self) -> None:
        """Ends the connection without an answer."""
        self.handler.reset()


Fault = Callable[[Request], None]


@dataclass
class _Rule:
    fault: Fault
    method: str
    path: re.Pattern[str]
    times: int | None


# Faults.


def lose_answer(request: Request) -> None:
    """The server does what is asked, and the answer is lost."""
    request.forward()
    request.reset()


def reset(request: Request) -> None:
    """The connection ends before the server gets the request."""
    request.reset()


def truncate(request: Request) -> None:
    """The connection ends in the middle of the answer's body."""
    answer = request.forward()
    request.answer(answer, body=answer.body[: len(answer.body) // 2])
    request.reset()


def without_condition(request: Request) -> None:
    """The server is one that does not support conditional writes."""
    request.headers = {name: value for name, value in request.headers.items() if name.lower() != "if-none-match"}
    request.answer(request.forward())


def refuse(status: int, code: str = "", message: str = "") -> Fault:
    """The server refuses the request."""

    def fault(request: Request) -> None:
        request.answer(error_answer(status, code, message))

    return fault


def refuse_after(status: int, code: str = "", message: str = "") -> Fault:
    """The server does what is asked, and answers that it has not."""

    def fault(request: Request) -> None:
        request.forward()
        request.answer(error_answer(status, code, message))

    return fault


def slow(seconds: float) -> Fault:
    """The body stops in the middle for a while."""

    def fault(request: Request) -> None:
        answer = request.forward()
        request.answer(answer, body=answer.body[: len(answer.body) // 2])
        time.sleep(seconds)
        request.handler.write(answer.body[len(answer.body) // 2 :])

    return fault


class Hold:
    """Holds requests until `release` is called, and forwards them then."""

    def __init__(self) -> None:
        self.arrived, self._released = threading.Event(), threading.Event()

    def __call__(self, request: Request) -> None:
        self.arrived.set()
        self._released.wait(120)
        request.answer(request.forward())

    def release(self) -> None:
        """Lets the requests go on."""
        self._released.set()


def error_answer(status: int, code: str, message: str) -> Answer:
    """Returns an error as S3 answers it."""
    body = f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>{message}</Message></Error>'
    return Answer(status, [("Content-Type", "application/xml")], body.encode() if code else b"")


class FaultProxy:
    """The proxy, on a free port of this machine."""

    def __init__(self, target: str, latency: float = 0.0, port: int = 0) -> None:
        """`target`: the server's URL; `latency`: seconds that each request waits."""
        parts = urlsplit(target)
        self.host, self.target_port, self.latency = parts.hostname or "", parts.port or 80, latency
        self.requests: list[Request] = []
        self._rules, self._lock = list[_Rule](), threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), type("Handler", (_Handler,), {"proxy": self}))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> FaultProxy:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        """The proxy's URL."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def add(self, fault: Fault, method: str = "", path: str = "", times: int | None = 1) -> None:
        """Lets requests meet a fault: those of a method, whose path and query match an expression; the next `times`."""
        with self._lock:
            self._rules.append(_Rule(fault, method, re.compile(path), times))

    def clear(self) -> None:
        """Forgets faults and requests."""
        with self._lock:
            self._rules, self.requests = [], []

    @contextmanager
    def counted(self) -> Iterator[Counter[str]]:
        """Counts the requests within this context, by method."""
        start, counts = len(self.requests), Counter[str]()
        yield counts
        counts.update(request.method for request in self.requests[start:])

    def count(self, method: str = "", path: str = "") -> int:
        """Returns the number of requests of a method whose path and query match an expression."""
        return sum(r.method == (method or r.method) and bool(re.search(path, r.path)) for r in list(self.requests))

    def take(self, request: Request) -> Fault | None:
        """Notes a request; returns the fault that it meets."""
        with self._lock:
            self.requests.append(request)
            for rule in self._rules:
                if rule.method in ("", request.method) and rule.path.search(request.path) and rule.times != 0:
                    rule.times = None if rule.times is None else rule.times - 1
                    return rule.fault
        return None


class _Handler(BaseHTTPRequestHandler):
    proxy: FaultProxy
    protocol_version = "HTTP/1.1"
    _server_connection: http.client.HTTPConnection | None = None

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except OSError:
            self.close_connection = True

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request = Request(self.command, self.path, dict(self.headers.items()), body, self)
        fault = self.proxy.take(request)
        if self.proxy.latency:
            time.sleep(self.proxy.latency)
        if fault is None:
            self.sent(answer := request.forward(), answer.body)
        else:
            fault(request)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass

    def forwarded(self, request: Request) -> Answer:
        """Sends a request to the server, on a connection that stays open."""
        if self._server_connection is None:
            self._server_connection = http.client.HTTPConnection(self.proxy.host, self.proxy.target_port, timeout=120)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP}
        self._server_connection.request(request.method, request.path, request.body or None, headers)
        response = self._server_connection.getresponse()
        return Answer(response.status, response.getheaders(), response.read())

    def finish(self) -> None:
        """Ends the connection to the server with that of the client."""
        super().finish()
        if self._server_connection is not None:
            self._server_connection.close()

    def sent(self, answer: Answer, body: bytes) -> None:
        """Answers with a body, or with a part of it."""
        self.send_response_only(answer.status)
        for name, value in answer.headers:
            if name.lower() not in _HOP | {"content-length"}:
                self.send_header(name, value)
        announced = next((value for name, value in answer.headers if name.lower() == "content-length"), None)
        is_head = self.command == "HEAD"
        self.send_header("Content-Length", announced or "0" if is_head else str(len(answer.body)))
        self.end_headers()
        if not is_head:
            self.write(body)

    def write(self, data: bytes) -> None:
        """Sends a part of a body."""
        self.wfile.write(data)
        self.wfile.flush()

    def reset(self) -> None:
        """Ends the connection by RST."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()

    def log_message(self, format: str, *args: object) -> None:
        """Prints nothing."""


def main() -> None:
    """Runs a proxy that only delays."""
    parser = argparse.ArgumentParser(description="Delays the requests to a server.")
    parser.add_argument("target")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds")
    arguments = parser.parse_args()
    with FaultProxy(arguments.target, arguments.latency, arguments.port) as proxy:
        print(proxy.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
