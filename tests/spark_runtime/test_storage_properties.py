"""Properties of object stores, as a session has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from changefeed.pipeline.store.hadoop import folder_of_session
from changefeed.spark_runtime.files import storage_properties
from changefeed.storage.objects import ObjectFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_properties_that_differ_from_hadoops_defaults(spark: SparkSession) -> None:
    own = spark.newSession()
    before = storage_properties(own)
    values = {"fs.s3a.endpoint": "http://h:1", "fs.s3a.bucket.lake.access.key": "id", "fs.azure.account.key.a.b": "k"}
    for name, value in values.items():
        own.conf.set(name, value)
    assert storage_properties(own) == before | {f"spark.hadoop.{name}": value for name, value in values.items()}
    assert storage_properties(spark) == before
    assert "spark.hadoop.fs.s3a.path.style.access" not in before, "Hadoop's own defaults are left out"


def test_a_ledger_in_an_object_store_has_the_properties_of_the_session(spark: SparkSession) -> None:
    own = spark.newSession()
    for name, value in {"endpoint": "http://127.0.0.1:1", "access.key": "id", "secret.key": "sec"}.items():
        own.conf.set(f"fs.s3a.{name}", value)
    folder = folder_of_session(own, "s3a://lake/ledger")
    assert isinstance(folder, ObjectFolder)
    assert (folder.path, folder.access.bucket, folder.root) == ("s3a://lake/ledger", "lake", "ledger")
    assert dict(folder.access.config)["aws_endpoint_url_s3"] == "http://127.0.0.1:1"
    assert folder.access.keys is not None
    assert folder.access.keys.id == "id"
