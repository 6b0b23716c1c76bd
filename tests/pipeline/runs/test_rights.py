"""Users of a bucket who may not delete: a run stops with the right that is missing, and goes on once it is there."""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from changefeed.errors import AccessError
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.monitoring import heartbeat
from changefeed.pipeline.monitoring.view import RunNow
from changefeed.pipeline.operations.check import checks
from changefeed.pipeline.operations.status import status
from changefeed.pipeline.run import run
from changefeed.pipeline.store import files
from changefeed.storage.folders import folder_at
from tests.pipeline.kit.history import small_history
from tests.pipeline.kit.in_bucket import into_bucket
from tests.pipeline.kit.oracle import History
from tests.pipeline.kit.running import check_cuts, definition, published
from tests.services.fault_proxy import Fault, FaultProxy, Request, error_answer
from tests.services.s3 import S3Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RIGHT = (
    "(AccessDenied: Access Denied{key}). Correct them, or give their user the right (s3:DeleteObject, on Azure Storage Blob Data "
    "Contributor, on Google storage.objects.delete)"
)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path, _ = small_history(tmp_path_factory.mktemp("history") / "app.jsonl")
    return path


@pytest.fixture
def proxy(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultProxy]:
    """Before a server that has the bucket; the tests' own reader of tables asks the server."""
    for name, value in s3.environ.items():
        monkeypatch.setenv(name, value)
    with FaultProxy(s3.url) as proxy:
        yield proxy


def keeping(place: str) -> Fault:
    """Refuses to delete files whose keys match an expression: one file, or several in one request."""

    def fault(request: Request) -> None:
        deletes = request.method == "DELETE" or (request.method == "POST" and "delete" in request.path)
        if deletes and re.search(place, f"{request.path}\n{request.body.decode()}"):
            request.answer(error_answer(403, "AccessDenied", "Access Denied"))
        else:
            request.answer(request.forward())

    return fault


def _pipeline(log: Path, s3: S3Server, url: str, lake: str) -> Definition:
    return into_bucket(definition(log, Path("lake"), limit=20, parallelism=1), lake, s3.storage(url))


def _files(pipeline: Definition, below: str) -> list[str]:
    folder = folder_at(f"{pipeline.sink.path}/_changefeed/{below}", pipeline.storage)
    assert folder is not None
    return [info.name for info in folder.files_below()]


def test_a_user_who_may_never_delete_is_refused_before_a_table_is_made(
    spark: SparkSession, log: Path, tmp_path: Path
) -> None:
    """A server that checks the rights of its users."""
    with S3Server(tmp_path, rights=["s3:GetObject", "s3:ListBucket", "s3:PutObject"]) as s3:
        pipeline = _pipeline(log, s3, s3.url, "s3://lake/shop")
        pending = "shop/_changefeed/pending"
        for place in (f"{pending}/…", pending):  # the second run first deletes what the first one has left
            with pytest.raises(AccessError) as caught:
                run(pipeline, spark, once=True)
            assert re.sub(r"000001-[0-9a-f]{32}|_[0-9a-f]{32}", "…", str(caught.value)) == (
                f"s3://lake/{place}: these credentials may not delete in bucket 'lake' at {s3.url} "
                + RIGHT.format(key=f": {pending}/…/….parquet")
            )
        assert published(pipeline) == []
        folder = folder_at("s3://lake/shop", pipeline.storage)
        assert folder is not None
        assert folder.folders() == ["_changefeed"]
        (sink,) = [check for check in checks(pipeline) if check.name == "sink"]
        assert sink.status == "fail"
        assert "these credentials may not delete in bucket 'lake'" in sink.message


@pytest.mark.parametrize("place", ["/pending/[^/]+/_", "/pending/[^/]+/part-", "/ledger/log/"])
def test_a_run_whose_user_may_not_delete_stops_and_goes_on_with_the_right(
    place: str, spark: SparkSession, s3: S3Server, proxy: FaultProxy, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that cannot be deleted do no damage: those that a run has staged, those of a published cut, old entries."""
    monkeypatch.setattr(files, "_PAGE", 2)
    pipeline = _pipeline(log, s3, proxy.url, f"s3://lake/{uuid.uuid4().hex}")
    proxy.add(keeping(place), times=None)
    cuts = []
    for _ in range(3):
        with pytest.raises(AccessError, match=re.escape(RIGHT.format(key="")) + "$"):
            run(pipeline, spark, once=True)
        cuts.append(len(published(pipeline)))
    assert (cuts[0] > 0) == ("_" not in place.replace("part-", "")), "clean-up comes after the cut"
    if cuts[0]:
        check_cuts(pipeline, History(log))
    proxy.clear()
    run(pipeline, spark, once=True)
    check_cuts(pipeline, History(log))
    counts = published(pipeline)[-1].state.counts
    assert (counts.applied, counts.pending, counts.repeated) == (counts.rows - 1, 1, 0)
    named = {*published(pipeline)[-1].state.pending}
    assert {name.partition("/")[0] for name in _files(pipeline, "pending")} == named


def test_a_heartbeat_that_cannot_be_deleted_does_not_stop_a_run(
    spark: SparkSession, s3: S3Server, proxy: FaultProxy, log: Path, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    caplog.set_level(logging.INFO, heartbeat.__name__)
    pipeline = _pipeline(log, s3, proxy.url, f"s3://lake/{uuid.uuid4().hex}")
    proxy.add(keeping("/heartbeat/"), times=None)
    shown = list[RunNow]()
    for _ in range(2):
        run(pipeline, spark, once=True, watching=shown.append)
    check_cuts(pipeline, History(log))
    assert [now.ended for now in shown].count(True) == 2, "the end of each run is shown"
    assert 1 <= len(caplog.messages) <= 2, "at most once a run"
    place = f"{pipeline.sink.path}/_changefeed/heartbeat"
    assert caplog.messages[0].startswith(f"{place}: old heartbeats cannot be deleted: {place}")
    assert caplog.messages[0].endswith(RIGHT.format(key=""))
    assert len(_files(pipeline, "heartbeat")) >= 2
    now = status(pipeline).run
    assert now is not None
    assert (now.epoch, now.ended) == (2, True)
