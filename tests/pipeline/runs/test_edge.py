"""Errors that Spark carries as text become errors of this project."""

from __future__ import annotations

import errno
import subprocess
from pathlib import Path
from typing import Any

import pyspark
import pytest
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkValueError

from changefeed.cli.failure import _in_short, exit_code
from changefeed.errors import AccessError, ChangefeedError, ConfigError, ResourceError, SinkError, SourceError
from changefeed.pipeline.edge import as_ours, translated
from changefeed.spark_runtime import java

ASKED = (
    "An error occurred while calling o57.get.\n: java.util.concurrent.ExecutionException: "
    "org.apache.kafka.common.errors.{}\n\tat java.base/java.util.concurrent.CompletableFuture.reportGet(Unknown Source)"
)


@pytest.mark.parametrize(
    "text, message, transient",
    [
        (
            "TimeoutException: Timed out waiting for a node assignment. Call: listNodes",
            "Kafka: Timeout: Timed out waiting for a node assignment. Call: listNodes. Run again when the brokers answer",
            True,
        ),
        (
            "UnknownTopicOrPartitionException: This server does not host this topic-partition.",
            "Kafka: UnknownTopicOrPartition: This server does not host this topic-partition. Is the source section right?",
            False,
        ),
    ],
)
def test_errors_of_kafka_become_source_errors(text: str, message: str, transient: bool) -> None:
    error = translated(ASKED.format(text))
    assert isinstance(error, SourceError)
    assert (str(error), error.transient) == (message, transient)


def test_refused_credentials_are_an_error_of_the_definition() -> None:
    error = translated(ASKED.format("SaslAuthenticationException: Authentication failed: Invalid username or password"))
    assert isinstance(error, AccessError)
    assert str(error) == (
        "Kafka: SaslAuthentication: Authentication failed: Invalid username or password. Correct the credentials in the source "
        "section, or give this user the rights"
    )
    assert exit_code(error) == 2


DAMAGED = (
    "a file of this pipeline is missing or damaged. Restore the sink's folder as a whole, `_changefeed` and the tables together, "
    "from a backup; or rebuild all tables from the source: changefeed repair --rebuild --all"
)
JAVA = "An error occurred while calling o1.save.\n: {}\n\tat org.apache.spark.sql.Dataset.x(Dataset.scala:1)\n\tat y(A.java:2)\n"


@pytest.mark.parametrize(
    "text, kind, message, transient",
    [
        (
            "org.apache.spark.SparkException: Job aborted due to stage failure\nCaused by: java.io.IOException: No space left on "
            "device",
            ResourceError,
            "the disk is full: make room there and run again. What was begun is finished first, nothing is lost",
            False,
        ),
        (
            "changefeed.errors.SinkError: /lake/t: a data file cannot be written: [Errno 28] No space left on device",
            ResourceError,
            "the disk is full: make room there and run again. What was begun is finished first, nothing is lost",
            False,
        ),
        (
            "org.apache.spark.SparkException: Python worker failed to connect back.",
            ResourceError,
            "a Python worker did not start in Spark's 10 seconds: the machine is overloaded. Run again when it has less to do",
            True,
        ),
        (
            "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
            ResourceError,
            "a Python worker has ended: killed, or out of memory. Run again; if it happens again, give the machine more memory, "
            "or lower source.max-records-per-batch",
            True,
        ),
        (
            "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 4.0 failed 1 times, most recent "
            "failure: Lost task 0.0 in stage 4.0 (TID 4) (localhost executor driver): java.io.EOFException",
            ResourceError,
            "a Python worker has ended: killed, or out of memory. Run again; if it happens again, give the machine more memory, "
            "or lower source.max-records-per-batch",
            True,
        ),
        (
            "Lost task 0.0 in stage 4.0 (TID 4) (localhost executor driver): java.lang.IllegalStateException: Python daemon "
            "failed to launch worker",
            ResourceError,
            "a Python worker has ended: killed, or out of memory. Run again; if it happens again, give the machine more memory, "
            "or lower source.max-records-per-batch",
            True,
        ),
        (
            "java.lang.OutOfMemoryError: Java heap space",
            ResourceError,
            "Spark's JVM does not have enough memory: lower source.max-records-per-batch, or raise spark.driver.memory if the "
            "machine has more",
            False,
        ),
        (
            "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.",
            ResourceError,
            "the cluster has ended this application: it was stopped, or its executors did not start. See their logs on "
            "the cluster, and run again: what was begun is finished first",
            False,
        ),
        (
            "org.apache.spark.SparkException: Job aborted: Executor heartbeat timed out after 130000 ms",
            ResourceError,
            "a part of Spark did not answer in time: the machine is overloaded. Run again when it has less to do",
            True,
        ),
        (
            "org.apache.spark.sql.AnalysisException: [PATH_NOT_FOUND] Path does not exist: file:/lake/_changefeed/pending/1. "
            "SQLSTATE: 42K03",
            SinkError,
            f"Path does not exist: file:/lake/_changefeed/pending/1 (PATH_NOT_FOUND): {DAMAGED}",
            False,
        ),
        (
            "org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file "
            "file:///lake/a/b.parquet. SQLSTATE: KD001",
            SinkError,
            f"Encountered error while reading file file:///lake/a/b.parquet (FAILED_READ_FILE): {DAMAGED}",
            False,
        ),
        (
            "io.delta.exceptions.DeltaIllegalStateException: [DELTA_VERSIONS_NOT_CONTIGUOUS] Versions (0, 2) are not contiguous.",
            SinkError,
            f"Versions (0, 2) are not contiguous (DELTA_VERSIONS_NOT_CONTIGUOUS): {DAMAGED}",
            False,
        ),
        (
            "java.lang.RuntimeException: file:/lake/x.parquet is not a Parquet file. Expected magic number at tail",
            SinkError,
            "file:/lake/x.parquet is not a Parquet file. Expected magic number at tail: " + DAMAGED,
            False,
        ),
        (
            "java.io.FileNotFoundException: File file:/lake/x.parquet does not exist",
            SinkError,
            f"File file:/lake/x.parquet does not exist: {DAMAGED}",
            False,
        ),
        (
            "org.apache.hadoop.fs.ChecksumException: Checksum error: file:/lake/x.json at 0 exp: 1 got: 2",
            SinkError,
            f"Checksum error: file:/lake/x.json at 0 exp: 1 got: 2: {DAMAGED}",
            False,
        ),
        (
            "com.amazonaws.AmazonServiceException: Please reduce your request rate. (Status Code: 503; Error Code: SlowDown)",
            SinkError,
            "the storage does not answer: Please reduce your request rate. (Status Code: 503; Error Code: SlowDown). Run again",
            True,
        ),
        (
            "org.apache.kafka.common.KafkaException: Failed to create new KafkaAdminClient\nCaused by: "
            "org.apache.kafka.common.config.ConfigException: Invalid value x for configuration security.protocol",
            ConfigError,
            "source: the Kafka client refuses its properties: Invalid value x for configuration security.protocol",
            None,
        ),
    ],
)
def test_errors_of_the_environment_are_not_defects(
    text: str, kind: type[ChangefeedError], message: str, transient: bool | None
) -> None:
    error = translated(JAVA.format(text))
    assert type(error) is kind
    assert (str(error), getattr(error, "transient", None)) == (message, transient)


