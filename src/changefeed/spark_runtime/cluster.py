"""Spark on a cluster: its master, its defaults, and a Python that its workers find.

    changefeed run       a JVM of its own, in client mode: `spark.master` in the definition names the cluster
    spark-submit         a JVM that is there; its properties are the cluster's and those of the command line

Rule 1. The definition wins, then the command line of spark-submit, then spark-defaults.conf, then our own
        properties, of which a cluster gets those alone that the work needs (`properties.EVERYWHERE`).
Rule 2. Workers run the Python of the archive that `changefeed package` made, where spark.archives names one as
        `#environment`; else the one that spark.pyspark.python or PYSPARK_PYTHON names; else the driver's own path.
Rule 3. Spark starts workers on the driver's machine too, which plan a source, by the same path as those of the cluster. A
        path within the archive leads nowhere there. So the JVM is started in a folder where it leads to this Python.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from changefeed.errors import ConfigError
from changefeed.spark_runtime import gateway, java, python, workers
from changefeed.spark_runtime.java_errors import first_line
from changefeed.spark_runtime.properties import (
    DELTA,
    EVERYWHERE,
    EXTENSIONS,
    ONE_MACHINE,
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
_PATIENCE = 10.0  # seconds in which a master takes a connection


def submitted() -> bool:
    """Whether spark-submit has started this process, and a JVM before it."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def start(app_name: str, master: str | None, config: Mapping[str, str], scratch: Path) -> SparkContext:
    """Spark with the properties of a cluster.

    Args:
        app_name: what Spark calls the application.
        master: as in Spark; None inside spark-submit, which sets it.
        given: the definition's properties.
        scratch: a folder of this process.

    Raises:
        ConfigError: nothing answers at the master's address, or Spark does not start there.
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
    conf.setAll(list(missing(conf).items()))
    conf.setIfMissing("spark.sql.warehouse.dir", f"file://{scratch}/warehouse")
    try:
        return SparkContext(conf=conf, gateway=started)
    except Py4JJavaError as error:
        raise ConfigError(f"Spark did not start on {conf.get('spark.master')}: {first_line(error)}") from error


def missing(conf: SparkConf) -> dict[str, str]:
    """Our properties, but for those that somebody has set."""
    local = is_local(conf.get("spark.master") or "")
    ours = EVERYWHERE | DELTA | (ONE_MACHINE if local else {})
    ours = {name: value for name, value in ours.items() if not conf.contains(name)}
    extensions = conf.get(EXTENSIONS) or ""
    if DELTA[EXTENSIONS] not in extensions:
        ours[EXTENSIONS] = ",".join(filter(None, [extensions, DELTA[EXTENSIONS]]))
    if not local:
        ours[f"spark.executorEnv.{workers.VARIABLE}"] = workers.in_environment(workers.expected())
    return ours


def _own_jvm(config: dict[str, str], scratch: Path) -> Path | None:
    """Prepares the start of a JVM; returns the folder to start it in, if that matters."""
    os.environ["JAVA_HOME"] = str(java.find().home)
    options = [os.environ.get("SPARK_SUBMIT_OPTS", ""), *java_options(scratch)]  # of the driver alone, whatever it has
    os.environ["SPARK_SUBMIT_OPTS"] = " ".join(filter(None, options))
    if not any("delta-spark" in config.get(name, "") for name in _JARS):
        config["spark.jars"] = with_jars(config)
    chosen = os.environ["PYSPARK_PYTHON"] = worker_python(config)
    config.pop("spark.pyspark.python", None)  # or a JVM of spark-submit would want to know more of it
    if os.path.isabs(chosen) or "/" not in chosen:
        return None
    there = scratch / chosen
    there.parent.mkdir(parents=True, exist_ok=True)
    python.program(there)
    return scratch


def worker_python(config: Mapping[str, str]) -> str:
    """The program that workers run, as a path on their machines."""
    named = config.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON")
    shipped = any(one.endswith(f"#{ENVIRONMENT}") for one in config.get("spark.archives", "").split(","))
    return named or (PYTHON if shipped else sys.executable)


def absolute(paths: str) -> str:
    """A list of files as Spark takes it, with relative ones made absolute."""
    return ",".join(
        one if ":" in one.partition("#")[0] or not one.strip() else os.path.abspath(one.strip())
        for one in paths.split(",")
    )


def check_master(master: str) -> None:
    """Checks that a standalone master listens: Spark itself tries for a minute, and then reports something else.

    Raises:
        ConfigError: none does.
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
