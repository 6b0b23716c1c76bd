from __future__ import annotations

import datetime as dt
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest
from deltalake import DeltaTable

from changefeed.errors import ConfigError, MissingExtraError
from changefeed.spark_runtime import jars, properties, workers
from changefeed.spark_runtime import session as module

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A process of its own: its folder and its stderr are what a user sees.
SCRIPT = """
import pyarrow as pa
from changefeed.spark_runtime.session import session

def twice(batches):
    for batch in batches:
        yield pa.record_batch([pa.compute.multiply(batch.column(0), 2)], ["id"])

spark = session("quiet", master="local[2]", config={"spark.driver.memory": "700m", "spark.sql.shuffle.partitions": "3"})
spark.sql("CREATE TABLE t (id BIGINT) USING delta")
spark.range(10_000).mapInArrow(twice, "id long").write.format("delta").mode("append").saveAsTable("t")
print(spark.sql("SELECT count(*), sum(id) FROM t").first(), spark.conf.get("spark.sql.shuffle.partitions"))
spark.stop()
again = session("again", master="local[1]")
print(again.range(3).count(), again.sparkContext.appName, again.conf.get("spark.sql.shuffle.partitions"))
"""


def run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, timeout=240)


@pytest.mark.heavy
@pytest.mark.xdist_group("processes")
def test_a_session_is_quiet_leaves_no_files_and_can_be_started_again(tmp_path: Path) -> None:
    ran = run(SCRIPT, tmp_path)
    assert ran.stderr == ""
    assert ran.stdout.splitlines() == ["Row(count(1)=10000, sum(id)=99990000) 3", "3 again 2"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.xdist_group("processes")
def test_a_jvm_that_does_not_start_is_reported_with_the_reason(tmp_path: Path) -> None:
    script = (
        'from changefeed.spark_runtime.session import session; session("x", config={"spark.driver.memory": "900000g"})'
    )
    ran = run(script, tmp_path)
    assert ran.returncode == 1
    last = ran.stderr.splitlines()[-1]
    assert last.startswith("changefeed.errors.ConfigError: Spark's JVM did not start: ")
    assert "Could not reserve enough space" in last


def test_a_second_call_is_the_same_session(spark: SparkSession) -> None:
    assert module.session("another-name")._jsparkSession.equals(spark._jsparkSession)


def test_plans_are_compiled_on_request(spark: SparkSession) -> None:
    own = spark.newSession()

    def is_compiled() -> bool:
        """Spark marks the stages that it compiles with stars."""
        plan: str = own.range(3).selectExpr("id + 1")._jdf.queryExecution().executedPlan().toString()
        return plan.startswith("*(1)")

    assert not is_compiled()
    with module.compiled(own):
        assert is_compiled()
        assert own.conf.get("spark.sql.codegen.factoryMode") == "FALLBACK"
    assert not is_compiled()
    assert own.conf.get("spark.sql.codegen.factoryMode") == "NO_CODEGEN"


def test_a_session_that_compiles_by_default_follows_the_option(spark: SparkSession) -> None:
    own = spark.newSession()
    own.conf.unset("spark.changefeed.plans")  # like a session that was passed in
    with module.compiled(own):
        assert own.conf.get("spark.sql.codegen.factoryMode") == "NO_CODEGEN"


def test_tests_that_need_a_jvm_share_a_worker(spark: SparkSession, request: Any) -> None:
    if os.environ.get("PYTEST_XDIST_WORKER") and request.config.getoption("loadgroup"):
        assert request.node.nodeid.endswith("@jvm")


def test_a_delta_table_is_read_by_another_implementation_as_spark_wrote_it(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    spark.sql(f"CREATE TABLE delta.`{path}` (id BIGINT, name STRING, at TIMESTAMP) USING delta")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, 'é', TIMESTAMP'2024-02-29 12:00:00'), (2, NULL, NULL)")
    spark.sql(
        f"MERGE INTO delta.`{path}` t "
        "USING (SELECT 2L AS id, 'two' AS name UNION ALL SELECT 3L, 'three') s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET name = s.name WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, s.name)"
    )
    noon = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)
    expected = [(1, "é", noon), (2, "two", None), (3, "three", None)]
    read = DeltaTable(path).to_pyarrow_table().sort_by("id").to_pylist()
    assert [tuple(row.values()) for row in read] == expected
    rows = spark.read.format("delta").load(path).orderBy("id").select("id", "name").collect()
    assert [tuple(row) for row in rows] == [row[:2] for row in expected]
    assert all(".zstd." in file for file in DeltaTable(path).file_uris())


def test_a_delta_commit_carries_metadata_and_is_skipped_when_repeated(spark: SparkSession, tmp_path: Path) -> None:
    own = spark.newSession()
    path = str(tmp_path / "t")
    own.sql(f"CREATE TABLE delta.`{path}` (id BIGINT) USING delta")
    own.conf.set("spark.databricks.delta.write.txnAppId", "pipeline")
    own.conf.set("spark.databricks.delta.write.txnVersion", "7")
    own.conf.set("spark.databricks.delta.commitInfo.userMetadata", "step 7")
    for _ in range(2):
        own.sql(f"MERGE INTO delta.`{path}` t USING (SELECT 1L AS id) s ON false WHEN NOT MATCHED THEN INSERT *")
    table = DeltaTable(path)
    assert table.version() == 1
    assert table.transaction_version("pipeline") == 7
    assert table.history(1)[0]["userMetadata"] == "step 7"


