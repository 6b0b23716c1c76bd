"""`changefeed check` of pipelines into Iceberg tables: the catalog is tried before a run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from changefeed.cli import run
from changefeed.record_log import read, write
from tests.cli.command import CLASSIC
from tests.services.fault_proxy import FaultProxy
from tests.services.processes import free_ports
from tests.services.rest_catalog import RestCatalog
from tests.sinks.iceberg.rest_faults import refused

Checked = Callable[[dict[str, str], int], list[dict[str, Any]]]


@pytest.fixture
def checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Checked:
    """Returns the checks of the catalog, with these properties of it, and compares the exit code."""
    write(tmp_path / "log.jsonl", read(CLASSIC, stop=30))

    def check(properties: dict[str, str], code: int) -> list[dict[str, Any]]:
        sink = {"type": "iceberg", "path": "lake", **({"catalog-properties": properties} if properties else {})}
        source = {"type": "files", "path": "log.jsonl", "protocol": "ticdc-open"}
        path = tmp_path / "pipeline.yaml"
        path.write_text(json.dumps({"source": source, "sink": sink, "pipeline": {"name": "shop"}}))
        assert run(["check", str(path), "--json"]) == code
        return [one for one in json.loads(capsys.readouterr().out)["checks"] if one["name"] == "catalog"]

    return check


def test_a_catalog_that_is_not_there_yet_is_not_made(checked: Checked, tmp_path: Path) -> None:
    (seen,) = checked({}, 0)
    assert (seen["status"], seen["message"]) == ("ok", "catalog changefeed: none yet, the first run creates it")
    assert not (tmp_path / "lake").exists()


def test_tables_that_a_run_could_not_write_are_named(checked: Checked, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    catalog = load_catalog("changefeed", type="sql", uri=f"sqlite:///{lake}/catalog.db")
    catalog.create_namespace("shop")
    for version in (1, 2):
        catalog.create_table(
            f"shop.v{version}", pa.schema([pa.field("id", pa.int32())]), location=f"file://{lake}/shop/v{version}",
            properties={"format-version": str(version)},
        )  # fmt: skip
    catalog.create_table("shop.outside", pa.schema([pa.field("id", pa.int32())]), location=f"file://{tmp_path}/x")
    catalog.close()
    works, doubt = checked({}, 0)
    assert works["message"] == f"catalog changefeed answers; it has 2 tables below file://{lake}"
    assert doubt["status"] == "warn"
    assert doubt["message"].startswith("tables that changefeed does not write: shop/v1 has format version 1. ")


def test_a_rest_catalog_is_tried_and_left_as_it_was(checked: Checked, rest_catalog: RestCatalog) -> None:
    catalog = load_catalog("x", type="rest", uri=rest_catalog.url)
    before = catalog.list_namespaces()
    (seen,) = checked({"type": "rest", "uri": rest_catalog.url}, 0)
    assert seen["message"].startswith("catalog changefeed answers")
    assert catalog.list_namespaces() == before
    catalog.close()


def test_a_user_who_may_not_make_namespaces_is_warned(checked: Checked, rest_catalog: RestCatalog) -> None:
    with FaultProxy(rest_catalog.url) as proxy:
        proxy.add(refused(403, "ForbiddenException"), "POST", "/namespaces$", times=None)
        works, doubt = checked({"type": "rest", "uri": proxy.url}, 0)
        assert works["status"] == "ok"
        assert doubt["status"] == "warn"
        assert doubt["message"].startswith("namespaces cannot be made: catalog changefeed refuses this user")


def test_a_catalog_that_is_down_or_of_no_known_type_fails_with_the_fix(checked: Checked) -> None:
    url = f"http://127.0.0.1:{free_ports(1)[0]}"
    for properties, message in (
        ({"type": "rest", "uri": url}, f"catalog changefeed at {url} does not answer: "),
        ({"type": "nonsense"}, "catalog changefeed cannot be opened: 'nonsense'"),
    ):
        (seen,) = checked(properties, 2)
        assert seen["status"] == "fail"
        assert seen["message"].startswith(message)
        assert seen["fix"] == "correct sink.catalog-properties, or see that the catalog can be reached"
