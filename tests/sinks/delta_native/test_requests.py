"""The requests that a write costs in an object store: a log is read once before it and once after it."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from changefeed.sinks.base import WriteRequest
from changefeed.sinks.delta.sink import DeltaTables
from changefeed.sinks.writes import Append, Load, Upsert, WriteId
from changefeed.storage.folders import folder_at
from changefeed.storage.objects import ObjectFolder
from tests.services.fault_proxy import FaultProxy, lose_answer
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
