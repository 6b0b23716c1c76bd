"""Sections of a definition whose type is a module of one's own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from changefeed.errors import ConfigError
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.config.load import read
from changefeed.pipeline.ledger import read_ledger
from changefeed.pipeline.operations.expire import expire
from changefeed.sinks import event_sink, sink
from changefeed.sources import record_source
from tests.sinks.event_contract import Plain
from tests.toys import lake
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


def test_a_sink_that_lacks_the_metadata_columns_of_its_section_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise `irregular: keep` would lose the texts."""
    monkeypatch.setattr(lake, "open_sink", lambda section, session, folder: LakeSink(Path(section.path)))
    with pytest.raises(ConfigError) as caught:
        sink(read(OWN, base=Path("/srv")).sink)
    assert str(caught.value) == (
        'sink "tests.toys.lake" was opened with the metadata columns (none), but the definition has _irregular: open_sink must '
        "take section.added_columns"
    )


@pytest.mark.parametrize(
    "kind, name, use",
    [
        ("sink", "open_sink", lambda definition: sink(definition.sink.model_copy(update={"type": "tests.toys.lines"}))),
        ("event sink", "open_events", lambda _: event_sink(EventsSection(type="tests.toys.lines", path="x"), Plain)),
        ("ledger", "open_reader", lambda definition: read_ledger(_ledger_in(definition, "tests.toys.lines"))),
    ],
)
def test_a_module_without_the_function_of_its_contract_is_named(
    kind: str, name: str, use: Callable[[Any], Any]
) -> None:
    with pytest.raises(ConfigError) as caught:
        use(read(OWN, base=Path("/srv")))
    assert str(caught.value) == (
        f'{kind} "tests.toys.lines" has no {name}: define it in the module, as docs/guides/own.md shows'
    )


def _ledger_in(definition: Definition, module: str) -> Definition:
    assert definition.ledger is not None
    return definition.model_copy(update={"ledger": definition.ledger.model_copy(update={"type": module})})


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
