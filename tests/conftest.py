"""Fixtures that every folder of tests may use: one Spark, one Kafka, one schema registry for a whole run, when asked for.

A JVM costs seconds and a gigabyte, so tests that need one all run on the same xdist worker, and the other worker has
the rest: `pytest -n 2 --dist loadgroup`. Those that start processes with JVMs of their own are among the rest, in the
group `processes`: one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.services.kafka import KafkaBroker
    from tests.services.registry import SchemaRegistry

_JVM_FIXTURES = {"spark", "kafka", "registry"}


@pytest.hookimpl(tryfirst=True)  # xdist reads the marker in its own hook of this name
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _JVM_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.xdist_group("jvm"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one session. A test that sets properties does so on `spark.newSession()`."""
    from changefeed.spark.session import session

    spark = session("changefeed-tests", master="local[2]", config={"spark.driver.memory": "1g"})
    yield spark
    spark.stop()


@pytest.fixture(autouse=True)
def _forget_tables(request: pytest.FixtureRequest) -> Iterator[None]:
    """Empties Delta's cache of tables after a test: it keeps 2 to 3 MiB for each, and tables of tests are not read again."""
    yield
    if "spark" in request.fixturenames:
        from pyspark import SparkContext

        context: Any = SparkContext._active_spark_context
        if context is not None:
            context._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaBroker]:
    """The one broker. A test takes topics of its own."""
    from tests.services.kafka import KafkaBroker

    with KafkaBroker() as broker:
        yield broker


@pytest.fixture(scope="session")
def registry() -> Iterator[SchemaRegistry]:
    """The one schema registry. A test takes subjects of its own."""
    from tests.services.registry import SchemaRegistry

    with SchemaRegistry() as registry:
        yield registry
