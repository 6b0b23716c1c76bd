"""YARN on loopback: a resource manager and one node manager as processes, from Hadoop's jar for such tests."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import psutil
import pyspark

from changefeed.spark_runtime import ivy, java
from tests.services.processes import free_ports, stop, tail

SPARK_HOME = Path(pyspark.__file__).parent
_SERVER = "org.apache.hadoop.yarn.server"
_OPTIONS = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_OPENED = ("java.lang", "java.lang.invoke", "java.net", "java.nio", "java.util", "sun.nio.ch")
_PATIENCE = 120.0
_IVY = (
    '<ivy-module version="2.0"><info organisation="changefeed" module="yarn"/><configurations><conf name="default"/>'
    '</configurations><dependencies defaultconf="default->master,runtime"><dependency org="org.apache.hadoop" '
    'name="hadoop-client-minicluster" rev="3.4.2" transitive="false"/><dependency org="org.bouncycastle" '
    'name="bcpkix-jdk18on" rev="1.78.1"/><dependency org="javax.xml.bind" name="jaxb-api" rev="2.3.1"/>'
    '<dependency org="org.glassfish.jaxb" name="jaxb-runtime" rev="2.3.9"/></dependencies></ivy-module>'
)


class YarnCluster:
    """A resource manager, and a node of 5 GiB, with everything they write in `folder`.

    Containers get an environment of their own, which does not name this installation, except for Spark's own jars.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self._page = 0

    def __enter__(self) -> YarnCluster:
        self.configuration.mkdir(parents=True)
        rpc = free_ports(5)
        self._page = rpc[4]
        (self.configuration / "core-site.xml").write_text(
            _site({"fs.defaultFS": "file:///", "hadoop.tmp.dir": str(self._folder / "tmp")})
        )
        (self.configuration / "yarn-site.xml").write_text(_site(self._settings(rpc)))
        jar = ivy.retrieve(_IVY, ivy.cache_folder() / "jars" / "yarn-3.4.2")
        try:
            for name, main in (
                ("manager", "resourcemanager.ResourceManager"),
                ("node", "nodemanager.NodeManager"),
            ):
                self._processes.append(self._java(name, f"{_SERVER}.{main}", jar))
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            with contextlib.suppress(psutil.NoSuchProcess):
                containers = psutil.Process(process.pid).children(recursive=True)
                stop(process)
                for container in containers:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        container.kill()

    @property
    def configuration(self) -> Path:
        """The folder for `HADOOP_CONF_DIR`."""
        return self._folder / "conf"

    @property
    def environ(self) -> dict[str, str]:
        """The environment of spark-submit, and nothing else."""
        return {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self._folder),
            "JAVA_HOME": str(java.find().home),
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "HADOOP_CONF_DIR": str(self.configuration),
        }

    @property
    def staging(self) -> Path:
        """A folder for the files that spark-submit uploads."""
        return self._folder / "staging"

    def errors(self) -> str:
        """The stderr of all containers."""
        return "\n".join(path.read_text(errors="replace") for path in sorted(self._folder.glob("logs/*/*/stderr")))

    def printed(self) -> str:
        """The stdout of all containers."""
        return "\n".join(path.read_text(errors="replace") for path in sorted(self._folder.glob("logs/*/*/stdout")))

    def _settings(self, ports: list[int]) -> dict[str, str]:
        manager = ("address", "scheduler.address", "resource-tracker.address", "admin.address", "webapp.address")
        node = "yarn.nodemanager"
        return {
            "yarn.resourcemanager.hostname": "127.0.0.1",
            **{f"yarn.resourcemanager.{name}": f"127.0.0.1:{p}" for name, p in zip(manager, ports, strict=True)},
            "yarn.resourcemanager.scheduler.class": f"{_SERVER}.resourcemanager.scheduler.fifo.FifoScheduler",
            "yarn.scheduler.minimum-allocation-mb": "128",
            "yarn.resourcemanager.am.max-attempts": "3",
            f"{node}.hostname": "127.0.0.1",
            f"{node}.address": "127.0.0.1:0",
            f"{node}.localizer.address": "127.0.0.1:0",
            f"{node}.webapp.address": "127.0.0.1:0",
            f"{node}.local-dirs": str(self._folder / "local"),
            f"{node}.log-dirs": str(self._folder / "logs"),
            f"{node}.resource.memory-mb": "5120",
            f"{node}.resource.cpu-vcores": "4",
            f"{node}.vmem-check-enabled": "false",
            f"{node}.pmem-check-enabled": "false",
            f"{node}.delete.debug-delay-sec": "600",  # logs stay to be read
            f"{node}.env-whitelist": "JAVA_HOME",
            f"{node}.disk-health-checker.max-disk-utilization-per-disk-percentage": "99.9",
        }

    def _java(self, name: str, main: str, jars: Path) -> subprocess.Popen[bytes]:
        opens = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
        path = f"{self.configuration}:{jars}/*:{SPARK_HOME}/jars/*"
        command = [str(java.find().executable), *_OPTIONS, *opens, "-cp", path, main]
        environ = {"PATH": "/usr/bin:/bin", "HOME": str(self._folder), "JAVA_HOME": str(java.find().home)}
        with (self._folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                command, stdout=log, stderr=log, cwd=self._folder, env=environ, start_new_session=True
            )

    def _wait(self) -> None:
        until = time.monotonic() + _PATIENCE
        while True:
            with contextlib.suppress(OSError, ValueError):
                if self._metrics()["activeNodes"] >= 1:
                    return
            for name, process in zip(("manager", "node"), self._processes, strict=True):
                if process.poll() is not None:
                    raise RuntimeError(f"{name} has ended:\n{tail((self._folder / f'{name}.log').read_text())}")
            if time.monotonic() > until:
                raise TimeoutError(f"no node after {_PATIENCE:g} s:\n{tail((self._folder / 'node.log').read_text())}")
            time.sleep(0.2)

    def _metrics(self) -> dict[str, Any]:
        url = f"http://127.0.0.1:{self._page}/ws/v1/cluster/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            metrics: dict[str, Any] = json.load(answer)
            return metrics


def _site(settings: dict[str, str]) -> str:
    lines = (
        f"<property><name>{name}</name><value>{escape(value)}</value></property>" for name, value in settings.items()
    )
    return f"<configuration>{''.join(lines)}</configuration>\n"
