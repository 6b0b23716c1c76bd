"""An S3 server on loopback: moto's, as a process of its own; and the jars with which Spark uses it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from changefeed.spark_runtime import ivy
from changefeed.storage.section import StorageSection
from tests.services.processes import free_ports, stop, tail

_SDK = "2.29.52"
_MODULES = ("s3", "s3-transfer-manager", "sts", "apache-client", "netty-nio-client", "kms")
_BROUGHT = ("io.netty", "org.slf4j", "commons-codec", "commons-logging", "org.apache.httpcomponents")  # by Spark itself
_PATIENCE = 120.0
_FIRST = 4  # requests before keys and rights are checked: a bucket, a user, its rights, its key


class S3Server:
    """The server, with one bucket `lake`; everything it writes is in `folder`.

    Args:
        folder: for its log.
        rights: what its only user may do, such as `s3:GetObject`; by default the server accepts every key.
    """

    def __init__(self, folder: Path, rights: Sequence[str] | None = None) -> None:
        self._rights, self.keys = rights, ("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMIK7MDENG")  # no words of a message
        (self.port,) = free_ports(1)
        self._log = folder / "s3.log"
        server = str(Path(__file__).with_name("s3_server.py"))
        command = [sys.executable, "-P", server, "-H", "127.0.0.1", "-p", str(self.port)]
        first = {"INITIAL_NO_AUTH_ACTION_COUNT": str(_FIRST)} if rights is not None else {}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | first)

    def __enter__(self) -> S3Server:
        until = time.monotonic() + _PATIENCE
        while True:
            with contextlib.suppress(OSError):
                self.make_bucket("lake")
                if self._rights is not None:
                    self._make_user(self._rights)
                return self
            if self._process.poll() is not None or time.monotonic() > until:
                stop(self._process)
                raise RuntimeError(f"moto did not start:\n{tail(self._log.read_text())}")
            time.sleep(0.1)

    def __exit__(self, *_: object) -> None:
        stop(self._process)

    def make_bucket(self, name: str) -> None:
        """Creates a bucket."""
        make = urllib.request.Request(f"{self.url}/{name}", method="PUT")
        urllib.request.urlopen(make, timeout=30).close()

    def _make_user(self, rights: Sequence[str]) -> None:
        import boto3

        iam = boto3.client(
            "iam", endpoint_url=self.url, region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x"
        )
        policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": list(rights), "Resource": "*"}]}
        iam.create_user(UserName="user")
        iam.put_user_policy(UserName="user", PolicyName="rights", PolicyDocument=json.dumps(policy))
        key = iam.create_access_key(UserName="user")["AccessKey"]
        self.keys = (key["AccessKeyId"], key["SecretAccessKey"])

    @property
    def url(self) -> str:
        """The server's endpoint."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def properties(self) -> dict[str, str]:
        """Spark's properties for `s3a://lake/`."""
        return {
            "spark.jars": ",".join(str(jar) for jar in sorted(jars().glob("*.jar"))),
            "spark.hadoop.fs.s3a.endpoint": self.url,
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.access.key": self.keys[0],
            "spark.hadoop.fs.s3a.secret.key": self.keys[1],
        }

    def storage(self, url: str | None = None) -> StorageSection:
        """The section `storage` of a definition; `url`: that of a proxy."""
        options = {"endpoint": url or self.url, "region": "us-east-1"}
        return StorageSection.model_validate(
            {**options, "access-key-id": self.keys[0], "secret-access-key": self.keys[1]}
        )

    @property
    def environ(self) -> dict[str, str]:
        """The environment of a reader that is not Spark."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": self.keys[0],
            "AWS_SECRET_ACCESS_KEY": self.keys[1],
            "AWS_ALLOW_HTTP": "true",
        }


def jars() -> Path:
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
