"""Commits that a power cut has left incomplete are taken back; others stay."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from changefeed.sinks.delta.native.incomplete import take_back, take_back_newest

OWNER = "changefeed:test:1"


def commit(table: Path, version: int, *, by: str = OWNER, removes: tuple[str, ...] = ()) -> None:
    """Writes a commit that adds the file `part-<version>`, with the file."""
    name = f"part-{version}"
    (table / name).write_bytes(b"x" * 600)
    actions: list[dict[str, Any]] = [{"commitInfo": {"engineInfo": "Apache-Spark/4.1.0 Delta-Lake/4.4.0"}}]
    actions += [{"txn": {"appId": by, "version": version, "lastUpdated": 0}}]
    actions += [{"remove": {"path": path, "dataChange": True}} for path in removes]
    actions += [{"add": {"path": name, "partitionValues": {}, "size": 600, "dataChange": True}}]
    log_file(table, version).write_text("".join(json.dumps(action) + "\n" for action in actions))


def log_file(table: Path, version: int) -> Path:
    return table / "_delta_log" / f"{version:020d}.json"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table with the versions 0 to 4; the ledger has version 1."""
    (tmp_path / "_delta_log").mkdir()
    for version in range(5):
        commit(tmp_path, version, removes=("part-2",) if version == 3 else ())
    return tmp_path


def versions(table: Path) -> list[int]:
    return sorted(int(path.name[:20]) for path in (table / "_delta_log").glob("*.json"))


def _empty_commit(table: Path) -> None:
    log_file(table, 3).write_bytes(b"")


def _zeros(table: Path) -> None:
    log_file(table, 3).write_bytes(b"\0" * 90)


def _cut_commit(table: Path) -> None:
    log_file(table, 3).write_bytes(log_file(table, 3).read_bytes()[:-30])


def _empty_data(table: Path) -> None:
    (table / "part-3").write_bytes(b"")


def _data_gone(table: Path) -> None:
    (table / "part-3").unlink()


@pytest.mark.parametrize("damage", [_empty_commit, _zeros, _cut_commit, _empty_data, _data_gone])
def test_commits_are_taken_back_from_the_first_incomplete_one_on(damage: Callable[[Path], None], table: Path) -> None:
    damage(table)
    assert take_back(str(table), 1, OWNER) == [3, 4]
    assert versions(table) == [0, 1, 2]
    assert take_back(str(table), 1, OWNER) == []


def test_what_is_complete_stays(table: Path) -> None:
    (table / "part-2").unlink()  # a later commit has removed it
    (table / "part-0").unlink()  # before the ledger's version: damage, which nothing makes again
    assert take_back(str(table), 1, OWNER) == []
    assert take_back(str(table), 4, OWNER) == []
    assert take_back(str(table / "nothing"), -1, OWNER) == []
    assert versions(table) == [0, 1, 2, 3, 4]


def test_commits_of_other_programs_are_not_taken_back(table: Path) -> None:
    commit(table, 4, by="other")
    _empty_data(table)
    assert take_back(str(table), 1, OWNER) == []
    (table / "part-4").unlink()
    commit(table, 3)
    assert take_back(str(table), 1, OWNER) == []
    assert versions(table) == [0, 1, 2, 3, 4]


def test_a_new_table_is_taken_back_as_a_whole(table: Path) -> None:
    log_file(table, 0).write_bytes(b"")
    assert take_back(str(table), -1, OWNER) == [0, 1, 2, 3, 4]
    assert versions(table) == []


def test_checkpoints_of_commits_that_are_taken_back_go_with_them(table: Path) -> None:
    log = table / "_delta_log"
    for version in (1, 2, 4):
        (log / f"{version:020d}.checkpoint.parquet").write_bytes(b"PAR1" + b"x" * 9 + b"PAR1")
    (log / "_last_checkpoint").write_text('{"version":4,"size":3}')
    _empty_commit(table)
    take_back(str(table), 1, OWNER)
    assert {path.name for path in log.iterdir()} == {
        *(f"{version:020d}.json" for version in range(3)), *(f"{version:020d}.checkpoint.parquet" for version in (1, 2)),
    }  # fmt: skip


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + b"\0" * 20])
def test_a_checkpoint_that_is_not_whole_is_removed(content: bytes, table: Path) -> None:
    log = table / "_delta_log"
    (log / f"{4:020d}.checkpoint.parquet").write_bytes(content)
    (log / "_last_checkpoint").write_bytes(b"")
    assert take_back(str(table), 1, OWNER) == []
    assert {path.name for path in log.iterdir()} == {f"{version:020d}.json" for version in range(5)}


def test_checksums_that_are_not_whole_are_removed(table: Path) -> None:
    whole, torn = table / ".part-2.crc", table / ".part-3.crc"
    whole.write_bytes(b"crc\0" + b"\0" * (4 + 2 * 4))
    torn.write_bytes(b"")
    (table / "_delta_log" / f".{4:020d}.json.crc").write_bytes(b"crc\0")
    assert take_back(str(table), 1, OWNER) == []
    assert [path.name for path in (*table.glob(".*.crc"), *(table / "_delta_log").glob(".*.crc"))] == [whole.name]


def test_of_a_table_that_only_the_pipeline_writes_the_newest_commits_are_taken_back(table: Path) -> None:
    (table / "part-0").unlink()
    _empty_commit(table)
    assert take_back_newest(str(table)) == [3, 4]
