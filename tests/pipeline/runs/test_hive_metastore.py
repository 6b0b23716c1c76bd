"""Names in a Hive metastore, a process of its own: runs that are killed, and a metastore that does not answer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.kit.history import small_history
from tests.pipeline.kit.oracle import History
from tests.pipeline.kit.running import check_cuts, definition, published
from tests.services.hive_metastore import HiveMetastore
from tests.services.processes import reported_error
from tests.services.s3 import S3Server

pytestmark = pytest.mark.xdist_group("processes")

# Prints the rows of queries, as another program in another session would get them.
_QUERIES = """
import json, sys
from changefeed.spark_runtime.session import session
spark = session("reader", master="local[1]", config=json.loads(sys.argv[1]))
print("rows", json.dumps([[list(row) for row in spark.sql(query).collect()] for query in sys.argv[2:]]))
spark.stop()
"""


def _changefeed(*arguments: str, failpoint: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = os.environ | ({"CHANGEFEED_FAILPOINT": failpoint} if failpoint else {})
    command = [sys.executable, "-m", "changefeed.cli", *arguments, "--json"]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=300)


def _rows(properties: Mapping[str, str], *queries: str) -> list[list[list[Any]]]:
    command = [sys.executable, "-c", _QUERIES, json.dumps(properties), *queries]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert ran.returncode == 0, ran.stderr[-4000:]
    (line,) = [line for line in ran.stdout.splitlines() if line.startswith("rows ")]
    rows: list[list[list[Any]]] = json.loads(line.removeprefix("rows "))
    return rows


def _file(log: Path, lake: str, properties: Mapping[str, str]) -> Path:
    """A definition beside the log."""
    sections = {
        "source": {"type": "files", "path": str(log), "protocol": "ticdc-open", "max-records-per-batch": 20},
        "sink": {"type": "delta", "path": lake, "catalog": "spark_catalog"},
        "pipeline": {"name": "test", "max-retries": 0},
        "spark": {"spark.driver.memory": "1g", **properties},
    }
    file = log.parent / "pipeline.yaml"
    file.write_text(json.dumps(sections))  # JSON is YAML
    return file


@pytest.mark.nightly
def test_names_in_a_metastore_through_a_kill_and_an_outage(tmp_path: Path) -> None:
    log, _ = small_history(tmp_path / "app.jsonl")
    with HiveMetastore(tmp_path / "metastore") as metastore:
        file = _file(log, str(tmp_path / "a lake"), metastore.properties)
        pipeline = definition(log, tmp_path / "a lake", limit=20)

        killed = _changefeed("run", str(file), "--once", failpoint="cleanup.after:2")
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        metastore.stop()
        failed = _changefeed("run", str(file), "--once")
        assert failed.returncode == 1, failed.stderr
        message = reported_error(failed.stderr)["message"]
        assert message.startswith("spark_catalog does not answer: ")
        assert message.endswith("The tables are as in the ledger; run again when it answers")
        checked = _changefeed("check", str(file))
        (check,) = [one for one in json.loads(checked.stdout)["checks"] if one["name"] == "catalog"]
        assert (checked.returncode, check["status"], check["message"]) == (2, "fail", message)

        metastore.start()
        done = _changefeed("run", str(file), "--once")
        assert done.returncode == 0, done.stderr
        check_cuts(pipeline, History(log))
        counts = published(pipeline)[-1].state.counts
        assert (counts.applied, counts.pending, counts.repeated) == (counts.rows - 1, 1, 0)

        names, notes, first, kept = _rows(
            metastore.properties,
            "SHOW TABLES IN app",
            "SELECT n, note FROM app.notes",
            "SELECT count(*) FROM app.notes VERSION AS OF 1",
            "SHOW TABLE EXTENDED IN app LIKE 'sales'",
        )
        assert sorted(name for _, name, _ in names) == ["drafts", "notes", "sales"], "orders was renamed"
        assert notes == [[9, "after"]]
        assert first == [[7]], "before it was truncated"
        assert "Table Properties: [changefeed.pipeline=test]" in kept[0][3]
        checked = _changefeed("check", str(file))
        (check,) = [one for one in json.loads(checked.stdout)["checks"] if one["name"] == "catalog"]
        assert (check["status"], check["message"]) == ("ok", "answers; 3 tables have names")
        explained = json.loads(_changefeed("explain", str(file)).stdout)
        assert {one["table"]: one["name"] for one in explained["tables"]}["app.sales"] == "spark_catalog.app.sales"


@pytest.mark.nightly
def test_names_of_tables_in_a_bucket(tmp_path: Path) -> None:
    log, _ = small_history(tmp_path / "app.jsonl")
    (tmp_path / "s3").mkdir()
    with S3Server(tmp_path / "s3") as s3:
        hadoop = {name.removeprefix("spark.hadoop."): value for name, value in s3.properties.items()}
        jars = hadoop.pop("spark.jars").split(",")
        with HiveMetastore(tmp_path / "metastore", hadoop, jars) as metastore:
            properties = metastore.properties | s3.properties
            file = _file(log, "s3a://lake/tables", properties)
            done = _changefeed("run", str(file), "--once")
            assert done.returncode == 0, done.stderr
            names, notes = _rows(properties, "SHOW TABLES IN app", "SELECT n, note FROM app.notes")
    assert sorted(name for _, name, _ in names) == ["drafts", "notes", "sales"]
    assert notes == [[9, "after"]]


@pytest.mark.heavy
def test_a_user_without_rights_has_to_act(tmp_path: Path) -> None:
    """The metastore asks Hive's own list of rights, which has none for anybody."""
    log, _ = small_history(tmp_path / "app.jsonl")
    authorization = "org.apache.hadoop.hive.ql.security.authorization"
    options = {
        "hive.metastore.pre.event.listeners": f"{authorization}.AuthorizationPreEventListener",
        "hive.security.metastore.authorization.manager": f"{authorization}.DefaultHiveMetastoreAuthorizationProvider",
    }
    with HiveMetastore(tmp_path / "metastore", options) as metastore:
        file = _file(log, str(tmp_path / "lake"), metastore.properties)
        failed = _changefeed("run", str(file), "--once")
    error = reported_error(failed.stderr)
    assert (failed.returncode, error["type"]) == (2, "AccessError"), failed.stderr
    assert error["message"].startswith("spark_catalog refuses this user: ")
    assert error["message"].endswith("Give it the rights, or leave out sink.catalog")
