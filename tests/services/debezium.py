"""Debezium's engine in a JVM of its own, which writes its events to a file, for as long as a `with` lasts.

    with Debezium(database, tmp_path, {"snapshot.mode": "initial"}) as engine:
        engine.follow()                       # until it has sent everything that the database has committed
    write_log(tmp_path / "log.jsonl", engine.events(), partitions=2)

The engine is the connector's own code with Kafka Connect's JSON converter. Its events are in one file in the order of
sending, offsets and schema history in two others. So an engine can be stopped, killed and started again in the same
folder, and continues as in Kafka Connect. `write_log` gives the records topics, partitions and offsets.
"""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from changefeed.spark_runtime import ivy, java
from tests.services.database import Database
from tests.services.java_source import compiled
from tests.services.processes import stop, tail

Event = dict[str, Any]

# The newest version of each in Maven Central.
VERSIONS = {"mariadb": "3.5.0.Final", "mysql": "3.6.1.Final"}
PREFIX = "srv"
MARKER = "zz_marker"
_DESCRIPTOR = """\
<ivy-module version="2.0">
  <info organisation="changefeed" module="debezium-{connector}"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="io.debezium" name="debezium-embedded" rev="{version}" conf="default->default"/>
    <dependency org="io.debezium" name="debezium-connector-{connector}" rev="{version}" conf="default->default"/>
    <dependency org="io.debezium" name="debezium-storage-file" rev="{version}" conf="default->default"/>
    <dependency org="org.slf4j" name="slf4j-simple" rev="1.7.36" conf="default->default"/>
  </dependencies>
</ivy-module>
"""
_SOURCE = Path(__file__).with_name("Recorder.java")

# of the JVM: a start is cheap with them, a long run is not
_SMALL = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

# a line for each table that a snapshot begins
_TABLES_OF_SNAPSHOTS = "-Dorg.slf4j.simpleLogger.log.io.debezium.relational.RelationalSnapshotChangeEventSource=info"


