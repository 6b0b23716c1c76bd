"""A real schema registry for tests: Apicurio on loopback, in memory, with Confluent's API.

    with SchemaRegistry() as registry:
        options = {"schema-registry": registry.url}

Ivy downloads its archive once into the cache of the Spark jars, where it is unpacked. Unlike Confluent's, it accepts any
change of a schema unless a subject has a compatibility rule.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import subprocess
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

from changefeed.spark_runtime import ivy, java
from tests.services.processes import free_ports, stop, tail

VERSION = "2.6.13.Final"

# `ivy.retrieve` requests the type; the extension is the file's real one.
_DESCRIPTOR = f"""\
<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="changefeed" module="schema-registry"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="io.apicurio" name="apicurio-registry-app" rev="{VERSION}" transitive="false" conf="default->master">
      <artifact name="apicurio-registry-app" type="jar" ext="tar.gz" m:classifier="all" conf="default"/>
    </dependency>
  </dependencies>
</ivy-module>
"""


def folder() -> Path:
    """The unpacked archive, fetched if it is not there."""
    key = hashlib.sha256(_DESCRIPTOR.encode()).hexdigest()[:12]
    archive = ivy.retrieve(_DESCRIPTOR, ivy.cache_folder() / "jars" / f"schema-registry-{VERSION}-{key}", _unpack)
    return archive / "unpacked"


def _unpack(archive: Path) -> None:
    with tarfile.open(next(archive.glob("*.tar.gz"))) as tar:
        tar.extractall(archive / "unpacked", filter="data")


class SchemaRegistry:
    """A schema registry; see the head of this file.

    Attributes:
        url: the base of Confluent's API.
    """

    def __init__(self, *, start_timeout_s: float = 120.0) -> None:
        self._start_timeout_s = start_timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def __enter__(self) -> SchemaRegistry:
        self._log = tempfile.NamedTemporaryFile(prefix="changefeed-registry-", suffix=".log")
        try:
            (port,) = free_ports(1)
            self.url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
            self._start(port)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process is not None:
            stop(self._process)
            self._process = None
        self._log.close()

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The answer to one request of the API."""
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/vnd.schemaregistry.v1+json"},
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.loads(answer.read() or b"null")

    def _start(self, port: int) -> None:
        home = folder()
        jar = next(home.glob("*-runner.jar"))
        self._process = subprocess.Popen(
            [
                str(java.find().executable), "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
                "-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={port}", "-jar", str(jar),
            ],
            cwd=home, stdin=subprocess.DEVNULL, stdout=self._log, stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C must reach pytest alone
        )  # fmt: skip
        deadline = time.monotonic() + self._start_timeout_s
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise RuntimeError(
                    f"the schema registry ended while starting:\n{tail(Path(self._log.name).read_text())}"
                )
            with contextlib.suppress(OSError, urllib.error.URLError, ValueError):
                self.call("GET", "/subjects")
                return
            time.sleep(0.1)
        raise RuntimeError(f"the schema registry was not ready:\n{tail(Path(self._log.name).read_text())}")
