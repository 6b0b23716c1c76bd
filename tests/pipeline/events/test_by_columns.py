"""Rows of a server's own log have the same bytes whether the kernel writes them or the encoder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from changefeed.codec import decoding
from changefeed.codec.encoding import KernelEncoder, encoder
from changefeed.model.batch import Decoded
from changefeed.sources.mysql import open_stream
from changefeed.sources.mysql.section import MySqlSource
from tests.services.database import MariaDb

OPTIONS = {
    "connector": "mariadb", "topic.prefix": "srv", "provide.transaction.metadata": True, "replace-null-with-default": True,
    "include.query": True,
}  # fmt: skip


@pytest.fixture(scope="module")
def changes() -> Iterator[list[Decoded]]:
    """A snapshot, and the log behind it: inserts, updates, changed keys and deletes of many rows."""
    with MariaDb("--sql-mode=") as database:
        database.execute(
            "CREATE DATABASE shop; CREATE TABLE shop.orders (a INT, b INT COMMENT 'key', "
            "day DATE NOT NULL DEFAULT '2024-01-02', at TIMESTAMP(3) NULL, note VARCHAR(9) DEFAULT 'x', PRIMARY KEY (b, a))"
        )
        rows = ", ".join(f"({n}, {n}, '{'0000-00-00' if n % 7 == 0 else '2024-05-06'}', NULL, NULL)" for n in range(40))
        database.execute(f"INSERT INTO orders VALUES {rows}", "shop")
        section = MySqlSource.model_validate(
            {
                "type": "mysql",
                "host": "127.0.0.1",
                "port": database.port,
                "user": "dbz",
                "password": "dbz",
                "tables": ["shop.*"],
            }
        )
        stream = open_stream(section, {})
        batches = list(stream.batches(None))
        database.execute(
            "BEGIN; UPDATE orders SET note = 'y'; UPDATE orders SET a = a + 100 WHERE a < 5; DELETE FROM orders WHERE a > 20;"
            "COMMIT; INSERT INTO orders (a, b) SELECT seq, 777 FROM seq_1_to_30",
            "shop",
        )
        batches += stream.batches(batches[-1].source_offset)
        stream.close()
        yield [batch.changes for batch in batches]


@pytest.mark.skipif(decoding.changefeed_kernel is None, reason="the kernel is not installed")
@pytest.mark.parametrize("schemas", [True, False])
def test_the_kernel_writes_what_the_encoder_writes(changes: list[Decoded], schemas: bool) -> None:
    options = OPTIONS | {"schemas.enable": schemas}
    kernel, reference = encoder("debezium-mysql", options), encoder("debezium-mysql", options, kernel="off")
    assert isinstance(kernel, KernelEncoder)
    for each in changes:
        assert kernel.encode(each).to_pylist() == reference.encode(each).to_pylist()
    rows = sum(len(table) for each in changes for table in each.tables)
    assert kernel.unmatched < rows / 3
