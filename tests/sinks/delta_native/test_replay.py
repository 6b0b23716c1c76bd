"""The log as it is read here, against delta-rs: after commits of several writers, checkpoints, and damage."""

from __future__ import annotations

import datetime
import json
import random
import secrets
import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.transaction import CommitProperties, Transaction

from changefeed.errors import DamagedError, SinkError
from changefeed.sinks.delta.native.commit import commit, forget_lost_checkpoint
from changefeed.sinks.delta.native.opened import open_table
from changefeed.sinks.delta.native.replay import LogState, TableLog, state
from changefeed.sinks.delta.native.statistics import bounds_of
from changefeed.sinks.writes import WriteId
from changefeed.storage.local import LocalFolder
from tests.sinks.delta_native.applying import opened
from tests.sinks.delta_native.commits import SCHEMA, replacing


def theirs(path: str, number: int) -> None:
    """An append of delta-rs, with a transaction version."""
    properties = CommitProperties(app_transactions=[Transaction(f"app-{number % 3}", number)])
    rows = pa.table({"id": [number], "v": ["y"]})
    write_deltalake(path, rows, mode="append", schema_mode="merge", commit_properties=properties)


def ours(path: str, number: int) -> None:
    at = opened(path)
    commit(at, [replacing(at, number, number + 1)], WriteId(1, number, 1), "{}")


def property_(path: str, number: int) -> None:
    DeltaTable(path).alter.set_table_properties({"delta.checkpointInterval": f"{number + 100}"})


def column(path: str, number: int) -> None:
    write_deltalake(path, pa.table({f"c{number}": [number]}), mode="append", schema_mode="merge")


def checkpointed(path: str, number: int) -> None:
    DeltaTable(path).create_checkpoint()


def compacted(path: str, number: int) -> None:
    DeltaTable(path).optimize.compact()


def fields_by_delta_rs(path: str, version: int | None = None) -> dict[str, Any]:
    table = DeltaTable(path, version)
    actions = pa.table(table.get_add_actions())
    return {
        "version": table.version(),
        "files": dict(zip(actions.column("path").to_pylist(), actions.column("size_bytes").to_pylist(), strict=True)),
        "columns": [(f.name, json.loads(f.type.to_json())) for f in table.schema().fields],
        "properties": table.metadata().configuration,
        "writer": table.protocol().min_writer_version,
        "transactions": {app: table.transaction_version(app) for app in ("app-0", "app-1", "app-2", "test")},
    }


def fields_of(newest: LogState) -> dict[str, Any]:
    return {
        "version": newest.version,
        "files": {path: file["size"] for path, file in newest.files.items()},
        "columns": [(field["name"], field["type"]) for field in newest.fields],
        "properties": newest.properties,
        "writer": newest.protocol["minWriterVersion"],
        "transactions": {app: newest.transactions.get(app) for app in ("app-0", "app-1", "app-2", "test")},
    }


WRITERS: list[Callable[[str, int], None]] = [theirs, theirs, property_, column, checkpointed, compacted]


