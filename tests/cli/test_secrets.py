"""No output contains a secret: canaries are in every option that may be one, and are searched for in everything written."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from changefeed import cli, redaction
from changefeed.errors import SinkError
from changefeed.record_log import read, write
from changefeed.storage.objects import ObjectFolder
from tests.schema_registry.answers import Answer, serving

CANARY = "kanarie"
AVRO = Path(__file__).parent.parent / "data" / "shop" / "ticdc-avro"
LOG, SCHEMAS = AVRO / "avro-watermark.classic.jsonl.gz", AVRO / "avro-watermark.classic.schemas.json"
COMMANDS = ("check", "check --json", "explain", "status", "dlq list", "dlq show", "expire", "run --once")

SOURCE = "source: {type: files, path: log.jsonl, protocol: ticdc-open}\n"
SINK = "sink: {type: delta, path: lake}\n"
AVRO_SOURCE = "source: {type: files, path: log.jsonl, protocol: {name: ticdc-avro, %s}}\n"
OPEN_SOURCE = AVRO_SOURCE.replace("ticdc-avro", "ticdc-open")
KAFKA = "source: {type: kafka, servers: '%s', topics: [t], protocol: ticdc-open, %s}\n"
URI = "source: {uri: 'kafka://127.0.0.1:1/t?%s'}\n"
SASL = "kafka.security.protocol: SASL_PLAINTEXT, kafka.sasl.mechanism: PLAIN"
JAAS = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="kanarieuser" password="kanarie\\"jaas";'
)
MYSQL = "source: {type: mysql, uri: '%s'%s}\n"
EVENT_SINK = "sink: {type: files, path: out, protocol: {name: debezium-mysql, topic.prefix: up}}\n"
EVENT_SINK += "pipeline: {name: p, folder: state}\n"
S3_SINK = "sink: {type: delta, path: 's3://bucket/lake'}\n"


# Each definition has an error or names a host that cannot be reached, because errors quote the definition.
BROKEN = [
    SOURCE + "sink: {type: delta, path: 's3a://kanarieid:kanariesecret@bucket/lake'}",
    SOURCE + "sink: {type: delta, path: 's3a://kanarieid:ka/kanariesecret@bucket/lake'}",
    SOURCE + "sink: {type: delta, path: 'abfss://c@host/lake?sv=1&sig=kanariesecret'}",
    SOURCE + "sink: {type: delta, path: 's3://kanarieid@bucket/lake'}",
    SOURCE + "sink: {type: delta, path: 'hdfs://user:kanariesecret@127.0.0.1:1/lake'}",
    SOURCE + "sink: {type: delta, path: 'x:s3a://kanarieid:kanariesecret@bucket%20/lake', irregular: nul}",
    "source: {type: files, path: 'https://user:kanariesecret@127.0.0.1:1/log.jsonl', protocol: ticdc-open}\n" + SINK,
    AVRO_SOURCE % "schema-registry: 'http://user:kanariesecret@127.0.0.1:1', max.retries: 0" + SINK,
    AVRO_SOURCE % "schema-registry: 'http://user:kanariesecret@127.0.0.1:port'" + SINK,
    AVRO_SOURCE % "schema-registry: 'user:kanariesecret@127.0.0.1:8081'" + SINK,
    AVRO_SOURCE % "schema-registry: 'ftp://user:kanariesecret@127.0.0.1'" + SINK,
    AVRO_SOURCE % "schema-registry: 'http://127.0.0.1:1', max.retries: 0, basic.auth.user.info: 'user:kanariesecret'" + SINK,
    AVRO_SOURCE % "schema-registry: 'http://a:b@127.0.0.1:1', basic.auth.user.info: 'user:kanariesecret'" + SINK,
    AVRO_SOURCE % "schema-registry: 'http://127.0.0.1:1', basic.auth.user.info: [kanariesecret]" + SINK,
    AVRO_SOURCE % "schema-registry: 'http://127.0.0.1:1', max.retries: 0, bearer.auth.token: kanariesecret" + SINK,
    AVRO_SOURCE % "schema-registry: 'http://127.0.0.1:1', ssl.key.password: kanariesecret, ssl.key.location: x" + SINK,
    *(AVRO_SOURCE % f"{name}: kanariesecret" + SINK for name in ("timeout", "max.retries", "retries.wait.ms", "cache.capacity")),
    OPEN_SOURCE % "claim-check-storage-uri: 's3://b/?secret-access-key=kanariesecret'" + SINK,
    "source: {type: files, path: log.jsonl, max-records-per-batch: kanariesecret, protocol: ticdc-open}\n" + SINK,
    SOURCE + SINK + "pipeline: {parallelism: kanariesecret}",
    SOURCE + SINK + "spark: {spark.hadoop.fs.s3a.secret.key: [kanariesecret]}",
    SOURCE + SINK + "spark: {spark.hadoop.fs.s3a.secret.key: kanariesecret}\nnonsense: 1",
    SOURCE + SINK + "spark: {spark.driver.memory: kanariesecret, spark.my.password: kanariesecret}",
    SOURCE + SINK + "spark: {spark.driver.memory: kanariesecret, spark.hadoop.fs.s3a.encryption.key: kanariesecret}",
    SOURCE + SINK + "spark: {spark.driver.memory: '-Dmy.password=kanariesecret'}",
    SOURCE + SINK + "spark: {spark.my.password: *kanariesecret}",
    SOURCE + SINK + "storage: {secret-access-key: kanariesecret, session-token: [kanariesecret]}",
    SOURCE + S3_SINK + "storage: {endpoint: 'http://127.0.0.1:1', access-key-id: a, secret-access-key: kanariesecret}",
    SOURCE + S3_SINK + "storage: {endpoint: 'http://user:kanariesecret@127.0.0.1:1', anonymous: true}",
    SOURCE + S3_SINK + "storage: {endpoint: 'http://127.0.0.1:1', proxy: 'http://user:kanariesecret@127.0.0.1:1'}",
    SOURCE + S3_SINK + "storage: {secret-access-key: kanariesecret, sas-token: kanariesecret, account-key: kanariesecret}",
    SOURCE + SINK + "spark: {spark.my.password: !kanariesecret x}",
    KAFKA % ("user:kanariesecret@127.0.0.1", "x: y") + SINK,
    KAFKA % ("user:kanariesecret@127.0.0.1", "kafka.security.protocol: PLAINTEXT") + SINK,
    KAFKA % ("user:ka/kanariesecret@127.0.0.1", "x: y") + SINK,
    KAFKA % ("127.0.0.1:1", f"{SASL}, kafka.sasl.jaas.config: '{JAAS}'") + SINK,
    KAFKA % ("127.0.0.1:1", "kafka.sasl.jaas.config: 'x required username=u password=kanariesecret;'") + SINK,
    KAFKA % ("127.0.0.1:1", "kafka.ssl.keystore.password: kanariesecret, kafka.ssl.keystore.location: nothing.jks") + SINK,
    KAFKA % ("127.0.0.1:1", "kafka.ssl.key.password: kanariesecret, kafka.security.protocol: SSL") + SINK,
    KAFKA % ("127.0.0.1:1", "kafka.ssl.keystore.key: kanariesecret, kafka.ssl.keystore.type: kanariesecret") + SINK,
    URI % "protocol=open-protocol&sasl-mechanism=plain&sasl-user=kanarieuser&sasl-password=kanariesecret" + SINK,
    URI % "protocol=open-protocol&sasl-mechanism=oauthbearer&sasl-password=kanariesecret" + SINK,
    URI % "protocol=open-protocol&sasl-oauth-client-secret=kanariesecret" + SINK,
    *(MYSQL % (uri, more) + sink for sink in (SINK, EVENT_SINK) for uri, more in (
        ("mysql://user:kanariesecret@127.0.0.1:1", ""), ("mysql://user:kanarie%40secret@127.0.0.1:1/shop", ""),
        ("mysql://user:kanariesecret@127.0.0.1:port", ""), ("mysql://user:ka/kanariesecret@127.0.0.1", ""),
        ("mysql://user:ka#kanariesecret@127.0.0.1", ""), ("mysql://user:ka kanariesecret@127.0.0.1:1", ""),
        ("mysql://127.0.0.1:1?password=kanariesecret", ""), ("mysql://user:kanariesecret@127.0.0.1:1", ", password: kanariepass"),
        ("mysql://user:kanariesecret@127.0.0.1:1", ", nonsense: 1"), ("mysql://user@127.0.0.1:1?ssl-key=kanariesecret", ""),
    )),
    URI.replace("127", "user:kanariesecret@127") % "protocol=avro&schema-registry=http://user:kanariesecret@127.0.0.1:1" + SINK,
]  # fmt: skip


@pytest.fixture(autouse=True)
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_remembered", {})
    monkeypatch.setattr("changefeed.sources.kafka.librdkafka._SECONDS", 0.5)
    monkeypatch.setattr(ObjectFolder, "names", _asked_once(ObjectFolder.names))


def _asked_once(names: Callable[..., list[str]]) -> Callable[..., list[str]]:
    """A folder that cannot be reached raises the same error for each command: Azure's client tries for ten seconds."""
    errors: dict[str, SinkError] = {}

    def asked(folder: ObjectFolder, below: str = "", start_after: str = "") -> list[str]:
        if folder.path in errors:
            raise errors[folder.path]
        try:
            return names(folder, below, start_after)
        except SinkError as error:
            errors[folder.path] = error
            raise

    return asked


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.parametrize("text", BROKEN, ids=range(len(BROKEN)))
def test_errors_of_a_broken_definition_show_no_secret(
    text: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "log.jsonl", read(LOG, stop=20))
    path = tmp_path / "pipeline.yaml"
    path.write_text(text)
    monkeypatch.setattr("changefeed.api.sessions.spark_named", _no_spark)
    for command in COMMANDS:
        which = ["log:0:1"] if command == "dlq show" else []
        cli.run([*command.split(), str(path), *which, "--traceback"])
        output = capfd.readouterr()
        assert _shown(output.out + output.err) == [], (command, text)


