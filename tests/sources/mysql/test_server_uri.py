"""`source: {type: mysql, uri: mysql://…}`: the options that it stands for; no text shows its password."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import changefeed as cf
from changefeed import redaction
from changefeed.errors import ConfigError
from changefeed.pipeline.config.definition import AnySource
from changefeed.pipeline.config.load import read, read_any
from changefeed.redaction import redact
from changefeed.sources.mysql import open_changes
from changefeed.sources.mysql.section import MySqlSource
from tests.cli.command import invoke
from tests.services.database import Database, MariaDb
from tests.sources.mysql.pipelines import tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SINK = {"type": "delta", "path": "lake"}
EVENTS = {
    "sink": {"type": "files", "path": "out", "protocol": {"name": "debezium-mysql", "topic.prefix": "shop"}},
    "pipeline": {"name": "p", "folder": "state"},
}


@pytest.fixture(autouse=True)
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_remembered", {})


def source(uri: str, **beside: Any) -> AnySource:
    return read({"source": {"type": "mysql", "uri": uri, **beside}, "sink": SINK}).source


@pytest.mark.parametrize("of_events", [False, True], ids=["tables", "events"])
@pytest.mark.parametrize(
    "uri, options",
    [
        ("mysql://u@db", {"host": "db", "user": "u"}),
        ("mysql://u@db:3307/", {"host": "db", "port": 3307, "user": "u"}),
        ("mariadb://us%40er:p%3Aw%2F@[::1]", {"host": "::1", "user": "us@er", "password": "p:w/"}),
        ("mysql://u:a@b@db", {"host": "db", "user": "u", "password": "a@b"}),
        ("mysql://u:@db", {"host": "db", "user": "u"}),
        ("mysql://u@db/a%20b.c", {"host": "db", "user": "u", "tables": ['"a b.c".*']}),
    ],
)
def test_a_uri_stands_for_options(uri: str, options: dict[str, Any], of_events: bool) -> None:
    other = EVENTS if of_events else {"sink": SINK}
    by_uri = read_any({"source": {"type": "mysql", "uri": uri, "ssl-mode": "required"}, **other})
    by_options = read_any({"source": {"type": "mysql", **options, "ssl-mode": "required"}, **other})
    assert by_uri == by_options


@pytest.mark.parametrize(
    "uri, beside",
    [
        ("mysql://u@db", {"port": 3307}),
        ("mysql://u@db", {"password": "secret"}),
        ("mysql://u@db", {"password-file": "secret"}),
        ("mysql://u@db/", {"tables": ["shop.*"]}),
    ],
)
def test_an_option_that_the_uri_does_not_have_may_be_beside_it(uri: str, beside: dict[str, Any]) -> None:
    by_options = read({"source": {"type": "mysql", "host": "db", "user": "u", **beside}, "sink": SINK}).source
    assert source(uri, **beside) == by_options


@pytest.mark.parametrize(
    "uri, beside, option",
    [
        ("mysql://u@db", {"host": "db"}, "host"),
        ("mysql://u@db:3306", {"port": 3306}, "port"),
        ("mysql://u@db", {"user": "u"}, "user"),
        ("mysql://u:secret@db", {"password": "secret"}, "password"),
        ("mysql://u:secret@db", {"password-file": "secret"}, "password-file"),
        ("mysql://u@db/shop", {"tables": ["shop.*"]}, "tables"),
    ],
)
def test_an_option_that_is_given_both_ways_is_refused_by_name(uri: str, beside: dict[str, Any], option: str) -> None:
    with pytest.raises(ConfigError) as error:
        source(uri, **beside)
    assert str(error.value).startswith(f"definition: source.{option}: ")
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    "uri, why",
    [
        ("shop", "expected a URI such as mysql://user@host:3306/database"),
        ("kafka://db/t?protocol=avro", "expected a URI such as mysql://user@host:3306/database"),
        ("mysql://db/shop", "expected a URI such as mysql://user@host:3306/database"),
        ("mysql://u@db:port", "no valid port"),
        ("mysql://u@db:0", "no valid port"),
        ("mysql://u@db/shop?ssl-mode=required&x=y", "`ssl-mode`, `x`: write them as options"),
        ("mysql://u@db/shop#part", "no part after `#`"),
        (None, "expected a URI such as mysql://user@host:3306/database"),
        (["mysql://u@db"], "expected a URI such as mysql://user@host:3306/database"),
    ],
)
def test_what_is_not_a_uri_of_a_server(uri: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=r"source\.uri: ") as error:
        source(uri)
    assert why in str(error.value)


def test_a_uri_of_kafka_needs_no_type_and_one_of_a_server_does() -> None:
    with pytest.raises(ConfigError, match="a database is `type: mysql` with a `uri`"):
        read({"source": {"uri": "mysql://u@db"}, "sink": SINK})


def test_all_problems_of_the_other_sections_are_named_too() -> None:
    with pytest.raises(ConfigError, match=r"source\.uri: (.|\n)*sink\.path is missing"):
        read({"source": {"type": "mysql", "uri": "shop"}, "sink": {"type": "delta"}})


@pytest.mark.parametrize(
    "written", ["kan-ter22secret", "kan%2Fter22secret", "kan/ter22secret", "kan-ter22?secret", "kan-ter22 secret"]
)
def test_the_password_is_in_no_text(written: str) -> None:
    uri = f"mysql://u:{written}@db"
    try:
        section = source(uri)
    except ConfigError as error:
        shown = f"{error!r} {error.__cause__!r} {error.__context__!r}"
    else:
        assert isinstance(section, MySqlSource)
        assert section.read_password() == written.replace("%2F", "/")
        shown = f"{section!r} {open_changes(section)!r} {section.reads}"
    assert "kan" not in shown
    for text in (uri, written, written.replace("%2F", "/")):
        assert "secret" not in redact(f"denied for {text}"), text


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    with MariaDb() as server:
        server.execute(
            "CREATE USER 'kanarie user'@'%' IDENTIFIED BY 'kanarie/p@ss%'; GRANT ALL ON *.* TO 'kanarie user'@'%';"
            "CREATE DATABASE shop; CREATE TABLE shop.orders (id INT PRIMARY KEY); INSERT INTO shop.orders VALUES (1);"
            "CREATE DATABASE other; CREATE TABLE other.t (id INT PRIMARY KEY)"
        )
        yield server


def test_a_run_by_uri(database: Database, tmp_path: Path, spark: SparkSession) -> None:
    uri = f"mysql://kanarie%20user:kanarie%2Fp%40ss%25@127.0.0.1:{database.port}/shop"
    folder = tmp_path / "p"
    folder.mkdir()
    path = tmp_path / "pipeline.yaml"
    path.write_text(
        f"source: {{type: mysql, uri: '{uri}'}}\nsink: {{type: delta, path: p/lake}}\npipeline: {{name: capture}}\n"
    )
    pipeline = cf.Pipeline.load(path)
    pipeline.run(spark)
    assert tables(pipeline, folder) == {"shop.orders": [{"id": 1}]}
    shown = ""
    for command in ("check", "explain", "status"):
        shown += invoke(command, path).stdout
    assert "mysql → delta" in shown
    assert "kanarie%2F" not in shown
    assert "kanarie/p" not in shown
    written = [file for file in folder.rglob("*") if file.is_file()]
    assert written
    assert [str(file) for file in written if b"kanarie" in file.read_bytes()] == []


def test_a_run_of_events_by_uri(database: Database, tmp_path: Path) -> None:
    uri = f"mysql://kanarie%20user:kanarie%2Fp%40ss%25@127.0.0.1:{database.port}/shop"
    path = tmp_path / "pipeline.yaml"
    path.write_text(
        f"source: {{type: mysql, uri: '{uri}'}}\n"
        "sink: {type: files, path: p/out, protocol: {name: debezium-mysql, topic.prefix: up}}\n"
        "pipeline: {name: events, folder: p/state}\n"
    )
    invoke("run", path, "--once")
    written = [file for file in (tmp_path / "p").rglob("*") if file.is_file()]
    events = [row for file in written if file.suffix == ".parquet" for row in pq.read_table(file).to_pylist()]
    assert "up.shop.orders" in {row["topic"] for row in events}
    assert [str(file) for file in written if b"kanarie" in file.read_bytes()] == []
