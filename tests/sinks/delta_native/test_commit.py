"""Commits are fenced: two at once, an older epoch, a lost answer, and other writers of the table."""

from __future__ import annotations

import json
import shutil
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from changefeed.errors import DamagedError, FencedError, SinkError
from changefeed.sinks.delta.actions import CHECKSUM
from changefeed.sinks.delta.log import commits, pack
from changefeed.sinks.delta.log_names import commit_name
from changefeed.sinks.delta.native import log_file
from changefeed.sinks.delta.native.commit import checkpoint, commit
from changefeed.sinks.delta.native.opened import open_table
from changefeed.sinks.writes import WriteId
from changefeed.storage.local import LocalFolder
from tests.sinks.delta_native.applying import commit_text, opened, read
from tests.sinks.delta_native.commits import SCHEMA, replacing


@pytest.fixture
def path(tmp_path: Path) -> str:
    DeltaTable.create(str(tmp_path / "t"), schema=SCHEMA)
    return str(tmp_path / "t")


def ids(path: str) -> list[int]:
    numbers: list[int] = read(path).column("id").to_pylist()
    return sorted(numbers)


def write(path: str, write_id: WriteId, *new: int) -> int:
    at = opened(path)
    return commit(at, [replacing(at, *new)], write_id, "{}")


def log_file_of(path: str, version: int) -> Path:
    return Path(path) / "_delta_log" / commit_name(version)


def test_a_commit_carries_the_write_id_and_the_note(path: str) -> None:
    at = opened(path)
    assert at.write_id is None
    assert commit(at, [replacing(at, 1, 2)], WriteId(3, 4, 5), '{"changefeed":"test"}') == 1
    assert opened(path).write_id == WriteId(3, 4, 5)
    assert opened(path, "somebody else").write_id is None
    actions = [json.loads(line) for line in (Path(path) / "_delta_log" / f"{1:020d}.json").read_text().splitlines()]
    [info] = [action["commitInfo"] for action in actions if "commitInfo" in action]
    assert (info["operation"], info["userMetadata"]) == ("WRITE", '{"changefeed":"test"}')
    [txn] = [action["txn"] for action in actions if "txn" in action]
    assert (txn["appId"], txn["version"]) == ("test", pack(WriteId(3, 4, 5)))
    assert ids(path) == [1, 2]


def test_only_one_of_two_commits_at_once_succeeds(path: str) -> None:
    a, b = opened(path), opened(path)
    first, second = replacing(a, 1), replacing(b, 2)
    assert commit(a, [first], WriteId(2, 1, 1), "{}") == 1
    with pytest.raises(SinkError, match="version 1 was committed by another writer") as caught:
        commit(b, [second], WriteId(2, 1, 2), "{}")
    assert caught.value.transient
    assert ids(path) == [1]


