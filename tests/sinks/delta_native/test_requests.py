"""The requests that a write costs in an object store: a log is read once before it and once after it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from changefeed.errors import SinkError
from changefeed.sinks.base import WriteRequest
from changefeed.sinks.delta.sink import DeltaTables
from changefeed.sinks.writes import Append, Load, Upsert, WriteId
from changefeed.storage.folders import folder_at
from changefeed.storage.objects import ObjectFolder
from tests.services.fault_proxy import FaultProxy, lose_answer, truncate
from tests.services.s3 import S3Server
from tests.sinks.contract import Given, Row, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS, LOG = table("*id int", "note varchar(20)"), table("at int", "note varchar(20)", name="log")
OWNER, PATH = "changefeed:test:1", "shop/orders"


@pytest.mark.parametrize("write_mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize("kind", [Upsert, Append])
@pytest.mark.parametrize("loses_answer", [False, True])
def test_a_write_reads_a_log_once_before_it_and_once_after_it(
    loses_answer: bool, kind: type[Upsert | Append], write_mode: str, spark: SparkSession, s3: S3Server
) -> None:
    of = ORDERS if kind is Upsert else LOG
    with FaultProxy(s3.url) as proxy:
        root = f"s3://lake/{uuid.uuid4().hex}"
        folder = folder_at(root, s3.storage(proxy.url))
        assert isinstance(folder, ObjectFolder)
        sink = DeltaTables(root, (), spark, OWNER, merges_on_read=write_mode == "merge-on-read", folder=folder)
        rows: list[Row] = [{of.columns[0].name: number, "note": "x"} for number in range(3)]
        load = WriteRequest(Load(path=PATH, number=1, table=of), Given(of, tuple(rows)), WriteId(1, 1, 1), "{}")
        sink.apply(*sink.prepare([load]))
        assert sink.snapshot(PATH) is not None
        proxy.clear()
        if loses_answer:
            proxy.add(lose_answer, "PUT", "_delta_log")
        before = sink.snapshot(PATH)
        assert before is not None
        write = kind(path=PATH, number=1, table=of)
        request = WriteRequest(write, Given(of, (rows[1],)), WriteId(1, 2, 1), "{}", before.revision)
        sink.apply(*sink.prepare([request]))
        after = sink.snapshot(PATH)
    assert after is not None
    assert (after.revision, after.write_id) == (before.revision + 1, WriteId(1, 2, 1))
    counts = [proxy.count(method, "_delta_log") for method in ("GET", "HEAD", "PUT")]
    assert counts == [4 if loses_answer else 3, 2, 1]


def test_a_log_that_cannot_be_read_for_a_while_is_not_damaged(spark: SparkSession, s3: S3Server) -> None:
    """The session has Delta, whose own reader has no way to the bucket."""
    with FaultProxy(s3.url) as proxy:
        root = f"s3://lake/{uuid.uuid4().hex}"
        folder = folder_at(root, s3.storage(proxy.url))
        assert isinstance(folder, ObjectFolder)
        rows = ({"id": 1, "note": "x"},)
        load = WriteRequest(Load(path=PATH, number=1, table=ORDERS), Given(ORDERS, rows), WriteId(1, 1, 1), "{}")
        sink = DeltaTables(root, (), spark, OWNER, folder=folder)
        sink.apply(*sink.prepare([load]))
        upsert = WriteRequest(Upsert(path=PATH, number=1, table=ORDERS), Given(ORDERS, rows), WriteId(1, 2, 1), "{}")
        proxy.add(truncate, "GET", r"_delta_log/0", times=None)
        reads: list[Callable[[DeltaTables], object]] = [
            lambda sink: sink.snapshot(PATH),
            lambda sink: sink.is_newest(PATH, 0),
            lambda sink: sink.damaged_files(PATH, 0),
            lambda sink: sink.prepare([upsert]),
        ]
        for read in reads:
            with pytest.raises(SinkError, match=r"_delta_log|cannot be read") as raised:
                read(DeltaTables(root, (), spark, OWNER, folder=folder))
            assert raised.value.transient, raised.value
        proxy.clear()
        for read in reads:
            read(DeltaTables(root, (), spark, OWNER, folder=folder))
