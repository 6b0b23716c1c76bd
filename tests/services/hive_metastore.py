"""A Hive metastore for tests: the one that PySpark brings along, as a process on loopback, with Derby in a temporary folder.

with HiveMetastore(tmp_path) as metastore:
    definition["spark"] = metastore.properties
"""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyspark

from changefeed.spark_runtime import java
from tests.services.processes import free_ports, stop, tail

_PATIENCE = 400.0
_SERVER = {
    "datanucleus.schema.autoCreateAll": "true",
    "hive.metastore.schema.verification": "false",
    "hive.async.log.enabled": "false",
}


class HiveMetastore:
    """The metastore; what it stores is in `folder`, and is there again after another start.

    Attributes:
        properties: Spark's properties to use it.
        uri: its address.
    """

    def __init__(
        self, folder: Path, options: Mapping[str, str] | None = None, jars: Sequence[str] = (), *, locks: bool = False
    ) -> None:
        """Prepares a metastore.

        Args:
            folder: for its database and its log.
            options: its own properties, of Hive and of Hadoop.
            jars: jars on its class path.
            locks: whether tables can be locked, as Iceberg's Hive catalog does.
        """
        (self._port,) = free_ports(1)
        self._folder, self._options, self._jars = folder, dict(options or {}), tuple(jars)
        self._process: subprocess.Popen[bytes] | None = None
        self.uri = f"thrift://127.0.0.1:{self._port}"
        folder.mkdir(exist_ok=True)
        self.properties = {
            "spark.sql.catalogImplementation": "hive",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.hadoop.hive.metastore.uris": self.uri,
            "spark.hadoop.hive.metastore.connect.retries": "1",
        }
        if locks:
            self._options |= {"datanucleus.connectionPoolingType": "HikariCP"}
            self._make_tables_of_locks()

    def __enter__(self) -> HiveMetastore:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        options = (
            _SERVER
            | self._options
            | {
                "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={self._folder / 'db'};create=true",
                "hive.metastore.warehouse.dir": str(self._folder / "warehouse"),
            }
        )
        entries = "".join(f"<property><name>{n}</name><value>{v}</value></property>" for n, v in options.items())
        (self._folder / "hive-site.xml").write_text(f"<configuration>{entries}</configuration>")
        jars = Path(pyspark.__file__).parent / "jars"
        command = [str(java.find().home / "bin" / "java"), "-Xmx256m", f"-Djava.io.tmpdir={self._folder}"]
        command += [
            f"-Dderby.stream.error.file={self._folder / 'derby.log'}",
            "-cp",
            ":".join([str(self._folder), f"{jars}/*", *self._jars]),
        ]
        command += ["org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(self._port)]
        log = self._folder / "metastore.log"
        with log.open("wb") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output, cwd=self._folder)
        until = time.monotonic() + _PATIENCE
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
                return
            except OSError:
                if self._process.poll() is not None or time.monotonic() > until:
                    self.stop()
                    raise RuntimeError(f"the metastore did not start:\n{tail(log.read_text())}") from None
            time.sleep(0.2)

    def _make_tables_of_locks(self) -> None:
        """Makes the tables in which a metastore keeps locks: in a mode for tests, it does that at the first question."""
        from hive_metastore.ThriftHiveMetastore import Client
        from hive_metastore.ttypes import ShowLocksRequest
        from thrift.protocol.TBinaryProtocol import TBinaryProtocol
        from thrift.transport.TSocket import TSocket
        from thrift.transport.TTransport import TBufferedTransport

        options, self._options = self._options, self._options | {"hive.in.test": "true"}
        with self:
            transport = TBufferedTransport(TSocket("127.0.0.1", self._port))
            transport.open()
            Client(TBinaryProtocol(transport)).show_locks(ShowLocksRequest())
            transport.close()
        self._options = options

    def stop(self) -> None:
        """Stops it; its entries stay."""
        if self._process is not None:
            stop(self._process)
            self._process = None