def test_timestamps_are_utc_in_any_zone_of_the_machine(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    [(seconds,)] = spark.sql("SELECT unix_seconds(TIMESTAMP'1970-01-02 00:00:00')").collect()
    assert seconds == 86400


def test_python_sees_batches_of_four_thousand(spark: SparkSession) -> None:
    def sizes(batches: Any) -> Any:
        import pyarrow as pa

        for batch in batches:
            yield pa.record_batch([pa.array([batch.num_rows])], ["rows"])

    rows = spark.range(0, 10_000, 1, 1).mapInArrow(sizes, "rows long").collect()
    assert [row.rows for row in rows] == [4000, 4000, 2000]


def test_workers_run_this_python(spark: SparkSession) -> None:
    def prefix(batches: Any) -> Any:
        import sys

        import pyarrow as pa

        for _ in batches:
            yield pa.record_batch([pa.array([sys.prefix])], ["prefix"])

    [row] = spark.range(0, 1, 1, 1).mapInArrow(prefix, "prefix string").collect()
    assert row.prefix == sys.prefix


@pytest.mark.parametrize(
    "name, logged",
    [
        ("org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution", False),
        ("org.apache.spark.sql.execution.datasources.FileFormatWriter", False),
        ("org.apache.spark.executor.Executor", False),
        ("org.apache.spark.scheduler.TaskSetManager", False),
        ("org.apache.spark.sql.delta.files.DeltaFileFormatWriter", False),
        ("org.apache.spark.sql.delta.commands.MergeIntoCommand", False),
        ("org.apache.spark.util.Utils", True),
        ("org.apache.spark.SparkContext", True),
    ],
)
def test_a_failure_is_reported_once_by_the_part_that_waits_for_it(spark: SparkSession, name: Any, logged: Any) -> None:
    jvm: Any = spark._jvm
    assert jvm.org.apache.logging.log4j.LogManager.getLogger(name).isErrorEnabled() is logged


SCRATCH = Path("/tmp/a b")
SETS = ("delta", "kafka")


@pytest.fixture
def no_jars(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(jars, "paths", lambda *names: [Path(f"/jars/{name}.jar") for name in names])


@pytest.mark.parametrize(
    "heap, tables", [("2g", "136"), ("640m", "50"), ("1024", "68"), ("8GB", "546"), ("1t", "69905"), ("?", "50")]
)
def test_delta_remembers_no_more_tables_than_the_heap_holds(no_jars: Any, heap: Any, tables: Any) -> None:
    name = "spark.databricks.delta.delta.log.cacheSize"
    assert properties.one_machine({"spark.driver.memory": heap}, SCRATCH, SETS)[name] == tables
    assert properties.one_machine({"spark.driver.memory": heap, name: "7"}, SCRATCH, SETS)[name] == "7"


def test_the_callers_properties_win(no_jars: Any) -> None:
    merged = properties.one_machine(
        {"spark.driver.memory": "9g", "spark.sql.warehouse.dir": "/w", "spark.x": "1"}, SCRATCH, SETS
    )
    assert merged["spark.driver.memory"] == "9g"
    assert merged["spark.sql.warehouse.dir"] == "/w"
    assert merged["spark.x"] == "1"
    assert merged["spark.sql.session.timeZone"] == "UTC"


@pytest.mark.parametrize(
    "name, value",
    [
        ("codegen.wholeStage", "true"),
        ("codegen.wholeStage", "false"),
        ("codegen.factoryMode", "FALLBACK"),
        ("adaptive.enabled", "true"),
    ],
)
def test_a_callers_planner_settings_replace_all_defaults(no_jars: Any, name: Any, value: Any) -> None:
    assert properties.one_machine({}, SCRATCH, SETS)["spark.changefeed.plans"] == "interpreted"
    merged = properties.one_machine({f"spark.sql.{name}": value}, SCRATCH, SETS)
    assert "spark.changefeed.plans" not in merged
    assert {k: v for k, v in merged.items() if "codegen" in k or "adaptive" in k} == {f"spark.sql.{name}": value}


def test_jars_and_java_options_are_joined_with_the_callers(no_jars: Any) -> None:
    mine = {
        "spark.jars": "/my.jar",
        "spark.driver.extraClassPath": "/a:/b",
        "spark.driver.extraJavaOptions": "-Dmine=1",
    }
    merged = properties.one_machine(mine, SCRATCH, SETS)
    assert merged["spark.jars"] == "/my.jar"
    assert merged["spark.driver.extraClassPath"] == "/a:/b:/jars/delta.jar:/jars/kafka.jar"
    ours, folder, collector, compiler, compiled, last = shlex.split(merged["spark.driver.extraJavaOptions"])
    assert (collector, compiler) == ("-XX:+UseParallelGC", "-XX:TieredStopAtLevel=1")
    assert compiled == "-XX:ReservedCodeCacheSize=128m"
    assert ours.startswith("-Dlog4j2.configurationFile=file:///")
    assert Path(ours.removeprefix("-Dlog4j2.configurationFile=file://")).is_file()
    assert folder == "-Djava.io.tmpdir=/tmp/a b"
    assert last == "-Dmine=1"


@pytest.mark.parametrize("option", ["-XX:TieredStopAtLevel=4", "-XX:-TieredCompilation", "-Xint"])
def test_a_compiler_that_the_caller_chose_stays(no_jars: Any, option: str) -> None:
    merged = properties.one_machine({"spark.driver.extraJavaOptions": option}, SCRATCH, SETS)
    words = shlex.split(merged["spark.driver.extraJavaOptions"])
    assert [word for word in words if "Tiered" in word or "Xint" in word or "CodeCache" in word] == [option]


def test_sparks_files_are_in_a_folder_that_is_deleted(no_jars: Any) -> None:
    merged = properties.one_machine({}, SCRATCH, SETS)
    assert (merged["spark.local.dir"], merged["spark.sql.warehouse.dir"]) == ("/tmp/a b", "/tmp/a b/warehouse")
    assert properties.one_machine({"spark.local.dir": "/mine"}, SCRATCH, SETS)["spark.local.dir"] == "/mine"


def test_sockets_are_not_in_a_folder_with_a_name_too_long_for_them(no_jars: Any) -> None:
    assert (
        "java.io.tmpdir" not in properties.one_machine({}, Path("/" + "x" * 60), SETS)["spark.driver.extraJavaOptions"]
    )


@pytest.mark.parametrize("absent", ["pyspark", "pandas"])
def test_a_missing_package_is_the_pip_command(monkeypatch: pytest.MonkeyPatch, absent: Any) -> None:
    monkeypatch.setitem(sys.modules, absent, None)
    with pytest.raises(MissingExtraError) as caught:
        module.session("x")
    assert str(caught.value) == "Spark needs packages that are not installed: pip install 'changefeed[spark]'"


@pytest.mark.parametrize("version", ["3.5.9", "4.4.0", "4.10.0"])
def test_another_version_of_spark_is_refused(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", version)
    with pytest.raises(ConfigError) as caught:
        module.session("x")
    assert str(caught.value) == (
        f"pyspark {version} is installed, and changefeed needs another: pip install 'pyspark>=4.0,<4.4'"
    )


def test_a_session_of_another_version_has_no_jars(no_jars: Any) -> None:
    assert [jars.session_sets(version) for version in ("4.0.5", "4.1.4", "4.10.0", "4.3.0")] == [(), SETS, (), ()]
    merged = properties.one_machine({}, SCRATCH, ())
    assert merged["spark.driver.extraClassPath"] == ""
    assert not {"spark.sql.extensions", "spark.sql.catalog.spark_catalog"} & merged.keys()


def test_a_suitable_session_is_used_as_it_is(spark: SparkSession) -> None:
    assert module.suited(spark) is spark


def test_an_unsuitable_session_is_left_alone_and_a_new_one_is_made(spark: SparkSession) -> None:
    theirs = spark.newSession()
    theirs.conf.set("spark.sql.session.timeZone", "America/New_York")
    theirs.conf.set("spark.sql.ansi.enabled", "false")
    theirs.conf.set("fs.s3a.access.key", "theirs")
    own = module.suited(theirs)
    assert {name: own.conf.get(name) for name in properties.SESSION} == dict(properties.SESSION)
    assert own.conf.get("fs.s3a.access.key") == "theirs"
    assert theirs.conf.get("spark.sql.session.timeZone") == "America/New_York"
    assert module.suited(own) is own
    assert module.another(own).conf.get("spark.sql.session.timeZone") == "UTC"


def test_a_client_of_spark_connect_is_refused() -> None:
    with pytest.raises(ConfigError, match="a client of Spark Connect, which does not give access to"):
        module.suited(object())  # type: ignore[arg-type]


def test_a_folder_that_would_be_two_places_is_refused(spark: SparkSession) -> None:
    own = spark.newSession()
    workers.check(own, "/data/lake")
    own.conf.set("fs.defaultFS", "viewfs://lake/")
    workers.check(own, "file:///data/lake")
    workers.check(own, "viewfs://lake/data")
    with pytest.raises(ConfigError) as caught:
        workers.check(own, "/data/lake")
    with pytest.raises(ConfigError, match=r"^pipeline\.folder /data/own is a folder of this machine"):
        workers.check(own, "/data/own", "pipeline.folder")
    assert str(caught.value) == (
        "sink.path /data/lake is a folder of this machine for changefeed, and one of viewfs://lake/ for Spark (fs.defaultFS): "
        "write it as file:///data/lake or viewfs://lake/data/lake"
    )
