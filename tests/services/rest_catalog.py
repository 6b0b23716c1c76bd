"""Iceberg's reference REST catalog on loopback: the servlet of its own tests, with names in SQLite.

    with RestCatalog(tmp_path) as server:
        catalog = load_catalog("lake", type="rest", uri=server.url)

The server writes metadata itself, to the place that a table has: on disk, or on S3 with the keys of `s3`.
"""

from __future__ import annotations

import contextlib
import hashlib
import subprocess
import time
import urllib.request
from pathlib import Path
from types import TracebackType

import pyspark

from changefeed.spark_runtime import ivy, java
from tests.services import s3
from tests.services.java_source import compiled
from tests.services.processes import free_ports, stop, tail
from tests.services.s3 import S3Server

_ICEBERG, _JETTY, _SQLITE = "1.10.1", "11.0.26", "3.51.3.0"
_HEAD = (
    '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
    '<info organisation="changefeed" module="rest-catalog"/><configurations><conf name="default"/></configurations>'
)
_LIBRARIES = f"""\
{_HEAD}<dependencies defaultconf="default->master,runtime">
  <dependency org="org.apache.iceberg" name="iceberg-core" rev="{_ICEBERG}"/>
  <dependency org="org.eclipse.jetty" name="jetty-servlet" rev="{_JETTY}"/>
  <dependency org="org.xerial" name="sqlite-jdbc" rev="{_SQLITE}" transitive="false"/>
</dependencies></ivy-module>
"""
# In a folder of its own: both jars of Iceberg get the same name.
_SERVLET = f"""\
{_HEAD}<dependencies>
  <dependency org="org.apache.iceberg" name="iceberg-core" rev="{_ICEBERG}" transitive="false" conf="default->master">
    <artifact name="iceberg-core" type="jar" ext="jar" m:classifier="tests" conf="default"/>
  </dependency>
</dependencies></ivy-module>
"""
_PATIENCE = 120.0


class RestCatalog:
    """The server; its names are in `folder`, and are there again after another start.

    Attributes:
        url: the catalog's URI.
    """

    def __init__(self, folder: Path, bucket: S3Server | None = None) -> None:
        """Prepares a server.

        Args:
            folder: for names and log.
            bucket: the server of `s3://`, if tables are there.
        """
        (self._port,) = free_ports(1)
        self.url, self._folder, self._bucket = f"http://127.0.0.1:{self._port}", folder, bucket
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(exist_ok=True)

    def __enter__(self) -> RestCatalog:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Starts the server, and waits until it answers."""
        properties = {
            "uri": f"jdbc:sqlite:{self._folder}/names.db", "warehouse": f"file://{self._folder}/warehouse",
            "jdbc.schema-version": "V1",
        }  # fmt: skip
        if self._bucket is not None:
            hadoop = {n.removeprefix("spark.hadoop."): v for n, v in self._bucket.properties.items() if ".fs." in n}
            properties |= {"fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem", **hadoop}
        settings = self._folder / "catalog.properties"
        settings.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        jars = _jars(with_s3=self._bucket is not None)
        classes = compiled(Path(__file__).with_name("RestCatalog.java"), jars)
        command = [str(java.find().executable), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command += ["-cp", ":".join(map(str, [classes, *jars])), "RestCatalog", str(self._port), str(settings)]
        log = self._folder / "catalog.log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        until = time.monotonic() + _PATIENCE
        while True:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{self.url}/v1/config", timeout=10).close()
                return
            if self._process.poll() is not None or time.monotonic() > until:
                self.stop()
                raise RuntimeError(f"the REST catalog did not start:\n{tail(log.read_text())}")
            time.sleep(0.1)

    def stop(self) -> None:
        """Stops the server; names stay."""
        if self._process is not None:
            stop(self._process)
            self._process = None


def _jars(*, with_s3: bool) -> list[Path]:
    """The jars of the server: its own, and then those of PySpark, which have Hadoop."""
    spark = Path(pyspark.__file__).parent / "jars"
    # Last the tests' jar: it has classes of Hadoop that it replaces for its own tests.
    folders = [
        _retrieved("libraries", _LIBRARIES),
        *([s3.jars()] if with_s3 else []),
        spark,
        _retrieved("servlet", _SERVLET),
    ]
    return [jar for folder in folders for jar in sorted(folder.glob("*.jar"))]


def _retrieved(name: str, descriptor: str) -> Path:
    key = hashlib.sha256(descriptor.encode()).hexdigest()[:12]
    return ivy.retrieve(descriptor, ivy.cache_folder() / "jars" / f"rest-catalog-{name}-{key}")
