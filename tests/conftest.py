"""Fixtures for all tests: one Spark, one Kafka and one schema registry for a whole run, started at the first use.

A JVM costs seconds and a gigabyte, so tests that need one run in two groups, each on one xdist worker and with one JVM:
`jvm-pipeline` has those of `tests/pipeline`, `jvm` has the others (`pytest -n 2 --dist loadgroup`). Tests that start
processes with JVMs of their own are in the group `processes`: one after the other. All of these have the marker `spark`,
from the fixtures and the group; `make unit` runs the rest. A test without the marker that starts a JVM fails.
"""

from __future__ import annotations

import gc
import os
import secrets
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.services.kafka import KafkaBroker
    from tests.services.postgres import Postgres
    from tests.services.registry import SchemaRegistry
    from tests.services.rest_catalog import RestCatalog
    from tests.services.s3 import S3Server

# Before the workers start: all must collect the same tests. See `examples.by_turns`.
os.environ.setdefault("CHANGEFEED_TURN", str(secrets.randbelow(1 << 40)))

# Examples may take as long as they do where other tests run beside them.
settings.register_profile("without deadlines", settings(), deadline=None)
settings.load_profile("without deadlines")

_JVM_FIXTURES = {"spark", "kafka", "registry", "rest_catalog"}
_JVM_GROUPS = {"jvm", "jvm-pipeline", "processes"}
_jvms: list[str] = []  # commands that have started a JVM, in this process

# Failed assertions of suites that several files share show their values, as those of test files do.
pytest.register_assert_rewrite(
    "tests.pipeline.store.conformance",
    "tests.sinks.conformance",
    "tests.sinks.event_conformance",
    "tests.sinks.letter_conformance",
    "tests.sources.conformance",
    "tests.storage.conformance",
)


# Allocations before the garbage collector looks for cycles, 700 by default. Decoders make large batches of objects without
# cycles, and with the default a quarter of a test's time goes to searching them.
_ALLOCATIONS = 20_000


def pytest_report_header() -> str:
    """Shows what repeats this run's choice of cases."""
    return f"cases of long lists: CHANGEFEED_TURN={os.environ['CHANGEFEED_TURN']}"


class _FailuresAtOnce:
    """Names each failing test when it fails: a night that is interrupted has no summary."""

    def __init__(self, shown: pytest.TerminalReporter) -> None:
        self._shown = shown

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            why = report.longreprtext if crash is None else crash.message
            self._shown.write_line(f"\nfailed: {report.nodeid}: {why.partition(chr(10))[0]}")


def pytest_sessionstart(session: pytest.Session) -> None:
    plugins = session.config.pluginmanager
    shown = plugins.get_plugin("terminalreporter")
    if shown is not None and session.config.getoption("numprocesses", default=None):
        plugins.register(_FailuresAtOnce(shown))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keeps the tests and their parameters out of garbage collections: they stay until the end of the run."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(_ALLOCATIONS, 20, 20)
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # xdist reads the marker in its own hook of this name
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    from tests.examples import has_turn  # which reads the turn

    for item in items:
        if item.get_closest_marker("heavy") and not has_turn(item.nodeid):
            item.add_marker(pytest.mark.nightly)
        if _JVM_FIXTURES & set(getattr(item, "fixturenames", ())):
            is_of_pipelines = item.path.is_relative_to(Path(__file__).parent / "pipeline")
            item.add_marker(pytest.mark.xdist_group("jvm-pipeline" if is_of_pipelines else "jvm"))
        elif own := {"s3", "postgres"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.xdist_group(min(own)))
        if any(group in _JVM_GROUPS for marker in item.iter_markers("xdist_group") for group in marker.args):
            item.add_marker(pytest.mark.spark)


def _note_jvm(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "subprocess.Popen":
        command = [str(part) for part in (arguments[1] if isinstance(arguments[1], list | tuple) else [arguments[1]])]
        if Path(command[0]).name in ("java", "spark-submit") and "-version" not in command:
            _jvms.append(" ".join(command)[:200])


sys.addaudithook(_note_jvm)


@pytest.fixture(autouse=True)
def _no_jvm(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails a test that starts a JVM without the marker `spark`."""
    before = len(_jvms)
    yield
    if len(_jvms) > before and request.node.get_closest_marker("spark") is None:
        pytest.fail(f"starts a JVM, but is in none of the groups {sorted(_JVM_GROUPS)}: {_jvms[-1]}")


@pytest.fixture(autouse=True)
def _forget_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forgets the secrets of earlier tests, which may be ordinary words in this one's messages."""
    monkeypatch.setattr("changefeed.redaction._remembered", {})


# Each partition is a task, and its plan is made into Java again: the tables of the tests have a few rows.
_SMALL = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one session. A test that sets properties does so on `spark.newSession()`."""
    from changefeed.spark_runtime.session import session

    spark = session("changefeed-tests", master="local[2]", config=_SMALL)
    yield spark
    spark.stop()


@pytest.fixture(autouse=True)
def _forget_tables(request: pytest.FixtureRequest) -> Iterator[None]:
    """Empties Delta's cache of tables after a test: it keeps 2 to 3 MiB per table, and the tables are not read again."""
    yield
    if "spark" in request.fixturenames:
        from pyspark import SparkContext

        from changefeed.spark_runtime.jars import session_sets

        context: Any = SparkContext._active_spark_context
        if context is not None and "delta" in session_sets(context.version):
            context._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaBroker]:
    """The one broker. Each test uses topics of its own."""
    from tests.services.kafka import KafkaBroker

    with KafkaBroker() as broker:
        yield broker


@pytest.fixture(scope="session")
def registry() -> Iterator[SchemaRegistry]:
    """The one schema registry. Each test uses subjects of its own."""
    from tests.services.registry import SchemaRegistry

    with SchemaRegistry() as registry:
        yield registry


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """The one S3 server, with the bucket `lake`. Each test uses a folder of its own."""
    from tests.services.s3 import S3Server

    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="session")
def rest_catalog(s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestCatalog]:
    """The one REST catalog of Iceberg, for tables on disk and in `s3`. Each test uses namespaces of its own."""
    from tests.services.rest_catalog import RestCatalog

    with RestCatalog(tmp_path_factory.mktemp("rest-catalog"), s3) as server:
        yield server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """The one PostgreSQL server. Each test uses a database of its own."""
    from tests.services.postgres import Postgres, programs

    if programs() is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    with Postgres() as server:
        yield server
