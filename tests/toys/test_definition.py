"""Sections of a definition whose type is a module of one's own."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from changefeed.errors import ConfigError
from changefeed.pipeline.config.load import read
from changefeed.pipeline.operations.expire import expire
from changefeed.sinks import event_sink, sink
from changefeed.sources import record_source
from tests.sinks.event_contract import Plain
from tests.toys.lake import LakeSection, LakeSink
from tests.toys.lines import LinesSource
from tests.toys.sqlite_events import EventsSection, SqliteEvents

OWN: dict[str, Any] = {
    "source": {"type": "tests.toys.lines", "path": "lines", "protocol": "ticdc-open"},
    "sink": {"type": "tests.toys.lake", "path": "lake", "irregular": "keep"},
    "ledger": {"type": "tests.toys.sqlite_store", "path": "ledger.sqlite"},
}


def changed(section: str, **values: Any) -> dict[str, Any]:
    return {**OWN, section: {**OWN[section], **values}}


def test_sections_are_read_by_the_models_of_their_modules() -> None:
    definition = read(OWN, base=Path("/srv"))
    assert isinstance(definition.sink, LakeSection)
    assert definition.source.model_dump()["path"] == "/srv/lines"
    assert definition.ledger is not None
    assert definition.ledger.model_dump() == {"type": "tests.toys.sqlite_store", "path": "/srv/ledger.sqlite"}
    opened = sink(definition.sink)
    assert isinstance(opened, LakeSink)
    assert (opened.root, opened.metadata_columns) == (Path("/srv/lake"), ("_irregular",))
    assert isinstance(record_source(definition.source), LinesSource)


def test_an_event_sink_may_be_a_module_of_ones_own() -> None:
    section = EventsSection(type="tests.toys.sqlite_events", path="/srv/records.sqlite")
    opened = event_sink(section, Plain)
    assert isinstance(opened, SqliteEvents)
    assert opened.location == "/srv/records.sqlite"


def test_messages_name_the_module_that_keeps_the_ledger(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^ledger tests\.toys\.sqlite_store: changefeed has not done a step yet"):
        expire(read(OWN, base=tmp_path), timedelta(days=7))


REFUSED = {
    'sink: sink "tests.toys.lakes" is not a module that Python can import (No module named \'tests.toys.lakes\'): install it, '
    "or add its folder to PYTHONPATH": changed("sink", type="tests.toys.lakes"),
    'ledger: ledger "tests.toys" has no SECTION. Define SECTION in the module, as docs/guides/own.md shows': changed(
        "ledger", type="tests.toys"
    ),
    'ledger.type: unknown ledger "sqlite": leave `ledger` out, for files beside the tables, or name a module of your own, as '
    "`my_package.my_ledger`": changed("ledger", type="sqlite"),
    'unknown sink.type ".lake". Known: delta, iceberg': changed("sink", type=".lake"),
    'unknown name in ledger "paht". Did you mean "path"? Known: path, type': {
        **OWN, "ledger": {"type": "tests.toys.sqlite_store", "paht": "x"}
    },
    'unknown name in sink "writer". Known: adopt, column-names, irregular, metadata-columns, path, type': changed(
        "sink", writer="sql"
    ),
    "source.max-records-per-batch: expected at least 1, got 0": changed("source", **{"max-records-per-batch": 0}),
    "sink.path: takes no keys or passwords, because logs and commands print paths: give them as the file system's own "
    "properties under `spark`, as `spark.hadoop.fs.s3a.secret.key: ${AWS_SECRET_ACCESS_KEY}`": changed(
        "sink", path="s3a://me:xyzzy@lake"
    ),
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_errors_name_the_place_and_the_way_out(message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(REFUSED[message])
    assert str(caught.value) == f"definition: {message}"
