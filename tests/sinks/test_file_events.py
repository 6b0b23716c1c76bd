"""Appending events to a folder: it is a record log like any other, and foreign files in it are refused."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

from changefeed import record_log
from changefeed.errors import ConfigError, SinkError
from changefeed.model.batch import record_batch
from changefeed.protocols import protocol
from changefeed.protocols.base import Stores
from changefeed.sinks import EVENT_SINKS, event_sink, event_sink_sections
from changefeed.sinks.files.events import FileEvents
from changefeed.sinks.writes import WriteId
from tests.cli.command import invoke
from tests.protocols.conformance.cases import decode, histories
from tests.sinks.event_contract import Plain, marks


def folder(tmp_path: Path) -> FileEvents:
    """A folder with two appends."""
    sink = FileEvents(str(tmp_path / "log"), Plain)
    sink.append(marks("shop", 1, 2), WriteId(1, 1, 1), "{}")
    sink.append(marks("shop", 3), WriteId(1, 2, 1), "{}")
    return sink


def test_files_are_numbered_and_there_are_no_others(tmp_path: Path) -> None:
    sink = folder(tmp_path)
    there = sorted(path.relative_to(sink.path).as_posix() for path in Path(sink.path).rglob("*"))
    assert there == [".unfinished", f"{1:020}.parquet", f"{2:020}.parquet"]


def test_a_folder_is_decoded_in_order(tmp_path: Path) -> None:
    """`changefeed decode` reads one log with the offsets of both appends."""
    history = next(h for h in histories() if h.file.startswith("shop/") and h.protocol == "ticdc-open")
    ticdc_open, path = protocol("ticdc-open"), tmp_path / "log"
    options = ticdc_open.read_options(history.options)
    sink = FileEvents(str(path), lambda: ticdc_open.encoder(options, Stores()))
    for step, at in enumerate((0, 15), 1):
        sink.append(decode(history, history.records.slice(at, 15)), WriteId(1, step, 1), "{}")
    one = tmp_path / "one.parquet"
    record_log.write(one, record_log.read(path))
    results = [invoke("decode", log, "--protocol", "ticdc-open", "--json") for log in (path, one)]
    assert results[0].exit_code == 0
    assert results[0].output == results[1].output
    assert len(results[0].output.splitlines()) >= 30
    offsets = [row["offset"] for batch in record_log.read(path) for row in batch.to_pylist() if row["partition"] == 0]
    assert offsets == list(range(len(offsets)))


@pytest.mark.parametrize("name", ["a.parquet", f"{7:020}.parquet"])
def test_a_foreign_file_is_refused(tmp_path: Path, name: str) -> None:
    sink = folder(tmp_path)
    record_log.write(f"{sink.path}/{name}", [record_batch([])])
    with pytest.raises(SinkError, match=rf"{name} is not a file of an event sink.* another folder"):
        sink.append(marks("shop", 4), WriteId(1, 3, 1), "{}")


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    sink = folder(tmp_path)
    Path(sink.path, f"{2:020}.parquet").write_bytes(b"PAR1")
    with pytest.raises(SinkError, match=rf"{2:020}.parquet is not a file of an event sink"):
        sink.last()


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    sink = folder(tmp_path)
    records = record_batch([])
    with pq.ParquetWriter(f"{sink.path}/{3:020}.parquet", records.schema) as writer:
        writer.add_key_value_metadata({"changefeed.append": '{"format":2,"owner":"","marks":{},"ends":{}}'})
    with pytest.raises(SinkError, match="written by a newer changefeed, in format 2; this one reads 1"):
        sink.last()


@pytest.mark.parametrize("failing, transient", [(errno.ENOSPC, True), (errno.EROFS, False)])
def test_a_disk_that_refuses_is_an_error_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int, transient: bool
) -> None:
    sink = folder(tmp_path)

    def refuse(handle: int) -> None:
        raise OSError(failing, os.strerror(failing))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse)
        with pytest.raises(SinkError, match=os.strerror(failing)) as caught:
            sink.append(marks("shop", 4), WriteId(1, 3, 1), "{}")
    assert caught.value.transient is transient
    assert (sink.last(), os.listdir(f"{sink.path}/.unfinished")) == (WriteId(1, 2, 1), [])
    sink.append(marks("shop", 4), WriteId(1, 3, 1), "{}")
    assert record_log.count(sink.path) == 4


def test_every_event_sink_has_a_section_and_opens() -> None:
    """Each sink is opened by its type, without a request to the target."""
    sections: dict[str, tuple[dict[str, Any], str]] = {
        "files": ({"path": "/nowhere/log/"}, "/nowhere/log"),
        "kafka": (
            {"servers": "h:9092", "topic": "shop", "properties": {"sasl.password": "xyzzy"}},
            "kafka://h:9092/shop",
        ),
    }
    assert sections.keys() == EVENT_SINKS.keys() == event_sink_sections().keys()
    for name, section in event_sink_sections().items():
        values, location = sections[name]
        sink = event_sink(section.model_validate({"type": name, "protocol": "ticdc-open", **values}), Plain)
        assert (sink.location, sink.atomic) == (location, True)
        assert "xyzzy" not in repr(sink)
    with pytest.raises(ConfigError, match=r'unknown event sink "kafak"\. Did you mean "kafka"'):
        event_sink(SimpleNamespace(type="kafak"), Plain)
