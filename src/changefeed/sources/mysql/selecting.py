"""Rows of a SELECT as columns of bytes.

    server ─▶ packets ─┬─▶ kernel ──────────────────▶ columns
                       └─▶ PyMySQL ─▶ rows of bytes ─▶ columns       the same without a kernel

Rule 1. Rows come in parts, so that memory does not depend on their number: a part ends behind `MOST_ROWS` rows, or with the
        kernel behind `MOST_BYTES` bytes.
Rule 2. Behind the last row the connection is free for other queries; before it, it can only be closed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from changefeed.codec import decoding
from changefeed.sources.mysql.connection import check_end, lost, received

if TYPE_CHECKING:
    from pymysql.connections import Connection

MOST_ROWS = 20_000
MOST_BYTES = 2**26
_QUERY = 0x03


def select(connection: Connection[Any], query: str) -> Iterator[list[pa.BinaryArray]]:
    """Yields the rows of a SELECT in parts, each as its columns, with NULL where a row has NULL; nothing if there are no rows.

    Raises:
        pymysql.MySQLError: the server refuses the query, or the connection is lost.
        SourceError: the server sends something else.
    """
    from pymysql.connections import MySQLResult

    connection._execute_command(_QUERY, query)
    result = MySQLResult(connection)
    result.init_unbuffered_query()
    result.unbuffered_active = False  # PyMySQL has read the names of the columns, and waits for nothing more
    by_kernel = hasattr(decoding.changefeed_kernel, "TextRows")
    yield from (split_by_kernel if by_kernel else split_by_reference)(connection, result.field_count)


def split_by_kernel(connection: Connection[Any], width: int) -> Iterator[list[pa.BinaryArray]]:
    """Yields the rows of so many columns that the server sends next, in parts."""
    rows = decoding.changefeed_kernel.TextRows(columns=width, sequence=connection._next_seq_id)
    while True:
        stop, payload = rows.run(MOST_ROWS, MOST_BYTES)
        if stop == "full":
            yield rows.finish()
        elif stop == "more":
            rows.feed(received(connection))
        elif payload is None:
            raise lost()
        else:
            check_end(payload, f"{connection.host}:{connection.port} sent something that is not a row of a query")
            last = rows.finish()
            if len(last[0]):
                yield last
            return


def split_by_reference(connection: Connection[Any], width: int) -> Iterator[list[pa.BinaryArray]]:
    """Does the same as `split_by_kernel`, row by row."""
    rows = list[list[bytes | None]]()
    while not (packet := connection._read_packet()).is_eof_packet():
        rows.append([packet.read_length_coded_string() for _ in range(width)])
        if len(rows) == MOST_ROWS:
            yield _columns(rows)
            rows = []
    if rows:
        yield _columns(rows)


def _columns(rows: list[list[bytes | None]]) -> list[pa.BinaryArray]:
    return [pa.array(values, pa.binary()) for values in zip(*rows, strict=True)]
