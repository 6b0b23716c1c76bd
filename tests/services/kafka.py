"""A real Kafka broker for tests: one KRaft node on loopback, for as long as a `with` lasts.

    with KafkaBroker() as broker:
        broker.create_topic("orders", partitions=2)
        broker.produce("orders", [(b"key", b"value", [("h", b"1")], 0)])
        spark.read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)

With `users`, clients log in with SASL/PLAIN, and need rights on a topic as soon as anybody has been given some:

    with KafkaBroker(users={"reader": "secret"}) as broker:
        broker.allow("reader", "orders", AclOperation.DESCRIBE)

Ivy downloads its jars once into the cache of the Spark jars. Ports are free ones, data is in a temporary folder, and only
the started process is stopped.
"""

from __future__ import annotations

import hashlib
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # the module names no exports
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from changefeed.spark_runtime import ivy, java
from tests.services.processes import free_ports, stop, tail

VERSION = "4.3.1"

Headers = Sequence[tuple[str, bytes | None]]
Record = tuple[bytes | None, bytes | None, Headers, int]

_DESCRIPTOR = f"""\
<ivy-module version="2.0">
  <info organisation="changefeed" module="kafka-broker"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{VERSION}" conf="default->default"/>
    <dependency org="org.slf4j" name="slf4j-simple" rev="1.7.36" conf="default->default"/>
  </dependencies>
</ivy-module>
"""

_SERVER = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners={protocol}://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners={protocol}://127.0.0.1:{port}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,{protocol}:{protocol}
inter.broker.listener.name={protocol}
log.dirs={data}/logs
auto.create.topics.enable=false
message.max.bytes=33554432
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
"""

_USERS = """\
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
listener.name.sasl_plaintext.plain.sasl.jaas.config={module} required username="broker" password="{password}" {users};
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:broker;User:ANONYMOUS
allow.everyone.if.no.acl.found=true
"""
_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"

_CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
_QUIET = {"log_level": 0}  # librdkafka writes "connection refused" to stderr while the broker starts


def jars() -> Path:
    """The folder with the broker's jars, fetched if it is not there."""
    key = hashlib.sha256(_DESCRIPTOR.encode()).hexdigest()[:12]
    return ivy.retrieve(_DESCRIPTOR, ivy.cache_folder() / "jars" / f"kafka-broker-{VERSION}-{key}")


def _state(thread: Path) -> str:
    """The state of a thread, by its folder in /proc: `T` if it is stopped."""
    return (thread / "stat").read_text().rpartition(")")[2].split()[0]


