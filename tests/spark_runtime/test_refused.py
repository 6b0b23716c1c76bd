"""The errors that Spark passes on when a Python worker refuses or cannot be started, tested on one machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from changefeed.errors import ConfigError
from changefeed.pipeline.edge import as_ours
from changefeed.spark_runtime import workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIX = "Ship this installation: `changefeed package` makes the archive that spark.archives names"


def _work(spark: SparkSession) -> None:
    spark.range(0, 1, 1, 1).mapInArrow(lambda batches: batches, "id long").collect()


def test_the_message_of_a_daemon_that_refuses_arrives(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = workers.in_environment(workers.expected() | {"version": "9.9"})
    monkeypatch.setitem(spark.sparkContext.environment, workers.VARIABLE, wanted)
    with (
        pytest.raises(ConfigError, match=rf"^the worker on \S+ has changefeed 0\.1\.0, the driver 9\.9\. {FIX}"),
        as_ours(),
    ):
        _work(spark)


def test_a_daemon_that_lacks_nothing_goes_on(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(spark.sparkContext.environment, workers.VARIABLE, workers.in_environment(workers.expected()))
    _work(spark)


def test_a_python_that_is_not_there_is_named(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/nowhere/python")
    with pytest.raises(ConfigError, match=rf"has no Python at /nowhere/python\. {FIX}$"), as_ours():
        _work(spark)
