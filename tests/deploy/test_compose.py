"""The Compose file: it is valid, its services fit together, and its database, connector and pipeline are run for real."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

import changefeed
from changefeed import Pipeline
from tests.deploy.files import DEFINITION, DEPLOY, ROOT, check_command, package_tool, read_yaml
from tests.services import debezium, kafka

FOLDER = DEPLOY / "compose"
SERVICES: dict[str, dict[str, Any]] = read_yaml(FOLDER / "compose.yaml")["services"]
CONNECTOR: dict[str, str] = json.loads((FOLDER / "connector" / "connector.json").read_text(encoding="utf-8"))


def test_the_file_fits_the_schema_of_compose() -> None:
    schema = [package_tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run([*schema, str(FOLDER / "compose.yaml")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_services_wait_for_conditions_that_come_true() -> None:
    for service in SERVICES.values():
        for name, waited in service.get("depends_on", {}).items():
            if waited["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[name], name
            else:
                assert waited["condition"] == "service_completed_successfully"
                assert SERVICES[name]["restart"].startswith("on-failure"), name


def test_mounted_files_exist_and_volumes_are_declared() -> None:
    declared = set(read_yaml(FOLDER / "compose.yaml")["volumes"])
    for service in SERVICES.values():
        for mount in service.get("volumes", []):
            place = mount.split(":")[0]
            assert (FOLDER / place).exists() if place.startswith(".") else place in declared, mount
    assert (
        FOLDER / SERVICES["changefeed"]["build"]["context"] / SERVICES["changefeed"]["build"]["dockerfile"]
    ).is_file()


def test_passwords_are_in_the_example_and_without_values() -> None:
    lines = re.findall(r"(?m)^(\w+)=(.*)$", (FOLDER / ".env.example").read_text(encoding="utf-8"))
    used = set(re.findall(r"\$\{(\w+):\?", (FOLDER / "compose.yaml").read_text(encoding="utf-8")))
    assert dict(lines) == dict.fromkeys(used, "")
    assert "deploy/compose/.env" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()


def test_versions_are_those_that_the_tests_run() -> None:
    assert SERVICES["kafka"]["image"] == f"apache/kafka:{kafka.VERSION}"
    major_minor = ".".join(debezium.VERSIONS["mariadb"].split(".")[:2])
    assert {SERVICES[name]["image"] for name in ("connect", "connector")} == {f"quay.io/debezium/connect:{major_minor}"}
    assert SERVICES["changefeed"]["image"] == f"changefeed:{changefeed.__version__}"


def test_the_connector_has_every_option_that_the_guide_asks_for() -> None:
    guide = (ROOT / "docs" / "guides" / "debezium.md").read_text(encoding="utf-8")
    table = guide.split("## 1. Set the connector")[1].split("## 2.")[0]
    asked = dict(re.findall(r"(?m)^\| `([\w.]+)`[^|]*\| `(\w+)`[^|]*\|", table))
    # The list of tables is open, so that tables which come later are captured; the converters have options of their own.
    del asked["schema.history.internal.store.only.captured.tables.ddl"], asked["replace.null.with.default"]
    assert len(asked) >= 5
    assert {name: CONNECTOR.get(name) for name in asked} == asked
    for part in ("key", "value"):
        assert CONNECTOR[f"{part}.converter.replace.null.with.default"] == "false"


def test_the_connector_gets_its_password_from_the_environment() -> None:
    connect = SERVICES["connect"]["environment"]
    provider, name = re.fullmatch(r"\$\{(\w+):(\w+)\}", CONNECTOR["database.password"]).groups()  # type: ignore[union-attr]  # or it fails
    assert connect["CONNECT_CONFIG_PROVIDERS"] == provider
    assert name in connect
    assert connect[f"CONNECT_CONFIG_PROVIDERS_{provider.upper()}_CLASS"].endswith(".EnvVarConfigProvider")


def test_the_pipeline_reads_the_topics_of_the_connector() -> None:
    pattern = read_yaml(FOLDER / "pipeline.yaml")["source"]["topics-pattern"]
    prefix = CONNECTOR["topic.prefix"]
    for topic in (prefix, f"{prefix}.shop.orders", f"{prefix}.transaction"):
        assert re.fullmatch(pattern, topic), topic
    assert not re.fullmatch(pattern, CONNECTOR["schema.history.internal.kafka.topic"])


def test_the_definition_is_where_the_image_looks_for_it(tmp_path: Path) -> None:
    assert f"./pipeline.yaml:{DEFINITION}:ro" in SERVICES["changefeed"]["volumes"]
    head = (FOLDER / "compose.yaml").read_text(encoding="utf-8").split("\nname:")[0]
    (command,) = re.findall(r"docker compose exec changefeed (changefeed .*)", head)
    check_command(command.split(), tmp_path)


@pytest.mark.parametrize("script", ["connector/create.sh", "database/2-debezium.sh"])
def test_scripts_are_shell(script: str) -> None:
    subprocess.run(["sh", "-n", str(FOLDER / script)], check=True)
    assert os.access(FOLDER / script, os.X_OK)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.xdist_group("processes")
def test_the_shop_arrives_in_the_lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MariaDB with the options and scripts of the file, the connector as it is configured, and the definition on a log."""
    from deltalake import DeltaTable

    from tests.services.database import MariaDb

    options = [option for option in SERVICES["mariadb"]["command"] if not option.startswith("--log-bin")]
    with MariaDb(*options) as database:
        _run_scripts(database, monkeypatch)
        own = ("connector.class", "database.hostname", "database.port", "schema.history.internal.kafka.", "tasks.max")
        settings = {name: value for name, value in CONNECTOR.items() if not name.startswith(own)}
        settings["database.password"] = "secret"
        # the engine of the tests has one converter for keys and values
        settings["converter.schemas.enable"] = CONNECTOR["value.converter.schemas.enable"]
        with debezium.Debezium(database, tmp_path / "engine", settings) as engine:
            engine.wait(lambda events: sum(".shop." in event["topic"] for event in events) >= 5, "the snapshot")
            database.execute(
                "UPDATE orders SET status = 'paid' WHERE id = 1; DELETE FROM customers WHERE id = 3", "shop"
            )
            database.execute(
                "ALTER TABLE orders ADD note VARCHAR(20); INSERT INTO orders (customer, total, note) VALUES (1, 7, 'gift')",
                "shop",
            )
            events = engine.follow("shop")
        log = debezium.write_log(tmp_path / "log.jsonl", events, partitions=2)
        expected = {name: database.rows("shop", name) for name in ("customers", "orders")}
    written = read_yaml(FOLDER / "pipeline.yaml")
    source = {"type": "files", "path": str(log), "protocol": written["source"]["protocol"]}
    folders = {"sink": {**written["sink"], "path": str(tmp_path / "lake")}}
    behaviour = {**written["pipeline"], "folder": str(tmp_path / "pipeline")}
    pipeline = Pipeline.from_dict({**written, **folders, "source": source, "pipeline": behaviour})
    summary = pipeline.run(once=True)
    assert summary.incomplete_transaction is None
    for name, rows in expected.items():
        table = DeltaTable(str(tmp_path / "lake" / "shop" / name)).to_pyarrow_table().select(list(rows[0]))
        rows_of_delta = [
            {column: None if value is None else str(value) for column, value in row.items()}
            for row in table.to_pylist()
        ]
        assert sorted(rows_of_delta, key=lambda row: str(row["id"])) == [_as_text(row) for row in rows], name


def _run_scripts(database: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs the scripts that the image of MariaDB runs once, with a client that finds this server."""
    for script in sorted((FOLDER / "database").iterdir()):
        text = script.read_text(encoding="utf-8")
        if script.suffix == ".sql":
            database.execute(text)
        else:
            client = " ".join(database.client())
            text = re.sub(r"mariadb --user=root --password=\"\$\w+\"", client, text)
            assert client in text
            monkeypatch.setenv("DEBEZIUM_PASSWORD", "secret")
            monkeypatch.setenv("MARIADB_ROOT_PASSWORD", "secret")
            subprocess.run(["sh", "-c", text], check=True)


def _as_text(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the server, as Python prints the values of a Delta table."""
    return {
        name: re.sub(r"(\.\d{3})$", r"\g<1>000", value) if name == "created" and value else value
        for name, value in row.items()
    }
