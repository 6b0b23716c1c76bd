"""Spark on a cluster: its master, its defaults, and a Python that its workers find.

    changefeed run       changefeed starts a JVM in client mode: `spark.master` in the definition names the cluster
    spark-submit         the JVM exists already; its properties come from the cluster and the command line

Rule 1. The definition has priority, then the command line of spark-submit, then spark-defaults.conf, then changefeed's
        defaults. On a cluster only the required defaults are set (`properties.REQUIRED`).
Rule 2. Workers run the Python that spark.pyspark.python or PYSPARK_PYTHON names; else the Python of the archive from
        `changefeed package`, if spark.archives contains one as `#environment`; else the driver's own path.
Rule 3. Spark also starts workers on the driver's machine, to plan a source, with the same path as on the cluster. A path
        within the archive does not exist there. So the JVM that changefeed starts works in a folder where that path leads
        to this Python.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from changefeed.errors import ConfigError
from changefeed.spark_runtime import gateway, jars, java, python, workers
from changefeed.spark_runtime.java_errors import first_line
from changefeed.spark_runtime.properties import (
    DELTA,
    EXTENSIONS,
    ONE_MACHINE,
    REQUIRED,
    is_local,
    java_options,
    with_jars,
)

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext

ENVIRONMENT = "environment"
PYTHON = f"./{ENVIRONMENT}/bin/python"
_LISTS = ("spark.jars", "spark.files", "spark.archives", "spark.submit.pyFiles")
_JARS = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")
_PATIENCE = 10.0  # seconds to wait for a master's connection


def submitted() -> bool:
    """Whether spark-submit has started this process, and its JVM."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def start(app_name: str, master: str | None, config: Mapping[str, str], scratch: Path) -> SparkContext:
    """Starts Spark on a cluster.

    Args:
        app_name: Spark's name for the application.
        master: the master's URL; None inside spark-submit, which has set it.
        config: the definition's properties.
        scratch: a temporary folder of this process.

    Raises:
        ConfigError: the master does not answer, or Spark does not start.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark import SparkConf, SparkContext

    config, folder = dict(config), None
    if master is not None:
        config = {name: absolute(value) if name in _LISTS else value for name, value in config.items()}
        check_master(master)
        folder = _own_jvm(config, scratch)
    else:
        os.environ["PYSPARK_PYTHON"] = worker_python(config)
    first = SparkConf(loadDefaults=False)
    first.setAll(list((config | ({"spark.master": master} if master else {})).items()))
    started = gateway.gateway(first, folder)
    conf = SparkConf(_jvm=started.jvm)  # with the properties that spark-submit has read
    conf.setAppName(app_name).setAll(list(config.items()))
    has_delta = bool(started.jvm.org.apache.spark.util.Utils.classIsLoadable(DELTA[EXTENSIONS]))
    conf.setAll(list(missing(conf, has_delta=has_delta).items()))
    conf.setIfMissing("spark.sql.warehouse.dir", f"file://{scratch}/warehouse")
    try:
        return SparkContext(conf=conf, gateway=started)
    except Py4JJavaError as error:
        raise ConfigError(f"Spark did not start on {conf.get('spark.master')}: {first_line(error)}") from error


def missing(conf: SparkConf, *, has_delta: bool) -> dict[str, str]:
    """Returns changefeed's default properties that are not set yet.

    Args:
        conf: the properties that are set.
        has_delta: whether Spark has the jars of Delta.
    """
    local = is_local(conf.get("spark.master") or "")
    ours = REQUIRED | (DELTA if has_delta else {}) | (ONE_MACHINE if local else {})
    ours = {name: value for name, value in ours.items() if not conf.contains(name)}
    extensions = conf.get(EXTENSIONS) or ""
    if has_delta and DELTA[EXTENSIONS] not in extensions:
        ours[EXTENSIONS] = ",".join(filter(None, [extensions, DELTA[EXTENSIONS]]))
    if not local:
        ours[f"spark.executorEnv.{workers.VARIABLE}"] = workers.in_environment(workers.expected())
    return ours


def _own_jvm(config: dict[str, str], scratch: Path) -> Path | None:
    """Prepares the environment of the JVM that changefeed starts; returns the folder to start it in, if one is needed."""
    import pyspark

    os.environ["JAVA_HOME"] = str(java.find().home)
    options = [os.environ.get("SPARK_SUBMIT_OPTS", ""), *java_options(scratch)]  # for the driver only
    os.environ["SPARK_SUBMIT_OPTS"] = " ".join(filter(None, options))
    sets = jars.session_sets(pyspark.__version__)
    if sets and not any("delta-spark" in config.get(name, "") for name in _JARS):
        config["spark.jars"] = with_jars(config, sets)
    chosen = os.environ["PYSPARK_PYTHON"] = worker_python(config)
    config.pop("spark.pyspark.python", None)  # or pyspark's launcher would check the path on this machine
    if os.path.isabs(chosen) or "/" not in chosen:
        return None
    there = scratch / chosen
    there.parent.mkdir(parents=True, exist_ok=True)
    python.program(there)
    return scratch


def worker_python(config: Mapping[str, str]) -> str:
    """Returns the path of Python on the workers' machines."""
    named = config.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON")
    shipped = any(one.endswith(f"#{ENVIRONMENT}") for one in config.get("spark.archives", "").split(","))
    return named or (PYTHON if shipped else sys.executable)


def absolute(paths: str) -> str:
    """Makes the relative paths in a list of files, in Spark's syntax, absolute."""
    return ",".join(
        one if ":" in one.partition("#")[0] or not one.strip() else os.path.abspath(one.strip())
        for one in paths.split(",")
    )


def check_master(master: str) -> None:
    """Checks that a standalone master listens: Spark itself retries for a minute, and then reports another error.

    Raises:
        ConfigError: no master answers.
    """
    if not master.startswith("spark://"):
        return
    refused = []
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=_PATIENCE).close()
            return
        except (OSError, ValueError) as error:
            refused.append(f"{address}: {error}")
    raise ConfigError(
        f"spark.master: no master answers ({'; '.join(refused)}). Is it running, and reachable from here?"
    )
