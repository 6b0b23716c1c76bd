"""A hostile schema registry costs bounded time and memory, and ends in an error with the reason."""

from __future__ import annotations

import gzip
import resource
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import repeat

import pytest

from changefeed import schema_registry
from changefeed.errors import SchemaRegistryError
from changefeed.protocols.base import RegistryOptions
from changefeed.schema_registry.bounded import MAX_BYTES

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
TEXT = b'{"schema":"{\\"type\\":\\"int\\"}"}'
SECONDS = 0.4


@contextmanager
def hostile(answer: Callable[[], Iterator[bytes]], pause: float) -> Iterator[tuple[str, list[str]]]:
    """A server that sends pieces, with a pause before each; its URL, and how each of its connections ended."""
    ended: list[str] = []
    over = threading.Event()

    def talk(connection: socket.socket) -> None:
        with connection:
            connection.recv(65_536)
            try:
                for piece in answer():
                    if over.wait(pause):
                        return
                    connection.sendall(piece)
                ended.append("whole")
            except OSError:
                ended.append("hung up")

    def accept() -> None:
        while not over.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            talk(connection)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", ended
        finally:
            over.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def get(url: str, **options: float) -> str:
    chosen = RegistryOptions(**{"timeout": SECONDS, "max_retries": 0, "retries_wait_ms": 1, **options})  # type: ignore[arg-type]
    return schema_registry.connect(url.replace("//", "//me:secret@"), chosen)[0](7)


SLOW = {
    "status line": lambda: (bytes([byte]) for byte in HEAD * 100),
    "headers": lambda: (b"X: %d\r\n" % number for number in range(400)),
    "body": lambda: iter([CHUNKED, *repeat(b"1\r\n \r\n", 400)]),
    "nothing": lambda: iter([b""] * 400),
}


@pytest.mark.parametrize("answer", SLOW.values(), ids=SLOW)
def test_an_answer_has_a_time_limit_as_a_whole(answer: Callable[[], Iterator[bytes]]) -> None:
    start = [b"HTTP/1.1 200 OK\r\n"] if answer is SLOW["headers"] else []
    with hostile(lambda: iter([*start, *answer()]), 0.05) as (url, ended), pytest.raises(SchemaRegistryError) as caught:
        get(url)
    assert str(caught.value) == f"schema registry {url} did not answer for schema 7: no complete answer within 0.4 s"
    assert caught.value.transient
    assert "whole" not in ended


def test_a_slow_answer_is_retried_a_limited_number_of_times() -> None:
    with hostile(SLOW["body"], 0.05) as (url, ended), pytest.raises(SchemaRegistryError):
        get(url, max_retries=2)
    assert len(ended) in (2, 3)  # the server may not have noticed the end of the last one yet


def _large() -> Iterator[bytes]:
    yield CHUNKED
    for _ in range(3000):
        yield b"100000\r\n" + b" " * MAX_BYTES + b"\r\n"


def _bomb() -> Iterator[bytes]:
    yield HEAD + b"Content-Encoding: gzip\r\nConnection: close\r\n\r\n"
    yield gzip.compress(b" " * (256 << 20), 9)


@pytest.mark.parametrize("answer", [_large, _bomb])
def test_an_answer_has_a_largest_size(answer: Callable[[], Iterator[bytes]]) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with hostile(answer, 0) as (url, ended), pytest.raises(SchemaRegistryError) as caught:
        get(url, timeout=60.0, max_retries=3)
    assert (
        str(caught.value) == f"schema registry {url} answered with more than 1,048,576 bytes: is it a schema registry?"
    )
    assert not caught.value.transient
    assert len(ended) <= 1
    if answer is _large:
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10


def test_an_answer_of_the_largest_size_is_accepted() -> None:
    body = TEXT + b" " * (MAX_BYTES - len(TEXT))
    with hostile(lambda: iter([HEAD + b"Content-Length: %d\r\n\r\n" % len(body), body]), 0) as (url, _):
        assert get(url, timeout=60.0) == '{"type":"int"}'


def test_the_default_is_five_seconds() -> None:
    assert RegistryOptions().timeout == 5.0
