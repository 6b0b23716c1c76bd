"""The page over a pipeline in a bucket of S3, by its definition and by the URL of its folder; rows of tables there."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import WriterProperties, write_deltalake

from changefeed.errors import ConfigError
from changefeed.pipeline.letter_files import LetterFiles
from changefeed.pipeline.monitoring.heartbeat import Heartbeat
from changefeed.pipeline.store.files import FileStore
from changefeed.sinks.delta.row import KeyReader
from changefeed.storage import Folder
from changefeed.storage.folders import folder_at
from tests.monitor import pipelines
from tests.monitor.site import Outline, Site

if TYPE_CHECKING:
    from tests.services.s3 import S3Server

STEPS = 120  # some of them packed


@pytest.fixture(scope="module")
def bucket(s3: S3Server) -> str:
    """The URL of a pipeline's lake, with a ledger, a heartbeat and dead letters."""
    lake = "s3://lake/monitor/orders"

    def folder(name: str) -> Folder:
        opened = folder_at(f"{lake}/_changefeed/{name}", s3.storage())
        assert opened is not None
        return opened

    store = FileStore(folder("ledger"), "orders")
    store.claim()
    for step in range(1, STEPS + 1):
        store.finish(pipelines.state(step, ("a", "b")))
    Heartbeat(folder("heartbeat")).write(pipelines.now("orders"))
    LetterFiles(folder("dead_letters")).write([pipelines.letter(n) for n in (1, 2)])
    return lake


def _define(folder: Path, s3: S3Server, lake: str, secret: str) -> str:
    storage = f"{{endpoint: {s3.url}, region: us-east-1, access-key-id: {s3.keys[0]}, secret-access-key: {secret}}}"
    path = folder / "pipeline.yaml"
    path.write_text(
        "source: {type: files, path: x.jsonl, protocol: ticdc-open}\n"
        f"sink: {{type: delta, path: {lake}}}\npipeline: {{name: orders}}\nstorage: {storage}\n"
    )
    return str(path)


@pytest.mark.parametrize("by", ["definition", "folder"])
def test_every_page_of_a_pipeline_in_a_bucket(
    by: str, s3: S3Server, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3.environ.items():  # for the folder; the definition has its own
        monkeypatch.setenv(name, value if by == "folder" else "")
    place = _define(tmp_path, s3, bucket, s3.keys[1]) if by == "definition" else "s3://lake/monitor"
    with Site([place]) as site:
        (shown,) = site.json("/overview.json")["pipelines"]
        assert (shown["name"], shown["state"], shown["step"]) == ("orders", "running", STEPS)
        assert (shown["tables"], shown["dead_letters"]) == (2, 2)
        own = f"/pipelines/{shown['id']}"
        steps = site.json(f"{own}.json")["steps"] + site.json(f"{own}.json?before=61")["steps"]
        assert [one["step"] for one in steps] == list(range(STEPS, 0, -1))
        assert site.json(f"{own}/letter.json?position=orders:0:2")["table"] == "shop.a"
        for path in ("", "/tables", "/table?name=shop.a", "/letters", "/letter?position=orders:0:1"):
            assert Outline(site.html(own + path)).unclosed == []


def test_a_row_in_versions_of_a_table_in_a_bucket(s3: S3Server) -> None:
    """Two files and two row groups; values of several types as text."""
    url, day = "s3://lake/monitor/rows", date(2026, 1, 31)
    rows: list[dict[str, Any]] = [
        {"id": n, "price": Decimal(n) / 4, "day": day, "raw": bytes([n, 0]), "n": n} for n in range(100)
    ]
    for more in (0, 100):
        table = pa.Table.from_pylist([{**row, "n": row["n"] + more} for row in rows[more // 2 :]])
        properties = WriterProperties(max_row_group_size=30)
        write_deltalake(url, table, mode="append", storage_options=s3.environ, writer_properties=properties)
    folder = folder_at(url, s3.storage())
    assert folder is not None
    for key in ({"id": "70"}, {"price": "17.5", "day": "2026-01-31"}, {"raw": "0x4600"}):
        reader = KeyReader(folder, key)
        assert [row["n"] for row in reader.at(0)] == [70], key
        assert sorted(row["n"] for row in reader.at(1)) == [70, 170], key
    assert KeyReader(folder, {"id": "20"}).at(1) == KeyReader(folder, {"id": "20"}).at(0) != []
    assert KeyReader(folder, {"id": "1000"}).at(1) == []
    with pytest.raises(ConfigError, match=r"^the table's files have no column other$"):
        KeyReader(folder, {"other": "1"}).at(1)
    with pytest.raises(ConfigError, match=r"^'x' is not a value of the column id, int64$"):
        KeyReader(folder, {"id": "x"}).at(1)


def test_a_bucket_that_does_not_exist_is_shown_with_its_error(s3: S3Server, tmp_path: Path) -> None:
    with Site([_define(tmp_path, s3, "s3://no-such-lake/orders", "very-secret-words")]) as site:
        (shown,) = site.json("/overview.json")["pipelines"]
        assert shown["state"] == "unreadable"
        assert "no-such-lake" in shown["error"]
        assert "very-secret-words" not in site.html("/")
