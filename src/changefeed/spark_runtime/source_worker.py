"""The worker of a streaming source, which connects before it imports pyspark.

Spark starts this worker directly, not through the daemon, and waits ten seconds for its connection, without a property to
change that. pyspark's own worker connects after all of pyspark is imported: a second of work, which takes more than ten on an
overloaded machine. This one connects first, and imports pyspark from where it is installed: from an archive each run of a
pipeline would compile it again.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from contextlib import suppress
from typing import BinaryIO, cast

from changefeed.spark_runtime.daemon import without_archives

_BUFFER = 65536


def _connected() -> BinaryIO:
    """Connects to the JVM that started this process; over TCP it requires a secret."""
    path = os.environ.get("PYTHON_WORKER_FACTORY_SOCK_PATH")
    if path is not None:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.connect(path)
        return cast(BinaryIO, sock.makefile("rwb", _BUFFER))
    host = "::1" if os.environ.get("SPARK_PREFER_IPV6", "").lower() == "true" else "127.0.0.1"
    sock = socket.create_connection((host, int(os.environ["PYTHON_WORKER_FACTORY_PORT"])))
    stream = cast(BinaryIO, sock.makefile("rwb", _BUFFER))
    secret = os.environ["PYTHON_WORKER_FACTORY_SECRET"].encode()
    stream.write(struct.pack("!i", len(secret)) + secret)
    stream.flush()
    (length,) = struct.unpack("!i", stream.read(4))
    if stream.read(length) != b"ok":
        raise ConnectionError("this worker is not known to Spark's JVM")
    return stream


def main() -> None:
    """Connects, sends the process id, and runs pyspark's worker until the JVM closes the connection.

    pyspark's worker treats the end of the connection as an error and writes it to the JVM, which no longer reads.
    """
    stream = _connected()
    stream.write(struct.pack("!i", os.getpid()))
    stream.flush()
    sys.path[:] = without_archives(sys.path)
    from pyspark.sql.streaming.python_streaming_source_runner import main as serve

    with suppress(BrokenPipeError, ConnectionResetError):
        try:
            serve(stream, stream)
        finally:
            stream.close()


if __name__ == "__main__":
    main()