def test_any_other_error_is_a_defect_in_one_line() -> None:
    text = JAVA.format("java.lang.NullPointerException: x is null")
    assert translated(text) is None
    assert _in_short(text) == "java.lang.NullPointerException: x is null"


@pytest.mark.parametrize(
    "error, kind, message",
    [
        (OSError(errno.ENOSPC, "No space left on device", "/tmp/x"), ResourceError,
         "the disk is full (/tmp/x): make room there and run again. What was begun is finished first, nothing is lost"),
        (SinkError("t: version 5 cannot be committed: No space left on device (os error 28)", transient=True), ResourceError,
         "the disk is full: make room there and run again. What was begun is finished first, nothing is lost"),
        (SinkError("t: its log is damaged"), SinkError, "t: its log is damaged"),
        (PermissionError(errno.EACCES, "Permission denied", "/tmp/x"), ResourceError, "/tmp/x: Permission denied"),
        (MemoryError(), ResourceError, "this process does not have enough memory: lower source.max-records-per-batch, or raise "
         "spark.driver.memory if the machine has more"),
        (ConnectionRefusedError(111, "Connection refused"), ResourceError, "Spark's JVM has ended: killed, or out of memory "
         "(spark.driver.memory). Run again: what was begun is finished first"),
    ],
)  # fmt: skip
def test_errors_of_the_operating_system_keep_their_cause(
    error: BaseException, kind: type[ChangefeedError], message: str
) -> None:
    with pytest.raises(kind) as caught, as_ours():
        raise error
    assert str(caught.value) == message


@pytest.mark.xdist_group("jvm")
def test_a_jvm_that_has_ended_has_no_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    """py4j then raises that the class does not exist."""
    [jar] = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
    gateway: Any = JavaGateway.launch_gateway(
        jarpath=str(jar), java_path=str(java.find().executable), redirect_stderr=subprocess.DEVNULL
    )
    monkeypatch.setattr(SparkContext, "_gateway", gateway)
    with pytest.raises(Py4JError, match="does not exist"), as_ours():
        gateway.jvm.java.lang.System.nothing()
    with pytest.raises(PySparkValueError), as_ours():
        raise PySparkValueError("[CANNOT_PARSE_DATATYPE] Unable to parse datatype")
    gateway.java_process.kill()
    gateway.java_process.wait()  # py4j reads its output and closes it, but not its input
    gateway.java_process.stdin.close()
    with pytest.raises(ResourceError, match=r"Spark's JVM has ended"), as_ours():
        gateway.jvm.org.apache.hadoop.fs.Path("x")
    wrapped = PySparkValueError(
        "[CANNOT_PARSE_DATATYPE] Unable to parse datatype"
    )  # of a schema whose parsing got no answer
    with pytest.raises(ResourceError, match=r"Spark's JVM has ended"), as_ours():
        raise wrapped
    gateway.close()
