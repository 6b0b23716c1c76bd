"""The definition in the guide, from a live server into Iceberg tables on S3 with names in Glue."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from pyiceberg.catalog import load_catalog

import changefeed as cf
from changefeed.pipeline.ledger import read_ledger
from tests.docs.fenced import blocks
from tests.docs.shown import ROOT
from tests.services.database import MariaDb
from tests.services.s3 import S3Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GUIDE = ROOT / "docs/guides/iceberg.md"


def shown() -> dict[str, Any]:
    """The definition that the guide shows."""
    whole: list[dict[str, Any]] = [yaml.safe_load(block) for block in blocks(GUIDE, "yaml")]
    (chosen,) = [block for block in whole if block.get("source", {}).get("type") == "mysql"]
    return chosen


@pytest.mark.nightly
def test_from_mysql_on_s3_with_glue(
    spark: SparkSession, s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers and credentials are those of the tests, all else is as the guide shows it."""
    monkeypatch.setenv("MYSQL_PASSWORD", "dbz")
    s3.make_bucket("lake-of-the-guide")
    definition = shown()
    glue = {"glue.endpoint": s3.url, "glue.access-key-id": s3.keys[0], "glue.secret-access-key": s3.keys[1]}
    definition["sink"]["path"] = "s3://lake-of-the-guide/tables"
    definition["sink"]["catalog-properties"] |= glue
    definition["storage"] |= {"endpoint": s3.url, "access-key-id": s3.keys[0], "secret-access-key": s3.keys[1]}
    with MariaDb() as database:
        definition["source"] |= {"host": "127.0.0.1", "port": database.port, "user": "dbz"}
        database.execute(
            "CREATE DATABASE shop; CREATE TABLE shop.orders (id INT PRIMARY KEY, note VARCHAR(20));"
            "INSERT INTO shop.orders VALUES (1, 'first'), (2, NULL)"
        )
        file = tmp_path / "pipeline.yaml"
        file.write_text(yaml.safe_dump(definition))
        pipeline = cf.Pipeline.load(file)
        pipeline.run(spark)
        database.execute("USE shop; UPDATE orders SET note = 'later' WHERE id = 2; DELETE FROM orders WHERE id = 1")
        pipeline.run(spark)
    latest = read_ledger(pipeline.definition).latest()
    assert latest is not None
    version = latest.state.tables["shop.orders"].version
    files = {
        "s3.endpoint": s3.url,
        "s3.region": "us-east-1",
        "s3.access-key-id": s3.keys[0],
        "s3.secret-access-key": s3.keys[1],
    }
    catalog = load_catalog("reader", type="glue", **{"glue.region": "eu-central-1"}, **glue, **files)
    rows = catalog.load_table("shop.orders").scan(snapshot_id=version).to_arrow().to_pylist()
    assert rows == [{"id": 2, "note": "later"}]
    by_check = [one for one in pipeline.check().checks if one.name == "catalog"]
    assert [one.status for one in by_check] == ["ok"]