def test_each_version_is_committed_by_one_of_many_threads(path: str) -> None:
    start, outcomes = threading.Barrier(8), list[tuple[int, int | None]]()

    def compete(number: int) -> None:
        at = opened(path)
        written = replacing(at, number)
        start.wait()
        try:
            outcomes.append((number, commit(at, [written], WriteId(1, 1, number), "{}")))
        except SinkError:
            outcomes.append((number, None))

    threads = [threading.Thread(target=compete, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [(winner, version)] = [outcome for outcome in outcomes if outcome[1] is not None]
    assert (version, ids(path), DeltaTable(path).version()) == (1, [winner], 1)


def test_an_older_epoch_that_opened_the_table_before_is_fenced(path: str) -> None:
    late = opened(path)
    written = replacing(late, 1)
    write(path, WriteId(2, 1, 1), 2)
    with pytest.raises(
        FencedError, match="epoch 2 of pipeline test writes this table now; this run is epoch 1 and stops"
    ):
        commit(late, [written], WriteId(1, 9, 9), "{}")
    assert ids(path) == [2]


def test_an_older_epoch_that_opens_the_table_after_is_fenced(path: str) -> None:
    write(path, WriteId(2, 1, 1), 2)
    with pytest.raises(FencedError):
        write(path, WriteId(1, 9, 9), 1)
    assert ids(path) == [2]


def test_a_write_is_not_repeated(path: str) -> None:
    write(path, WriteId(2, 1, 1), 2)
    with pytest.raises(SinkError, match="is not after the table's last one"):
        write(path, WriteId(2, 1, 1), 3)
    assert ids(path) == [2]


def test_a_commit_of_another_application_in_between_is_enough(path: str) -> None:
    """A blind append conflicts with nothing, but files that were read may be gone."""
    at = opened(path)
    written = replacing(at, 1)
    write_deltalake(path, pa.table({"id": [7], "v": ["theirs"]}), mode="append")
    with pytest.raises(SinkError, match="committed by another writer") as caught:
        commit(at, [written], WriteId(1, 1, 1), "{}")
    assert caught.value.transient
    assert ids(path) == [7]
    assert write(path, WriteId(1, 1, 1), 1) == 2, "on the newest version it goes through"


def test_a_lost_answer_is_found_in_the_log(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    at = opened(path)
    written = replacing(at, 1)
    real = log_file.put

    def lost(*args: Any) -> None:
        real(*args)
        raise OSError("connection reset")

    monkeypatch.setattr(log_file, "put", lost)
    assert commit(at, [written], WriteId(1, 1, 1), "{}") == 1
    assert ids(path) == [1]


def test_a_lost_answer_after_which_a_newer_run_wrote_is_fenced(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    at = opened(path)
    written = replacing(at, 1)
    real = log_file.put

    def lost(*args: Any) -> None:
        real(*args)
        monkeypatch.undo()
        write(path, WriteId(2, 1, 1), 2)
        raise OSError("connection reset")

    monkeypatch.setattr(log_file, "put", lost)
    with pytest.raises(FencedError):
        commit(at, [written], WriteId(1, 1, 1), "{}")
    assert ids(path) == [2]


def test_a_commit_that_was_not_written_is_found_by_the_next_read(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    at = opened(path)
    written = replacing(at, 1)

    def nothing(*args: Any, **named: Any) -> None:
        """Returns as if the commit had been written."""

    monkeypatch.setattr(log_file, "put", nothing)
    commit(at, [written], WriteId(1, 1, 1), "{}")
    for _ in range(2):
        with pytest.raises(DamagedError, match="while version 1 was written, another program has replaced files"):
            at.log.read()
    assert DeltaTable(path).version() == 0


def test_a_commit_that_another_writer_has_overwritten_is_found_by_the_next_read(path: str) -> None:
    at = opened(path)
    commit(at, [replacing(at, 1)], WriteId(1, 1, 1), "{}")
    log_file_of(path, 1).write_text(json.dumps(log_file.commit_info("WRITE", {}, 0)) + "\n")
    with pytest.raises(DamagedError, match="while version 1 was written"):
        at.log.read()


@pytest.mark.parametrize("by", ["another program", "a newer run"])
def test_a_commit_to_a_version_that_was_replaced_meanwhile_is_found_by_the_next_read(path: str, by: str) -> None:
    """The version after it was free, so that the commit itself could not fail."""
    write(path, WriteId(1, 1, 1), 1)
    at = opened(path)
    written = replacing(at, 2)
    file = log_file_of(path, 1)
    text = file.read_bytes()
    file.unlink()
    file.write_bytes(text.replace(CHECKSUM.encode(), b"x", 1))
    commit(at, [written], WriteId(1, 2, 1), "{}")
    if by == "a newer run":
        write(path, WriteId(2, 2, 0), 3)
        assert opened(path).write_id == WriteId(2, 2, 0)
        there = at.log.read()
        assert there is not None
        assert there.version == 3, "the guard reports which run that is"
        return
    for _ in range(2):
        with pytest.raises(DamagedError, match="while version 2 was written"):
            at.log.read()


def test_a_commit_to_a_version_whose_file_was_cleaned_up_stands(path: str) -> None:
    write(path, WriteId(1, 1, 1), 1)
    DeltaTable(path).create_checkpoint()
    at = opened(path)
    log_file_of(path, 0).unlink()
    log_file_of(path, 1).unlink()
    commit(at, [replacing(at, 2)], WriteId(1, 2, 1), "{}")
    there = at.log.read()
    assert there is not None
    assert there.version == 2


def test_a_commit_to_a_table_that_was_replaced_by_an_older_copy_is_found_by_the_next_read(
    path: str, tmp_path: Path
) -> None:
    write(path, WriteId(1, 1, 1), 1)
    shutil.copytree(path, tmp_path / "copy")
    write(path, WriteId(1, 2, 1), 2)
    at = opened(path)
    written = replacing(at, 3)
    for name in ("_delta_log",):
        shutil.rmtree(Path(path) / name)
        shutil.copytree(tmp_path / "copy" / name, Path(path) / name)
    commit(at, [written], WriteId(1, 3, 1), "{}")
    with pytest.raises(SinkError, match=r"00000000000000000002.json is missing"):
        at.log.read()


def test_a_state_is_known_until_the_table_is_written(path: str) -> None:
    at = opened(path)
    assert at.log.known(0) is at.state
    assert (at.log.known(1), at.log.known(-1)) == (None, None)
    commit(at, [replacing(at, 1)], WriteId(1, 1, 1), "{}")
    assert (at.log.known(0), at.log.known(1)) == (None, None), "it has not been looked at since"
    assert at.log.read() is at.log.known(1)


def test_a_checkpoint_is_written_when_it_is_due_and_keeps_everything(path: str) -> None:
    made = []
    for number in range(1, 21):
        at = opened(path)
        commit(at, [replacing(at, number)], WriteId(1, number, 1), "{}")
        made += [opened(path).version] if checkpoint(at, at.version + 1) else []
    assert made == [10, 20]
    for version in range(20):
        (Path(path) / "_delta_log" / f"{version:020d}.json").unlink()
    table = opened(path)
    assert (table.write_id, table.version, ids(path)) == (WriteId(1, 20, 1), 20, [20])
    [stats] = (
        pq.read_table(Path(path) / "_delta_log" / f"{20:020d}.checkpoint.parquet").column("add").drop_null().to_pylist()
    )
    assert json.loads(stats["stats"])["maxValues"] == {"id": 20, "v": "x"}


def test_a_checkpoint_that_cannot_be_written_harms_no_commit(path: str) -> None:
    for number in range(1, 11):
        at = opened(path)
        commit(at, [replacing(at, number)], WriteId(1, number, 1), "{}")
    first = Path(path) / "_delta_log" / f"{0:020d}.json"
    (first.parent / f"{10:020d}.checkpoint.parquet").mkdir()
    with pytest.raises(SinkError, match="a checkpoint cannot be written") as caught:
        checkpoint(at, at.version + 1)
    assert caught.value.transient
    (first.parent / f"{10:020d}.checkpoint.parquet").rmdir()
    assert ids(path) == [10]


def test_a_missing_table_is_none(tmp_path: Path) -> None:
    assert open_table(LocalFolder(str(tmp_path / "none")), "test") is None


def test_a_damaged_log_is_an_error_that_names_the_table(path: str) -> None:
    (Path(path) / "_delta_log" / f"{0:020d}.json").write_text("{")
    with pytest.raises(DamagedError, match=r"json is damaged: .* Restore the table"):
        opened(path)


def test_a_byte_in_a_commit_that_is_not_utf_8_is_damage(path: str) -> None:
    """The guard reads single commits, too: the byte is not replaced by another character."""
    first = Path(path) / "_delta_log" / commit_name(0)
    text = first.read_bytes()
    first.write_bytes(text.replace(b'"engineInfo":"', b'"engineInfo":"\xff', 1))
    assert first.read_bytes() != text
    for read_commit in (lambda: opened(path), lambda: list(commits(partial(commit_text, path), path, -1, 0))):
        with pytest.raises(DamagedError, match=r"json is damaged: .*can't decode byte 0xff.* Restore the table"):
            read_commit()


@pytest.mark.parametrize(
    "options, why",
    [
        ({"configuration": {"delta.enableChangeDataFeed": "true"}}, "a change data feed"),
        ({"configuration": {"delta.appendOnly": "true"}}, "delta.appendOnly"),
        ({"configuration": {"delta.dataSkippingStatsColumns": "v"}}, "delta.dataSkippingStatsColumns"),
    ],
)
def test_tables_that_are_not_plain_are_refused(tmp_path: Path, options: dict[str, Any], why: str) -> None:
    DeltaTable.create(str(tmp_path / "t"), schema=SCHEMA, **options)
    table = open_table(LocalFolder(str(tmp_path / "t")), "test")
    assert table is not None
    assert why in (table.refused() or "")


def test_a_table_with_a_constraint_is_refused(path: str) -> None:
    DeltaTable(path).alter.add_constraint({"positive": "id > 0"})
    table = open_table(LocalFolder(path), "test")
    assert table is not None
    assert table.refused() == "constraints"


@pytest.mark.parametrize(
    "name", ["/other/a.parquet", "s3://bucket/a.parquet", "file:a.parquet", "a%2F..%2F..%2Fb.parquet", "%2Fa.parquet"]
)
def test_a_table_with_files_outside_of_its_folder_is_refused(path: str, name: str) -> None:
    """The files of a shallow clone are in another table's folder."""
    action = {"path": name, "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    (Path(path) / "_delta_log" / f"{1:020d}.json").write_text(json.dumps({"add": action}))
    table = open_table(LocalFolder(path), "test")
    assert table is not None
    assert "data files outside" in (table.refused() or "")