@pytest.mark.parametrize("nth", range(4))
def test_a_log_is_read_fields_by_delta_rs_it(nth: int, tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    path, draw = str(tmp_path / "t"), random.Random(seed)
    DeltaTable.create(path, schema=SCHEMA)
    log, seen = TableLog(LocalFolder(str(path))), list[tuple[int, dict[str, Any]]]()
    for number in range(25):
        (ours if number < 8 else draw.choice(WRITERS))(path, number)
        newest = log.read()
        assert newest is not None
        wanted = fields_by_delta_rs(path)
        assert fields_of(newest) == fields_of(state(LocalFolder(str(path)))) == wanted, f"seed {seed}"
        seen.append((newest.version, wanted))
    for version, wanted in seen:
        assert fields_of(state(LocalFolder(str(path)), version)) == wanted, f"seed {seed}"


def test_a_state_that_was_read_does_not_change(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    DeltaTable.create(path, schema=SCHEMA)
    log = TableLog(LocalFolder(str(path)))
    first = log.read()
    assert first is not None
    ours(path, 1)
    second = log.read()
    assert second is not None
    assert (first.version, len(first.files), first.transactions) == (0, 0, {})
    assert (second.version, len(second.files), len(second.transactions)) == (1, 1, 1)


@pytest.mark.parametrize("is_restored", [False, True], ids=["made again", "an older copy"])
def test_another_table_at_the_path_is_read_from_the_start(is_restored: bool, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    DeltaTable.create(path, schema=SCHEMA)
    shutil.copytree(path, tmp_path / "copy")
    log = TableLog(LocalFolder(str(path)))
    for number in (1, 2):
        ours(path, number)
    assert log.read() is not None
    shutil.rmtree(path)
    assert log.read() is None
    if is_restored:
        shutil.copytree(tmp_path / "copy", path)
        for number in (5, 6, 7):
            ours(path, number)
    else:
        DeltaTable.create(path, schema=SCHEMA)
        theirs(path, 1)
    newest = log.read()
    assert newest is not None
    assert fields_of(newest) == fields_by_delta_rs(path)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_missing_commit_is_an_error_that_names_it(version: int, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    DeltaTable.create(path, schema=SCHEMA)
    for number in (1, 2, 3):
        ours(path, number)
    (tmp_path / "t" / "_delta_log" / f"{version:020d}.json").unlink()
    with pytest.raises(SinkError, match=f"the table's log cannot be read: .*{version:020d}.json"):
        TableLog(LocalFolder(str(path))).read()


@pytest.mark.parametrize("is_lost", [False, True], ids=["an older one", "the last one"])
def test_a_last_checkpoint_that_is_gone_is_forgotten(is_lost: bool, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    DeltaTable.create(path, schema=SCHEMA)
    for number in range(4):
        checkpointed(path, number)
        ours(path, number + 1)
    log = tmp_path / "t" / "_delta_log"
    checkpoints = sorted(log.glob("*.checkpoint.parquet"))
    checkpoints[-1 if is_lost else 0].unlink()
    assert forget_lost_checkpoint(opened(path)) is is_lost
    assert (log / "_last_checkpoint").exists() is not is_lost
    assert fields_of(state(LocalFolder(str(path)))) == fields_by_delta_rs(path)


def test_a_log_without_metadata_is_an_error(tmp_path: Path) -> None:
    log = tmp_path / "t" / "_delta_log"
    log.mkdir(parents=True)
    assert TableLog(LocalFolder(str(tmp_path / "t"))).read() is None
    (log / f"{0:020d}.json").write_text('{"commitInfo":{}}\n')
    with pytest.raises(SinkError, match="version 0 has no metadata"):
        TableLog(LocalFolder(str(tmp_path / "t"))).read()


@pytest.mark.slow
def test_damage_that_delta_rs_refuses_is_refused(tmp_path: Path) -> None:
    """A flipped bit in a commit: an action that delta-rs cannot decode must not be left out."""
    seed = secrets.randbelow(1 << 32)
    draw, path = random.Random(seed), str(tmp_path / "t")
    theirs(path, 0)
    for number in range(1, 4):
        ours(path, number)
    newest = max((tmp_path / "t" / "_delta_log").glob("*.json"))
    text, silent = newest.read_bytes(), list[str]()
    for _ in range(200):
        place = draw.randrange(len(text))
        damaged = text[:place] + bytes([text[place] ^ 1 << draw.randrange(8)]) + text[place + 1 :]
        newest.write_bytes(damaged)
        refused = None
        try:
            DeltaTable(path).file_uris()
        except Exception as error:
            refused = str(error)
        if refused is not None:
            try:
                TableLog(LocalFolder(path)).read()
                silent.append(f"{damaged[max(0, place - 60) : place + 20]!r}: {refused}")
            except SinkError:
                pass
    assert not silent, f"seed {seed}: {silent}"


@pytest.mark.slow
def test_any_flipped_bit_in_the_actions_of_a_commit_is_seen(tmp_path: Path) -> None:
    """A path may become that of another file, and a statistic another number."""
    path = str(tmp_path / "t")
    theirs(path, 0)
    for number in range(1, 3):
        ours(path, number)
    newest = max((tmp_path / "t" / "_delta_log").glob("*.json"))
    text = newest.read_bytes()
    begin = text.index(b"\n") + 1
    assert len(text) > begin + 500
    for place in range(begin, len(text)):
        newest.write_bytes(text[:place] + bytes([text[place] ^ 1 << place % 8]) + text[place + 1 :])
        with pytest.raises(DamagedError):
            TableLog(LocalFolder(path)).read()
    newest.write_bytes(text)
    assert TableLog(LocalFolder(path)).read() is not None


VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int8(), [-128, 127]),
    (pa.int64(), [-(2**63), 2**63 - 1]),
    (pa.string(), ["", "z" * 40]),
    (pa.date32(), [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]),
    (pa.timestamp("us", "UTC"), [datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999, datetime.UTC)]),
    (pa.timestamp("us"), [datetime.datetime(2026, 2, 28, 1, 2, 3, 4_567)]),
    (pa.decimal128(38, 10), [Decimal("-1234567890123456789012345678.0123456789"), Decimal("0.1")]),
    (pa.decimal128(20, 0), [Decimal(18446744073709551615)]),  # delta-rs gives 2**63 - 1 as its bounds
    (pa.decimal128(19, 0), [Decimal(2**53 + 1), Decimal(1)]),
]


@pytest.mark.parametrize("kind, values", VALUES, ids=[str(kind) for kind, _ in VALUES])
def test_bounds_of_a_file_contain_its_values(kind: pa.DataType, values: list[Any], tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "t"), pa.table({"k": pa.array(values, kind)}))
    table = open_table(opened(tmp_path / "t").folder, "test")
    assert table is not None
    files = table.files(["k"])
    [low], [high] = files.column("low_0").to_pylist(), files.column("high_0").to_pylist()
    assert files.column("low_0").type == files.column("high_0").type == kind
    slack = datetime.timedelta(milliseconds=1) if pa.types.is_timestamp(kind) else None
    assert low is None or low <= min(values)
    assert high is None or (high + slack if slack else high) >= max(values)


@pytest.mark.parametrize(
    "stats",
    [None, "{", "[]", '{"minValues":[1]}', '{"minValues":{"k":"x"},"maxValues":{"k":"y"}}', '{"minValues":null}'],
)
def test_statistics_that_are_none_leave_files_without_bounds(stats: str | None) -> None:
    assert bounds_of([stats], "k", pa.int64()) is None


def test_bounds_of_other_writers_may_have_an_offset() -> None:
    stats = json.dumps({f"{end}Values": {"k": "2026-01-01T08:00:00.000+08:00"} for end in ("min", "max")})
    bounds = bounds_of([None, stats], "k", pa.timestamp("us", "UTC"))
    assert bounds is not None
    instant, millisecond = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC), datetime.timedelta(milliseconds=1)
    assert bounds[0].to_pylist() == [None, instant]
    assert bounds[1].to_pylist() == [None, instant + millisecond], "other writers cut what is below a millisecond"


def test_an_upper_bound_stays_in_the_year_9999() -> None:
    stats = json.dumps({f"{end}Values": {"k": "9999-12-31T23:59:59.999Z"} for end in ("min", "max")})
    bounds = bounds_of([stats], "k", pa.timestamp("us", "UTC"))
    assert bounds is not None
    assert bounds[1].to_pylist() == [datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=datetime.UTC)]
