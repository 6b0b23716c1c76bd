"""Pipelines from a server to files of Debezium's events, and what they have appended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from changefeed import record_log
from tests.services.database import Database


def write(folder: Path, database: Database, **source: Any) -> Path:
    """The file of a pipeline of all tables of `shop` to a folder, with further options of the source."""
    more = "".join(f", {name}: {value}" for name, value in source.items())
    path = folder / "pipeline.yaml"
    path.write_text(
        f"source: {{type: mysql, host: 127.0.0.1, port: {database.port}, user: dbz, password: dbz, tables: ['shop.*']{more}}}\n"
        f"sink: {{type: files, path: events, protocol: {{name: debezium-mysql, connector: {database.connector}, "
        "topic.prefix: srv, schemas.enable: false}}\n"
        "pipeline: {name: shop, folder: state}\n"
    )
    return path


def payloads(folder: Path) -> list[tuple[str, Any, Any]]:
    """Topic, key and value of each record that was appended."""
    if not (folder / "events").is_dir():
        return []
    records = [record for batch in record_log.read(folder / "events") for record in batch.to_pylist()]
    return [
        (
            record["topic"],
            record["key"] and json.loads(record["key"]),
            record["value"] and json.loads(record["value"]),
        )
        for record in records
    ]


def rows(folder: Path) -> list[tuple[str, str, Any, Any, Any]]:
    """Table, op, key and images of each row that was appended; tombstones have no op and no images."""
    images = []
    for topic, key, value in payloads(folder):
        if topic != "srv":
            value = value or {"op": "", "before": None, "after": None}
            images.append((topic.removeprefix("srv.shop."), value["op"], key, value["before"], value["after"]))
    return images