class KafkaBroker:
    """A broker; see the head of this file.

    Attributes:
        bootstrap: `host:port`, for clients.
        pid: the process id; None if the broker is not running.
    """

    def __init__(
        self,
        *,
        heap: str = "384m",
        start_timeout_s: float = 60.0,
        options: Iterable[str] = (),
        users: Mapping[str, str] | None = None,
    ) -> None:
        """Prepares a broker.

        Args:
            heap: of its JVM.
            start_timeout_s: how long it may take until it answers.
            options: are added to `server.properties`, whose values they override.
            users: name -> password; None: nobody has to log in.
        """
        self._users = None if users is None else {"broker": secrets.token_hex(8), **users}
        self._heap = heap
        self._start_timeout_s = start_timeout_s
        self._options = list(options)
        self._process: subprocess.Popen[bytes] | None = None
        self.bootstrap = ""

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def __enter__(self) -> KafkaBroker:
        self._data = Path(tempfile.mkdtemp(prefix="changefeed-kafka-"))
        try:
            port, controller = free_ports(2)
            self.bootstrap = f"127.0.0.1:{port}"
            self._properties = self._data / "server.properties"
            protocol = "PLAINTEXT" if self._users is None else "SASL_PLAINTEXT"
            settings = _SERVER.format(port=port, controller=controller, data=self._data, protocol=protocol)
            if self._users is not None:
                users = " ".join(f'user_{name}="{password}"' for name, password in self._users.items())
                settings += _USERS.format(module=_MODULE, password=self._users["broker"], users=users)
            self._properties.write_text(settings + "\n".join(self._options))
            self._format()
            self._start()
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
        shutil.rmtree(self._data, ignore_errors=True)

    def kill(self) -> None:
        """Kills the broker, as a power cut would; `restart` starts it again with its data."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def restart(self) -> None:
        """Starts a broker that was killed, at the same address."""
        self._start()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stops the broker for a time, and starts it again, at its address and with its data."""
        assert self._process is not None
        stop(self._process)
        try:
            yield
        finally:
            self._start()

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """Stops the process for a time: connections are accepted, and nothing is answered."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        threads = Path(f"/proc/{self._process.pid}/task")
        while any(_state(thread) != "T" for thread in threads.iterdir()):  # one that still runs may answer
            time.sleep(0.01)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def admin(self) -> AdminClient:
        """A client for requests that the helpers below do not cover."""
        return AdminClient(self._client())

    def login(self, user: str, password: str) -> dict[str, str]:
        """The options of a definition's source, with which this user logs in."""
        return {
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.jaas.config": f'{_MODULE} required username="{user}" password="{password}";',
        }

    def allow(self, user: str, topic: str, *operations: AclOperation) -> None:
        """Gives a user rights on a topic; everybody else loses theirs."""
        kind, pattern = ResourceType.TOPIC, ResourcePatternType.LITERAL
        allow = AclPermissionType.ALLOW
        acls = [AclBinding(kind, topic, pattern, f"User:{user}", "*", one, allow) for one in operations]
        admin = self.admin()
        for done in admin.create_acls(acls).values():
            done.result(timeout=30)

    def _client(self) -> dict[str, Any]:
        """Properties of librdkafka for a client that may do everything."""
        properties: dict[str, Any] = {"bootstrap.servers": self.bootstrap, **_QUIET}
        if self._users is not None:
            properties |= {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
            properties |= {"sasl.username": "broker", "sasl.password": self._users["broker"]}
        return properties

    def create_topic(self, name: str, *, partitions: int = 1, config: dict[str, str] | None = None) -> None:
        """Create a topic; returns when it can be written to."""
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=config or {})
        admin = self.admin()  # kept in a variable: a client that is garbage-collected cancels its requests
        admin.create_topics([topic])[name].result(timeout=30)

    def produce(self, topic: str, records: Iterable[Record]) -> list[tuple[int, int]]:
        """Write records in order and return the (partition, offset) that each of them got."""
        producer = Producer(
            {
                **self._client(),
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.max.bytes": 33554432,
                # how long an unknown topic may be one that is just being created
                "topic.metadata.propagation.max.ms": 2000,
            }
        )
        places: dict[int, tuple[int, int]] = {}
        failures: list[KafkaException] = []
        count = 0
        for count, (key, value, headers, partition) in enumerate(records, start=1):

            def delivered(error: object, message: object, index: int = count) -> None:
                if error is not None:
                    failures.append(KafkaException(error))
                else:
                    places[index] = (message.partition(), message.offset())  # type: ignore[attr-defined]

            while True:
                try:
                    producer.produce(
                        topic, key=key, value=value, headers=list(headers), partition=partition, on_delivery=delivered
                    )
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.flush(60)
        if failures:
            raise failures[0]
        assert len(places) == count, f"{count - len(places)} of {count} records were not acknowledged within 60 s"
        return [places[index] for index in sorted(places)]

    def _java(self, *arguments: str) -> list[str]:
        return [
            str(java.find().executable), f"-Xmx{self._heap}", "-Xms128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{jars()}/*", *arguments,
        ]  # fmt: skip

    def _format(self) -> None:
        command = self._java("kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(self._properties))
        ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
        if ran.returncode != 0:
            raise RuntimeError(f"Kafka could not format its storage:\n{tail(ran.stdout)}")

    def _start(self) -> None:
        log = self._data / "broker.log"
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                self._java("kafka.Kafka", str(self._properties)),
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                # Ctrl-C must reach pytest alone: the broker must outlive the fixtures that are being torn down.
                start_new_session=True,
            )  # fmt: skip
        deadline = time.monotonic() + self._start_timeout_s
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                code = self._process.returncode
                raise RuntimeError(f"Kafka ended with exit code {code} while starting:\n{tail(log.read_text())}")
            if self._is_ready():
                return
            time.sleep(0.1)
        raise RuntimeError(f"Kafka was not ready after {self._start_timeout_s:g} s:\n{tail(log.read_text())}")

    def _is_ready(self) -> bool:
        host, port = self.bootstrap.split(":")
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            return len(self.admin().list_topics(timeout=2).brokers) == 1
        except (OSError, KafkaException):
            return False
