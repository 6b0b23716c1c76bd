"""HTTP requests with limits on time and size, in place of the session of Confluent's client.

httpx has a time limit for each read and none for a whole response: a response sent byte by byte would be read forever, and a
response of gigabytes would be read into memory.

Rule 1. A request takes at most `seconds`, from its start to the last byte of the response. Then its socket is shut down, in
        whatever phase: headers, body, or a TLS handshake that is done.
Rule 2. A response has at most 1 MiB, decompressed.
Rule 3. Each request has its own connection, so that Rule 1 can shut down its socket. Schemas are cached: requests are few.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from changefeed.errors import SchemaRegistryError

MAX_BYTES = 1 << 20


class BoundedSession:
    """The parts of an httpx session that Confluent's client uses."""

    def __init__(self, session: Any, httpx: Any, seconds: float) -> None:
        self._session, self._httpx, self._seconds = session, httpx, seconds

    def request(self, method: str, *, url: str, headers: Mapping[str, str], **body: Any) -> Any:
        """Sends a request and returns the complete response.

        Raises:
            httpx.TransportError: the request failed, or took too long.
            SchemaRegistryError: the response is too large.
        """
        headers = {**headers, "Connection": "close", "Accept-Encoding": "identity"}
        with _Deadline(self._seconds) as deadline:
            try:
                extensions = {"trace": deadline.trace}
                with self._session.stream(method, url, headers=headers, extensions=extensions, **body) as answer:
                    return self._httpx.Response(answer.status_code, content=_content(answer), request=answer.request)
            except self._httpx.TransportError as error:
                if deadline.passed or isinstance(error, self._httpx.TimeoutException):
                    raise self._httpx.ReadTimeout(f"no complete answer within {self._seconds:g} s") from error
                raise

    def close(self) -> None:
        """Closes the session."""
        self._session.close()


def _content(answer: Any) -> bytes:
    content = bytearray()
    for chunk in answer.iter_bytes():
        content += chunk
        if len(content) > MAX_BYTES:
            url = f"{answer.request.url.scheme}://{answer.request.url.netloc.decode()}"
            raise SchemaRegistryError(
                f"schema registry {url} answered with more than {MAX_BYTES:,} bytes: is it a schema registry?"
            )
    return bytes(content)


class _Deadline:
    """Shuts the request's socket down when its time is over."""

    def __init__(self, seconds: float) -> None:
        self.passed = False
        self._socket: socket.socket | None = None
        self._timer = threading.Timer(seconds, self._pass)
        self._timer.daemon = True

    def __enter__(self) -> _Deadline:
        self._timer.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._timer.cancel()

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Called by httpcore at each step; `connect_tcp` and `start_tls` return the connection."""
        stream = info.get("return_value")
        if stream is not None and hasattr(stream, "get_extra_info"):
            self._socket = stream.get_extra_info("socket")
            if self.passed:
                self._pass()

    def _pass(self) -> None:
        self.passed = True
        if self._socket is not None:
            with suppress(OSError):
                socket.socket.shutdown(
                    self._socket, socket.SHUT_RDWR
                )  # SSLSocket's own shutdown would first send a TLS close
