"""Blocks to paste: definitions can be loaded, connectors have the options that the guide recommends, JSON is JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from changefeed.pipeline.config.load import load_any
from tests.deploy.files import variables
from tests.docs.fenced import blocks
from tests.docs.shown import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
DEBEZIUM = ROOT / "docs/guides/debezium.md"
COMPOSE = ROOT / "deploy/compose/connector/connector.json"


DEFINITIONS = [
    pytest.param(block, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, block in enumerate(blocks(page, "yaml"))
    if {"source", "sink"} <= set(yaml.safe_load(block))
]


def test_the_pages_have_definitions() -> None:
    assert len(DEFINITIONS) > 12


@pytest.mark.parametrize("block", DEFINITIONS)
def test_a_definition_that_a_page_shows_can_be_loaded(
    block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in re.findall(r"type: (my_\w+(?:\.\w+)*)", block):
        pytest.skip(f"{module} is the reader's own")
    (tmp_path / "history.jsonl.gz").touch()
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required username='u' password='p';"
    text = re.sub(r"\$\{\w+_JAAS\}", f'"{login}"', block)
    for name in variables(text):
        monkeypatch.setenv(name, f"value-of-{name.lower()}")
    (tmp_path / "pipeline.yaml").write_text(text, encoding="utf-8")
    load_any(tmp_path / "pipeline.yaml")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_json_that_a_page_shows_is_json(page: Path) -> None:
    for block in blocks(page, "json"):
        json.loads(block)


def connector() -> dict[str, str]:
    """The configuration of the connector in the guide."""
    whole: dict[str, Any] = json.loads(next(blocks(DEBEZIUM, "json")))
    assert whole.keys() == {"name", "config"}
    config: dict[str, str] = whole["config"]
    return config


def test_the_connector_has_every_option_that_the_guide_recommends() -> None:
    """The table above it has them; one for lists of tables that never grow is left to the reader."""
    section = DEBEZIUM.read_text(encoding="utf-8").partition("## 1. Set the connector")[2].partition("###")[0]
    rows = re.findall(r"(?m)^\| `([\w.]+)`( of the converters)? \| `([\w.]+)`(,? if)?", section)
    assert len(rows) >= 7
    for option, of_converters, value, sometimes in rows:
        for name in [f"{kind}.converter.{option}" for kind in ("key", "value")] if of_converters else [option]:
            assert sometimes or connector().get(name) == value, name


def test_the_connector_is_that_of_the_compose_file_for_mysql() -> None:
    """The nightly tests run the one of the Compose file."""
    compose = json.loads(COMPOSE.read_text(encoding="utf-8"))
    differing = {name for name in connector() | compose if connector().get(name) != compose.get(name)}
    assert differing == {
        "connector.class",
        "database.hostname",
        "database.include.list",
        "schema.history.internal.kafka.bootstrap.servers",
        "decimal.handling.mode",
        "bigint.unsigned.handling.mode",
    }
