"""Tables, ledger and pending changes in an object store; the definition has Spark's properties for it, and no jar."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.kit.history import small_history
from tests.pipeline.kit.oracle import History
from tests.pipeline.kit.running import check_cuts, definition, published
from tests.services.s3 import S3Server

pytestmark = [pytest.mark.xdist_group("processes"), pytest.mark.nightly]


def test_a_pipeline_into_s3_that_is_killed_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, _ = small_history(tmp_path / "app.jsonl")
    with S3Server(tmp_path) as s3:
        properties = {name: value for name, value in s3.properties.items() if name != "spark.jars"}
        sections = {
            "source": {"type": "files", "path": str(log), "protocol": "ticdc-open", "max-records-per-batch": 25},
            "sink": {"type": "delta", "path": "s3a://lake/tables"},
            "pipeline": {"name": "test"},
            "spark": {"spark.driver.memory": "1g", "spark.master": "local[2]", **properties},
        }
        file = tmp_path / "pipeline.yaml"
        file.write_text(json.dumps(sections))

        def changefeed(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
            command = [sys.executable, "-m", "changefeed.cli", *arguments, "--json"]
            environ = {"AWS_EC2_METADATA_DISABLED": "true", **environ}
            return subprocess.run(command, env=os.environ | environ, capture_output=True, text=True, cwd=tmp_path)

        killed = changefeed("run", str(file), "--once", CHANGEFEED_FAILPOINT="upsert.before:3")
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        done = changefeed("run", str(file), "--once")
        assert done.returncode == 0, done.stderr
        status = changefeed("status", str(file))
        assert status.returncode == 0, status.stderr
        shown = json.loads(status.stdout)

        for name, value in s3.environ.items():
            monkeypatch.setenv(name, value)
        beside = definition(log, Path("/"), limit=25)
        beside = beside.model_copy(update={"sink": beside.sink.model_copy(update={"path": "s3a://lake/tables"})})
        check_cuts(beside, History(log))
        assert shown["epoch"] == 2
        assert shown["cuts"][-1]["tables"] == published(beside)[-1].state.versions()
    assert not [path.name for path in tmp_path.iterdir() if path.name not in ("app.jsonl", "pipeline.yaml", "s3.log")]
