"""Pipelines on a cluster: the command line as the driver, the tables on a file system that is not the local one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from changefeed.pipeline.config.definition import Definition
from tests.pipeline.kit.running import definition
from tests.services.spark_cluster import SparkCluster

_DRIVER = Path(__file__).parent / "driver.py"


@dataclass
class OnCluster:
    """A pipeline from a log to `viewfs://lake/tables`, which is the folder `lake` below this one."""

    folder: Path
    log: Path
    properties: dict[str, str]
    limit: int = 100_000
    beside: Definition = field(init=False)  # the same, for readers that open the tables by their local path

    def __post_init__(self) -> None:
        lake = self.folder / "lake"
        lake.mkdir(parents=True)
        self.beside = definition(self.log, lake, limit=self.limit)
        mounted = {"spark.hadoop.fs.viewfs.mounttable.lake.link./tables": lake.as_uri()}
        source = {"type": "files", "path": str(self.log), "protocol": "ticdc-open", "max-records-per-batch": self.limit}
        sections = {
            "source": source,
            "sink": {"type": "delta", "path": "viewfs://lake/tables"},
            "pipeline": {"name": "test"},
            "spark": self.properties | mounted,
        }
        self.file.write_text(json.dumps(sections))  # JSON is YAML

    @property
    def file(self) -> Path:
        """The definition."""
        return self.folder / "pipeline.yaml"

    def run(
        self, *, failpoint: str | None = None, kill: tuple[str, list[int]] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs `changefeed run --once`; with `kill`, other processes are killed after a failpoint, while Spark is at work."""
        program = [sys.executable, "-m", "changefeed.cli"]
        if kill is not None:
            program = [sys.executable, str(_DRIVER), kill[0], ",".join(map(str, kill[1]))]
        command = [*program, "run", str(self.file), "--once", "--json"]
        return self.command(command, {"CHANGEFEED_FAILPOINT": failpoint} if failpoint else {})

    def changefeed(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs a command of `changefeed`."""
        return self.command([sys.executable, "-m", "changefeed.cli", *arguments], {})

    def command(self, command: list[str], environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
        """Runs a process in a folder of its own, with more variables in its environment."""
        current = self.folder / "current"
        current.mkdir(exist_ok=True)
        environ = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"} | environ
        return subprocess.run(command, cwd=current, env=environ, capture_output=True, text=True)


def properties(cluster: SparkCluster, archive: Path) -> dict[str, str]:
    """Spark's properties for a pipeline whose workers get the archive."""
    return cluster.properties | {"spark.archives": f"{archive}#environment"}
