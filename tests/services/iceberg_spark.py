"""Spark with Iceberg's own runtime, in a process of its own: another reader and writer of Iceberg tables."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from changefeed.spark_runtime import ivy

_DEPENDENCIES = {
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13": "1.12.0",
    "org.xerial:sqlite-jdbc": "3.51.3.0",
}
_DESCRIPTOR = (
    '<ivy-module version="2.0"><info organisation="changefeed" module="iceberg-spark"/>'
    '<configurations><conf name="default"/></configurations><dependencies defaultconf="default->master">'
    + "".join(
        '<dependency org="{}" name="{}" rev="{}" transitive="false"/>'.format(*name.split(":"), version)
        for name, version in _DEPENDENCIES.items()
    )
    + "</dependencies></ivy-module>"
)
# Runs statements in a catalog named as that of the sink, and writes the rows of each to a file of Arrow.
_PROGRAM = """
import json, sys
import pyarrow as pa
from pyspark.sql import SparkSession
jars, folder, statements, results = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), sys.argv[4]
prefix = "spark.sql.catalog.changefeed"
builder = SparkSession.builder.master("local[1]").config("spark.jars", jars).config("spark.ui.enabled", "false")
for name, value in {
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.session.timeZone": "UTC",
    prefix: "org.apache.iceberg.spark.SparkCatalog",
    f"{prefix}.catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
    f"{prefix}.uri": f"jdbc:sqlite:{folder}/catalog.db",
    f"{prefix}.jdbc.schema-version": "V1",
    f"{prefix}.warehouse": f"file://{folder}",
}.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
for number, statement in enumerate(statements):
    rows = spark.sql(statement).toArrow()
    with pa.ipc.new_file(f"{results}/{number}.arrow", rows.schema) as file:
        file.write_table(rows)
spark.stop()
"""


def results_of(folder: str | Path, statements: Sequence[str]) -> list[pa.Table]:
    """Runs SQL on the tables of a local sink; returns the rows of each statement.

    Args:
        folder: the sink's folder, with the catalog's database in it.
        statements: SQL; tables are named `changefeed.<database>.<table>`.
    """
    key = hashlib.sha256(_DESCRIPTOR.encode()).hexdigest()[:12]
    jars = ivy.retrieve(_DESCRIPTOR, ivy.cache_folder() / "jars" / f"iceberg-spark-{key}")
    names = ",".join(str(jar) for jar in sorted(jars.glob("*.jar")))
    with tempfile.TemporaryDirectory() as results:
        command = [sys.executable, "-c", _PROGRAM, names, str(folder), json.dumps(list(statements)), results]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        assert ran.returncode == 0, ran.stderr[-4000:]
        return [pa.ipc.open_file(f"{results}/{number}.arrow").read_all() for number in range(len(statements))]
