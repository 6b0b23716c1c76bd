"""A standalone Spark cluster on loopback: a master and workers as processes, with a Python separate from the tests'.

Workers get an environment of their own: no PYTHONPATH, no virtual environment, another current folder, another home. What a
pipeline needs there has to be shipped.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pyspark

from changefeed.spark_runtime import java
from tests.services.processes import free_ports, stop, tail

SPARK_HOME = Path(pyspark.__file__).parent
_QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"  # the processes are too short-lived for the second compiler
_OPTIONS = ("-Xmx256m", *_QUICK.split())
_OPENED = ("java.lang", "java.lang.invoke", "java.net", "java.nio", "java.util", "sun.nio.ch", "sun.security.action")
_PATIENCE = 120.0


@dataclass
class SparkCluster:
    """A master and `count` workers of one core each, with everything they write in `folder`.

    Attributes:
        around: a command that starts the workers' Java.
    """

    folder: Path
    count: int = 2
    memory: str = "1g"
    around: tuple[str, ...] = ()
    _master: subprocess.Popen[bytes] | None = None
    _workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _ports: tuple[int, int] = (0, 0)

    def __enter__(self) -> SparkCluster:
        self._ports = port, page = tuple(free_ports(2))  # type: ignore[assignment]
        try:
            self._master = self._java(
                "master", "org.apache.spark.deploy.master.Master",
                "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page),
            )  # fmt: skip
            self._wait(0)
            for _ in range(self.count):
                self.add_worker()
            self._wait(self.count)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            _end(worker)
        if self._master is not None:
            stop(self._master)

    @property
    def url(self) -> str:
        """The value for `spark.master`."""
        return f"spark://127.0.0.1:{self._ports[0]}"

    @property
    def properties(self) -> dict[str, str]:
        """Spark's properties for a small application on this cluster."""
        return {
            "spark.master": self.url,
            "spark.driver.memory": "700m",
            "spark.executor.memory": "640m",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.databricks.delta.snapshotPartitions": "2",
            "spark.sql.codegen.wholeStage": "false",  # compiling plans takes longer than everything else
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            "spark.sql.adaptive.enabled": "false",
            "spark.driver.extraJavaOptions": _QUICK,
            "spark.executor.extraJavaOptions": _QUICK,
        }

    def add_worker(self) -> None:
        """Starts one more worker."""
        number = len(self._workers)
        work = self.folder / f"worker-{number}"
        work.mkdir(parents=True)
        arguments = ["--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", self.memory]
        main = "org.apache.spark.deploy.worker.Worker"
        self._workers.append(self._java(f"worker-{number}", main, *arguments, "--work-dir", str(work), self.url))

    def kill_worker(self, number: int) -> None:
        """Kills a worker, its executors and their Python, as if the machine had failed."""
        _end(self._workers[number])

    def pid(self, number: int) -> int:
        """The process id of a worker."""
        return self._workers[number].pid

    def executors(self, number: int) -> list[int]:
        """The executors of a worker, by process id."""
        with contextlib.suppress(psutil.NoSuchProcess):
            return [child.pid for child in psutil.Process(self._workers[number].pid).children()]
        return []

    def log(self, name: str) -> str:
        """The log of `master` or `worker-0`."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def _java(self, name: str, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        folder = self.folder / f"{name}-home"
        folder.mkdir(parents=True)
        home = java.find().home
        environ = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "JAVA_HOME": str(home),
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_SCALA_VERSION": "2.13",  # as spark-class sets it
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(folder),
        }
        opens = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
        around = self.around if main.endswith("Worker") else ()
        command = [
            *around,
            str(home / "bin" / "java"),
            *_OPTIONS,
            *opens,
            "-cp",
            f"{SPARK_HOME}/jars/*",
            main,
            *arguments,
        ]
        with (self.folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env=environ, start_new_session=True)

    def _wait(self, workers: int) -> None:
        until = time.monotonic() + _PATIENCE
        while True:
            with contextlib.suppress(OSError, ValueError):
                if self.state()["aliveworkers"] >= workers:
                    return
            for name, process in [("master", self._master), *((f"worker-{i}", w) for i, w in enumerate(self._workers))]:
                if process is not None and process.poll() is not None:
                    raise RuntimeError(f"{name} has ended:\n{tail(self.log(name))}")
            if time.monotonic() > until:
                raise TimeoutError(f"no {workers} workers after {_PATIENCE:g} s:\n{tail(self.log('master'))}")
            time.sleep(0.1)

    def state(self) -> dict[str, Any]:
        """The state that the master reports."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._ports[1]}/json/", timeout=10) as answer:
            state: dict[str, Any] = json.load(answer)
            return state


def _end(worker: subprocess.Popen[bytes]) -> None:
    """Sends SIGKILL to a worker and all its descendants."""
    with contextlib.suppress(psutil.NoSuchProcess):
        for child in psutil.Process(worker.pid).children(recursive=True):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)
    worker.kill()
    worker.wait()