def _no_spark(name: str, config: dict[str, str]) -> None:
    raise OSError("not here")


def _shown(text: str) -> list[str]:
    """The lines with a canary, without the lines of source code in tracebacks, which are the test's own."""
    return [line for line in text.splitlines() if CANARY in line.lower()]


def test_a_definition_shows_no_value_of_the_environment_that_is_named_a_secret(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DB_PASSWORD", "kanariesecret")
    path = tmp_path / "pipeline.yaml"
    path.write_text(SOURCE.replace("ticdc-open", "'${DB_PASSWORD}'") + SINK)
    assert cli.run(["check", str(path)]) == 2
    assert 'unknown protocol "***"' in capsys.readouterr().out


@pytest.mark.parametrize(
    "option",
    ["schema-registry=http://user:kanariesecret@{}", "basic.auth.user.info=user:kanariesecret", "timeout=kanarie"],
)
def test_options_of_the_command_line_show_no_secret(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schemas = json.loads(SCHEMAS.read_text())
    with serving(_schemas(schemas)) as server:
        host = server.url.removeprefix("http://")
        options = ["-o", option.format(host)]
        if not option.startswith("schema"):
            options += ["-o", f"schema-registry={server.url}"]
        cli.run(["detect", str(LOG), *options, "--records", "10"])
        shown = capsys.readouterr()
        assert "ticdc-avro" in shown.out
        assert _shown(shown.out + shown.err) == []
        if option.startswith("schema"):
            assert f'schema-registry: "http://${{SCHEMA_REGISTRY_USER_INFO}}@{host}"' in shown.out
        if option.startswith("basic"):
            assert 'basic.auth.user.info: "${BASIC_AUTH_USER_INFO}"' in shown.out
    for command in ("decode", "detect", "encode"):
        for more in ("password:kanarie", "max.retries=0"):
            out = [] if command == "decode" else ["--out", str(tmp_path / "x.jsonl")]
            cli.run([command, str(LOG), "--protocol", "ticdc-avro", *options, "-o", more, *out])
        shown = capsys.readouterr()
        assert _shown(shown.out + shown.err) == []


def _schemas(schemas: list[dict[str, str]]) -> Answer:
    texts = {str(one["id"]): one["schema"] for one in schemas}
    return lambda asked: (200, {"schema": texts[asked.path.partition("?")[0].rpartition("/")[2]]})


ALL = ("check", "explain", "run --once", "status --json", "dlq list", "expire")


@pytest.mark.heavy
@pytest.mark.xdist_group("processes")
@pytest.mark.parametrize(
    "commands", [("run --once", "status --json"), pytest.param(ALL, marks=pytest.mark.nightly)], ids=len
)
def test_a_pipeline_writes_its_secrets_nowhere(commands: tuple[str, ...], tmp_path: Path) -> None:
    folder, temp, events = tmp_path / "p", tmp_path / "temp", tmp_path / "events"
    for one in (folder, temp, events):
        one.mkdir()
    _some_bad(folder / "log.jsonl")
    path, broken = folder / "pipeline.yaml", folder / "broken.yaml"
    with serving(_schemas(json.loads(SCHEMAS.read_text()))) as server:
        registry = server.url.replace("http://", "http://user:kanarieurl@")
        path.write_text(
            AVRO_SOURCE % f"schema-registry: '{registry}'" + SINK
            + "pipeline: {name: p, dead-letters: continue}\n"
            + "spark:\n  spark.driver.memory: 700m\n  spark.my.password: kanariespark\n"
            + "  spark.hadoop.fs.s3a.secret.key: ${KANARIE}\n  spark.hadoop.fs.s3a.access.key: kanarieaccess\n"
            + "  spark.driver.extraJavaOptions: -Dmine.password=kanariejava\n"
            + f"  spark.eventLog.enabled: true\n  spark.eventLog.dir: 'file://{events}'\n"
        )  # fmt: skip
        broken.write_text(path.read_text().replace("schema-registry", "ssl.key.password: kanariekey, schema-registry"))
        with _watched(temp) as seen:
            output = _command(temp, "run", broken, "--once", "--traceback")
            for command in commands:
                output += _command(temp, *command.split(), path)
            output += _command(temp, "dlq", "show", path, "shop_customers:0:5")
            if commands == ALL:
                output += _command(temp, "dlq", "replay", path, "--dry-run", "--json")
    assert "ssl.certificate.location required when" in output
    assert '"shop.orders": ' in output
    assert ('"dead": [{"position": "shop_customers:0:5"' in output) == (commands == ALL)
    assert _shown(output) == []
    assert any("authorization" in map(str.lower, asked.headers) for asked in server.asked)
    files = (file for root in (folder, events, temp) for file in root.rglob("*"))
    written = [file for file in files if file.is_file() and file not in (path, broken)]
    assert {"lake", "events"} <= {part for file in written for part in file.parts}
    assert [str(file) for file in written if _holds(file)] == []
    assert seen == set()


def _some_bad(log: Path) -> None:
    [batch] = read(LOG, stop=400)
    rows = batch.to_pylist()
    rows[5]["value"] = rows[5]["value"][:-2]
    write(log, [type(batch).from_pylist(rows, schema=batch.schema)])


def _command(temp: Path, *args: object) -> str:
    environment = os.environ | {"TMPDIR": str(temp), "KANARIE": "kanariehadoop"}
    ran = subprocess.run(
        [sys.executable, "-m", "changefeed.cli", *map(str, args)], capture_output=True, text=True, timeout=300, env=environment
    )  # fmt: skip
    return f"{args[0]}\n{ran.stdout}{ran.stderr}"


class _watched:
    """Files of the temp folder that contain a canary while commands run, except the one that Spark starts with."""

    def __init__(self, temp: Path) -> None:
        self._temp, self._over, self._found = temp, threading.Event(), set[str]()
        self._thread = threading.Thread(target=self._look)

    def _look(self) -> None:
        looked = dict[Path, tuple[int, int] | None]()
        while not self._over.wait(0.1):
            with suppress(OSError):  # folders appear and disappear during the walk
                for file in self._temp.rglob("*"):
                    version = _version(file)
                    if "changefeed-start-" in str(file) or (file in looked and looked[file] == version):
                        continue
                    looked[file] = version  # before it is read: what is written meanwhile is another version
                    if _holds(file):
                        self._found.add(str(file))

    def __enter__(self) -> set[str]:
        self._thread.start()
        return self._found

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()


def _version(file: Path) -> tuple[int, int] | None:
    """Time of the last change and size; None if the file is gone."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _holds(file: Path) -> bool:
    try:
        data = file.read_bytes() if file.is_file() and file.stat().st_size < 1 << 22 else b""
    except OSError:
        return False
    if data[:2] == b"\x1f\x8b":
        with suppress(OSError, EOFError, zlib.error):  # it may be half written
            data = gzip.decompress(data)
    return CANARY.encode() in data.lower()


def test_redacted_values() -> None:
    redaction.remember("", {"kafka.sasl.jaas.config": JAAS, "my.password": "kanarie/1 2", "spark.token.enabled": True})
    redaction.remember("servers", "a:kanarieserver@b:1,c:2")
    for text, wanted in {
        "s3a://AK:SECRET@bucket/x and http://u:p@h": "s3a://***@bucket/x and http://***@h",
        "s3a://AK:SEC/RE+T@bucket/x and http://h:8081/x@y": "s3a://***@bucket/x and http://h:8081/x@y",
        "java -Dmy.password=x -Dmy.name=y": "java -Dmy.password=*** -Dmy.name=y",
        "abfss://c@account/x?sv=1&sig=a%2B": "abfss://c@account/x?sv=1&sig=***",
        "abfss://container@account.dfs.core.windows.net/x": "abfss://container@account.dfs.core.windows.net/x",
        "kafka://h:1/t?sasl-password=x&max-batch-size=16": "kafka://h:1/t?sasl-password=***&max-batch-size=16",
        'login kanarie"jaas failed': "login *** failed",
        "kanarie%2F1%202 kanarie/1 2 kanarie%2F1+2": "*** *** ***",
        "kanarieserver": "***",
        "true": "true",
        "shop:3:118204 user@host:1": "shop:3:118204 user@host:1",
    }.items():
        assert redaction.redact(text) == wanted