class Debezium:
    """An engine; see the head of this file.

    Attributes:
        folder: the engine's files; an engine that is started there again continues.
    """

    def __init__(
        self,
        database: Database,
        folder: Path,
        settings: dict[str, str] | None = None,
        records: int = -1,
        *,
        written: str = "",
        java_options: Sequence[str] = _SMALL,
    ) -> None:
        """Does not start the engine yet.

        Args:
            database: server whose databases the engine follows, as far as `settings` include them.
            settings: the connector's properties; they override the ones below.
            records: number of records after which the engine dies as if it were killed; -1: it does not.
            written: end of the topics whose events are written; others are counted, see `Recorder.java`.
            java_options: options of the engine's JVM.
        """
        self.database, self.folder, self._written, self._java_options = database, folder, written, java_options
        self._settings, self._records = settings or {}, records
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Debezium:
        self.folder.mkdir(parents=True, exist_ok=True)
        settings = self.folder / "engine.properties"
        settings.write_text("".join(f"{name}={value}\n" for name, value in self._properties().items()))
        connector = self.database.connector
        classes = compiled(_SOURCE, sorted(jars(connector).glob("*.jar")))
        command = [
            str(java.find().executable), *self._java_options,
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", _TABLES_OF_SNAPSHOTS,
            "-cp", f"{classes}:{jars(connector)}/*", "Recorder", str(settings), str(self.folder / "events.jsonl"),
        ]  # fmt: skip
        with (self.folder / "engine.log").open("ab") as out:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process is not None:
            stop(self._process)
            self._process = None

    @property
    def pid(self) -> int:
        """The process id of the running engine."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """Kills the engine: offsets that it has not stored are lost."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def wait_dead(self) -> None:
        """Waits until the engine has died after its number of records."""
        assert self._process is not None
        self._process.wait(timeout=120)

    def events(self) -> list[Event]:
        """All events sent so far, by all engines of the folder."""
        path = self.folder / "events.jsonl"
        if not path.exists():
            return []
        lines = path.read_bytes().split(b"\n")
        return [json.loads(line) for line in lines[:-1]]

    def wait(self, holds: Callable[[list[Event]], bool], what: str, seconds: float = 120) -> list[Event]:
        """Waits until `holds` is true of the events sent so far; returns them."""
        events: list[Event] = []

        def is_there() -> bool:
            events[:] = self.events()
            return holds(events)

        self.wait_for(is_there, what, seconds)
        return events

    def wait_for(self, is_there: Callable[[], bool], what: str, seconds: float = 120) -> None:
        """Waits until `is_there` returns True, as long as the engine lives."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if is_there():
                return
            if self.has_ended():
                break
            time.sleep(0.1)
        log = tail((self.folder / "engine.log").read_text(errors="replace"), 40)
        raise AssertionError(f"the engine did not come to {what}:\n{log}")

    def has_ended(self) -> bool:
        """Whether the engine has ended by itself."""
        return self._process is not None and self._process.poll() is not None

    def follow(self, database: str, seconds: float = 120) -> list[Event]:
        """Waits until all that is committed now has been sent: up to a marker row that this inserts into `zz_marker`."""
        name = f"m{time.monotonic_ns()}"
        self.database.execute(
            f"CREATE TABLE IF NOT EXISTS {MARKER} (name VARCHAR(40) PRIMARY KEY); INSERT INTO {MARKER} VALUES ('{name}')",
            database,
        )
        return self.wait(
            lambda events: any(name in (event["key"] or "") for event in events), f"the marker {name}", seconds
        )

    def _properties(self) -> dict[str, str]:
        connector = self.database.connector
        classes = {
            "mariadb": "io.debezium.connector.mariadb.MariaDbConnector",
            "mysql": "io.debezium.connector.mysql.MySqlConnector",
        }
        properties = {
            "name": "engine",
            "connector.class": classes[connector],
            "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
            "offset.storage.file.filename": str(self.folder / "offsets"),
            "offset.flush.interval.ms": "0",
            "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
            "schema.history.internal.file.filename": str(self.folder / "history"),
            "database.hostname": "127.0.0.1",
            "database.port": str(self.database.port),
            "database.user": "dbz",
            "database.password": "dbz",
            "database.server.id": "4711",
            "topic.prefix": PREFIX,
            "provide.transaction.metadata": "true",
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "true",
            "converter.schemas.enable": "true",
            "replace.null.with.default": "false",
            "value.converter.replace.null.with.default": "false",
            "poll.interval.ms": "20",
            "recorder.records": str(self._records),
            "recorder.written": self._written,
        }
        if connector == "mysql":
            properties |= {"database.allowPublicKeyRetrieval": "true", "database.ssl.mode": "disabled"}
        else:
            properties |= {"database.ssl.mode": "disable"}
        return properties | self._settings


def write_log(
    path: Path, events: Iterable[Event], *, partitions: int = 1, topic: Callable[[str], str] = lambda topic: topic
) -> Path:
    """A record log as Kafka would hold the events.

    Args:
        path: path of the log.
        events: the events in the order in which they were sent.
        partitions: number of partitions of each topic; all records with one key are in the same partition.
        topic: topic of an event -> topic in the log.
    """
    offsets: Counter[tuple[str, int]] = Counter()
    with path.open("w") as out:
        for number, event in enumerate(events):
            name, key = topic(event["topic"]), event["key"]
            at = name, (number if key is None else zlib.crc32(key.encode())) % partitions
            record = {
                "topic": name, "partition": at[1], "offset": offsets[at], "key": _base64(key),
                "value": _base64(event["value"]), "headers": [[n, _base64(v)] for n, v in event["headers"]],
            }  # fmt: skip
            offsets[at] += 1
            out.write(json.dumps(record) + "\n")
    return path


def jars(connector: str) -> Path:
    """The folder with the engine's jars, fetched if it is not there."""
    version = VERSIONS[connector]
    descriptor = _DESCRIPTOR.format(connector=connector, version=version)
    key = hashlib.sha256(descriptor.encode()).hexdigest()[:12]
    return ivy.retrieve(descriptor, ivy.cache_folder() / "jars" / f"debezium-{connector}-{version}-{key}")


def _base64(text: str | None) -> str | None:
    return None if text is None else base64.b64encode(text.encode()).decode()
