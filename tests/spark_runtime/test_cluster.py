"""Spark on a cluster, as far as it can be tested without one; tests with one: tests/cluster."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from changefeed.errors import ConfigError
from changefeed.spark_runtime import archive, cluster, workers
from changefeed.spark_runtime.properties import ONE_MACHINE, REQUIRED, is_local
from tests.services.processes import free_ports


@pytest.mark.parametrize(
    "master, local",
    [
        *[("local", True), ("local[*]", True), ("local[2,3]", True)],
        *[("spark://h:7077", False), ("yarn", False), ("k8s://https://h", False), ("local-cluster[2,1,1024]", False)],
    ],
)
def test_threads_of_the_driver_are_local(master: str, local: bool) -> None:
    assert is_local(master) is local


class Conf(dict[str, str]):
    """The part of a SparkConf that `missing` uses."""

    def contains(self, name: str) -> bool:
        return name in self


def _missing(*, has_delta: bool = True, **properties: str) -> dict[str, str]:
    conf: Any = Conf({name.replace("_", "."): value for name, value in properties.items()})
    return cluster.missing(conf, has_delta=has_delta)


def test_a_cluster_gets_nothing_that_is_chosen_for_one_machine() -> None:
    ours = _missing(spark_master="spark://h:7077")
    assert ONE_MACHINE.keys() & ours.keys() == set()
    assert REQUIRED.keys() <= ours.keys()
    assert not [name for name in ours if "codegen" in name or "cacheSize" in name]
    assert ONE_MACHINE.keys() <= _missing(spark_master="local[2]").keys()


def test_the_environment_of_workers_is_plain_text_for_a_shell() -> None:
    """YARN writes it between double quotes into a script."""
    expected = _missing(spark_master="yarn")[f"spark.executorEnv.{workers.VARIABLE}"]
    script = f'export EXPECTED="{expected}"; printf %s "$EXPECTED"'
    assert subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout == expected
    assert re.fullmatch(r"[\w=-]+", expected)


def test_the_clusters_properties_stay_and_deltas_extensions_are_added() -> None:
    ours = _missing(spark_master="yarn", spark_sql_extensions="org.iceberg.Ext", spark_redaction_regex="x")
    assert ours["spark.sql.extensions"] == "org.iceberg.Ext,io.delta.sql.DeltaSparkSessionExtension"
    assert "spark.redaction.regex" not in ours
    assert "spark.sql.extensions" not in _missing(
        spark_master="yarn", spark_sql_extensions="io.delta.sql.DeltaSparkSessionExtension"
    )


def test_a_spark_without_delta_gets_no_property_of_it() -> None:
    assert not [name for name, value in _missing(spark_master="yarn", has_delta=False).items() if "elta" in value]


@pytest.mark.parametrize(
    "properties, python",
    [
        ({"spark.archives": "/x.tar.gz#environment"}, "./environment/bin/python"),
        ({"spark.archives": "/y.zip#data,/x.tar.gz#environment"}, "./environment/bin/python"),
        ({"spark.archives": "/x.tar.gz#environment", "spark.pyspark.python": "/opt/p"}, "/opt/p"),
        ({"spark.archives": "/y.zip#data"}, sys.executable),
        ({}, sys.executable),
    ],
)
def test_workers_run_the_archives_python(
    properties: dict[str, str], python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert cluster.worker_python(properties) == python


def test_files_for_workers_are_found_from_the_current_folder() -> None:
    folder = os.getcwd()
    assert cluster.absolute("a.tar.gz#environment,/b.jar,hdfs://n/c.jar") == (
        f"{folder}/a.tar.gz#environment,/b.jar,hdfs://n/c.jar"
    )


def test_a_master_that_is_not_there_is_named_at_once() -> None:
    (port,) = free_ports(1)
    with pytest.raises(ConfigError) as caught:
        cluster.check_master(f"spark://127.0.0.1:{port}")
    assert str(caught.value) == (
        f"spark.master: no master answers (127.0.0.1:{port}: [Errno 111] Connection refused). Is it running, and reachable from "
        "here?"
    )


@pytest.mark.heavy
@pytest.mark.slow
def test_the_archive_works_where_it_is_unpacked_and_contains_no_other_path(tmp_path: Path) -> None:
    made = archive.write(tmp_path / archive.file_name(), level=0)
    assert {"changefeed 0.1.0", "pyspark", "pyarrow", "pandas", "msgspec"} <= {
        one if one.startswith("changefeed ") else one.split()[0] for one in made
    }
    there = tmp_path / "some where"
    there.mkdir()
    subprocess.run(["tar", "-xzf", str(tmp_path / archive.file_name()), "-C", str(there)], check=True)
    script = (
        "import sys, changefeed.codec.decoding, pyarrow, pandas, pyspark, ssl\n"
        "print(sys.prefix)\n"
        "print(*sorted(line.split(maxsplit=5)[-1] for line in open('/proc/self/maps') if '.so' in line), sep='')"
    )
    ran = subprocess.run(
        [str(there / "bin" / "python"), "-c", script],
        cwd="/",
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert ran.stderr == ""
    prefix, *libraries = ran.stdout.splitlines()
    assert prefix == str(there / "python")
    assert any("pyarrow" in library for library in libraries)
    ours = (sys.base_prefix, sys.prefix, str(Path(archive.__file__).parents[2]))
    assert [one for one in libraries if one.startswith(ours) and not one.startswith(("/usr/lib", "/lib"))] == []
