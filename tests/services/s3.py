"""An S3 server on loopback: moto's, which uv downloads; and the jars with which Spark uses it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from changefeed.spark_runtime import ivy
from tests.services.processes import free_ports, stop, tail

_MOTO = "moto[s3,server]==5.2.5"
_SDK = "2.29.52"
_MODULES = ("s3", "s3-transfer-manager", "sts", "apache-client", "netty-nio-client", "kms")
_BROUGHT = ("io.netty", "org.slf4j", "commons-codec", "commons-logging", "org.apache.httpcomponents")  # by Spark itself
_PATIENCE = 300.0


class S3Server:
    """The server, with one bucket `lake`; everything it writes is in `folder`."""

    def __init__(self, folder: Path) -> None:
        (self.port,) = free_ports(1)
        self._log = folder / "s3.log"
        uv = Path(sys.executable).with_name("uv")
        command = [str(uv), "tool", "run", "--from", _MOTO, "moto_server", "-H", "127.0.0.1", "-p", str(self.port)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def __enter__(self) -> S3Server:
        until = time.monotonic() + _PATIENCE
        while True:
            with contextlib.suppress(OSError):
                make = urllib.request.Request(f"{self.url}/lake", method="PUT")
                urllib.request.urlopen(make, timeout=30).close()
                return self
            if self._process.poll() is not None or time.monotonic() > until:
                stop(self._process)
                raise RuntimeError(f"moto did not start:\n{tail(self._log.read_text())}")
            time.sleep(0.1)

    def __exit__(self, *_: object) -> None:
        stop(self._process)

    @property
    def url(self) -> str:
        """The server's endpoint."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def properties(self) -> dict[str, str]:
        """Spark's properties for `s3a://lake/`."""
        return {
            "spark.jars": ",".join(str(jar) for jar in sorted(_jars().glob("*.jar"))),
            "spark.hadoop.fs.s3a.endpoint": self.url,
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.access.key": "test",
            "spark.hadoop.fs.s3a.secret.key": "test-secret",
        }

    @property
    def environ(self) -> dict[str, str]:
        """The environment of a reader that is not Spark."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test-secret",
            "AWS_ALLOW_HTTP": "true",
        }


def _jars() -> Path:
    """hadoop-aws and the modules of Amazon's SDK that it needs: 20 MB, while the SDK's bundle has 600."""
    wanted = "".join(
        f'<dependency org="software.amazon.awssdk" name="{name}" rev="{_SDK}"/>' for name in _MODULES
    ) + "".join(f'<exclude org="{organisation}"/>' for organisation in _BROUGHT)
    descriptor = (
        '<ivy-module version="2.0"><info organisation="changefeed" module="s3"/>'
        '<configurations><conf name="default"/></configurations><dependencies defaultconf="default->master,runtime">'
        f'<dependency org="org.apache.hadoop" name="hadoop-aws" rev="3.4.2" transitive="false"/>{wanted}'
        "</dependencies></ivy-module>"
    )
    return ivy.retrieve(descriptor, ivy.cache_folder() / "jars" / f"s3a-3.4.2-{_SDK}")
