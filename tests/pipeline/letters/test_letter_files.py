"""Dead letters in files: on a local disk, in memory, in a bucket, and on a file system that only Spark reaches."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from random import Random, randrange
from threading import Lock
from typing import Any

import msgspec
import pytest

from changefeed.errors import ConfigError, FencedError, SinkError
from changefeed.frames.payloads import dead_to_dict
from changefeed.model.event import DeadLetter
from changefeed.model.position import Place
from changefeed.model.table import canonical
from changefeed.pipeline import letter_files
from changefeed.pipeline.dead_letters import _letter
from changefeed.pipeline.letter_files import LetterFiles, Position, StoredLetter
from changefeed.pipeline.store.folder import WritableFolder
from changefeed.pipeline.store.hadoop import HadoopFolder
from changefeed.storage.folders import folder_at
from changefeed.storage.local import LocalFolder
from changefeed.storage.memory import MemoryFolder

AT = datetime(2024, 2, 29, 12, 30, 0, 123456, UTC)


def letter(offset: int, index: int | None = None, partition: int = 0, **values: Any) -> StoredLetter:
    """A dead letter that waits."""
    options: dict[str, Any] = {
        "at": AT, "pipeline": "shop", "reason": "truncated", "error": "ends early", "protocol": "ticdc-open", "topic": "app",
        "database": "shop", "table": "orders", "sha256": "00", "value": b"\xff\x00",
    } | values  # fmt: skip
    return StoredLetter(partition=partition, offset=offset, index=index, **options)


def positions(letters: list[StoredLetter]) -> list[Position]:
    """Their positions, in order."""
    return [one.position for one in letters]


def replayed(files: LetterFiles) -> dict[Position, datetime]:
    """Position -> time, of the letters that were replayed."""
    return {one.position: one.replayed for one in files.rows(replayed=True) if one.replayed is not None}


@pytest.fixture(params=["local", "memory", "s3", pytest.param("hadoop", marks=pytest.mark.spark)])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> WritableFolder:
    """An empty folder."""
    if request.param == "local":
        return LocalFolder(str(tmp_path / "letters"))
    if request.param == "memory":
        return MemoryFolder(f"memory://{uuid.uuid4()}/letters")
    if request.param == "s3":
        opened = folder_at(f"s3://lake/{uuid.uuid4()}", request.getfixturevalue("s3").storage())
        assert opened is not None
        return opened
    return HadoopFolder(request.getfixturevalue("spark"), (tmp_path / "letters").as_uri())


@pytest.fixture
def files(folder: WritableFolder) -> LetterFiles:
    """The files in it."""
    return LetterFiles(folder)


def test_nothing_is_there_before_the_first_letter(files: LetterFiles) -> None:
    assert (files.rows(), files.rows(replayed=True), files.waiting(), files.tables()) == ([], [], 0, set())
    files.write([])
    files.mark([("app", 0, 7, None)])
    files.mark_from({})
    assert files.folder.names("") == []


def test_letters_come_back_whole_and_in_the_order_of_their_positions(files: LetterFiles) -> None:
    unusual = letter(
        7, topic="it's `x`", error='line\n\u2028 \r\x85 "\\', database=None, table=None, key=b"", value=None,
        headers=(("h", b"\x00"), ("", None), ("h", b"")), byte=2**40, schema_id="5",
        at=datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
    )  # fmt: skip
    ordered = [
        letter(7),
        letter(7, 0),
        letter(7, 1),
        letter(2**40),
        letter(3, partition=1),
        letter(1, partition=10),
        unusual,
    ]
    files.write(iter(ordered[::-1]))
    assert files.rows() == ordered
    assert (files.waiting(), files.tables()) == (7, {("shop", "orders"), (None, None)})


def test_a_position_has_one_letter_the_first_until_it_is_replayed(files: LetterFiles) -> None:
    files.write([letter(7), letter(7, 0)])
    for _ in range(2):
        files.write([letter(7, reason="defect"), letter(7, 0, reason="defect"), letter(7, 2), letter(7, 2)])
    assert [one.reason for one in files.rows()] == ["truncated"] * 3
    files.mark([("app", 0, 7, None)])
    assert positions(files.rows()) == [("app", 0, 7, 0), ("app", 0, 7, 2)]
    files.write([letter(7, reason="defect", table="other"), letter(7, 0, reason="defect")])
    assert [one.reason for one in files.rows()] == ["defect", "truncated", "truncated"]
    assert (replayed(files), files.waiting()) == ({}, 3)
    assert files.tables() == {("shop", "orders"), ("shop", "other")}


def test_marked_letters_stay_with_the_time_of_their_first_replay(files: LetterFiles) -> None:
    files.write([letter(7), letter(7, 1), letter(8), letter(7, partition=1), letter(7, topic="b")])
    began = datetime.now(UTC)
    files.mark([("app", 0, 7, 1), ("app", 1, 7, None), ("app", 0, 9, None), ("nothing", 0, 7, None)])
    first = replayed(files)
    assert set(first) == {("app", 0, 7, 1), ("app", 1, 7, None)}
    assert all(began <= at <= datetime.now(UTC) for at in first.values())
    files.mark([("app", 0, 7, 1), ("app", 0, 8, None)])
    assert replayed(files) | first == replayed(files)
    assert positions(files.rows()) == [("app", 0, 7, None), ("b", 0, 7, None)]
    assert len(files.rows(replayed=True)) == 5


def test_letters_of_records_that_are_read_again_are_replayed(files: LetterFiles) -> None:
    files.write([letter(3), letter(7, 0), letter(7, 1), letter(8), letter(1, partition=1), letter(3, topic="b")])
    files.mark([("app", 0, 8, None)])
    before = replayed(files)
    files.mark_from({("app", 0): 7, ("b", 0): 4, ("c", 0): 0})
    assert positions(files.rows()) == [("app", 0, 3, None), ("b", 0, 3, None)]
    assert replayed(files) | before == replayed(files)
    written = len(files.folder.names(""))
    files.mark_from({("app", 0): 4, ("b", 0): 4})
    assert len(files.folder.names("")) == written  # nothing to mark, nothing to write
    files.mark_from({})
    assert (files.rows(), files.waiting(), len(replayed(files))) == ([], 0, 6)


def test_any_order_of_writes_and_marks_ends_as_in_a_dictionary(
    files: LetterFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are put together and deleted again and again, and a large one is divided."""
    seed = randrange(2**32)
    print("seed", seed)
    chance = Random(seed)
    monkeypatch.setattr(letter_files, "_MANY", 5)
    monkeypatch.setattr(letter_files, "_FILE", 900)
    files = LetterFiles(files.folder)
    wanted: dict[Position, tuple[str, bool]] = {}  # error, and whether it was replayed
    for number in range(40):
        places: list[Position] = [("app", chance.randrange(2), chance.randrange(4), None) for _ in range(3)]
        if chance.random() < 0.6:
            files.write([letter(p[2], partition=p[1], error=f"{number}") for p in places])
            for place in places:
                if wanted.get(place, ("", True))[1]:
                    wanted[place] = (f"{number}", False)
        else:
            files.mark(places)
            wanted |= {place: (wanted[place][0], True) for place in places if place in wanted}
    there = {one.position: (one.error, one.replayed is not None) for one in files.rows(replayed=True)}
    assert there == wanted
    assert len(files.folder.names("")) <= 5
    assert LetterFiles(files.folder).rows(replayed=True) == files.rows(replayed=True)


def test_two_writers_at_once_lose_nothing(files: LetterFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    if isinstance(files.folder, HadoopFolder):
        pytest.skip("on a local disk Hadoop makes a file and its checksum visible one after the other")
    monkeypatch.setattr(letter_files, "_MANY", 4)

    def write(writer: int) -> None:
        own = LetterFiles(files.folder)
        for number in range(8):
            own.write([letter(number, partition=writer)])
            own.mark([("app", writer, number - 1, None)])
            assert len(own.rows(replayed=True)) > number

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(write, range(3)))
    assert positions(files.rows(replayed=True)) == [("app", w, n, None) for w in range(3) for n in range(8)]
    assert positions(files.rows()) == [("app", w, 7, None) for w in range(3)]


# What a run that was replaced writes. In memory alone: the folders are equal by the tests above.


@pytest.fixture
def own() -> LetterFiles:
    """Files in memory."""
    return LetterFiles(MemoryFolder(f"memory://{uuid.uuid4()}/letters"))


def _fenced() -> None:
    raise FencedError("a newer run has taken over")


@pytest.mark.parametrize(
    "write",
    [
        lambda files: files.write([letter(8)], _fenced),
        lambda files: files.mark([("app", 0, 7, None)], _fenced),
        lambda files: files.mark_from({}, _fenced),
    ],
)
def test_a_run_that_was_replaced_writes_nothing(write: Callable[[LetterFiles], None], own: LetterFiles) -> None:
    own.write([letter(7)])
    with pytest.raises(FencedError):
        write(own)
    assert positions(own.rows()) == [("app", 0, 7, None)]


def test_what_a_newer_run_has_written_is_not_marked(own: LetterFiles) -> None:
    """The newer run takes over and writes while the older one is about to create its file."""
    fenced = False

    def check() -> None:
        nonlocal fenced
        if fenced:
            _fenced()
        fenced = True
        LetterFiles(own.folder).write([letter(9)])

    own.write([letter(7)])
    with pytest.raises(FencedError):
        own.mark_from({}, check)
    assert positions(own.rows()) == [("app", 0, 7, None), ("app", 0, 9, None)]


def test_a_file_with_the_number_of_a_deleted_one_is_written_once_more(
    own: LetterFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run is paused before it creates file 3; meanwhile others write it, put all together in file 4, and delete it."""
    monkeypatch.setattr(letter_files, "_MANY", 3)
    first = True

    def check() -> None:
        nonlocal first
        if first:
            first = False
            LetterFiles(own.folder).write([letter(3)])
            assert own.folder.names("") == [f"{4:020}.jsonl"]

    own.write([letter(1)])
    own.write([letter(2)])
    own.write([letter(4)], check)
    assert positions(own.rows()) == [("app", 0, n, None) for n in (1, 2, 3, 4)]


def test_files_that_are_deleted_while_they_are_read_are_listed_again(
    own: LetterFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(letter_files, "_MANY", 3)
    own.write([letter(1)])
    own.write([letter(2)])
    read = MemoryFolder.read
    steps: list[Callable[[], None]] = [lambda: LetterFiles(own.folder).write([letter(3)])]

    def slow(folder: MemoryFolder, name: str) -> bytes | None:
        if steps:
            steps.pop()()
        return read(folder, name)

    monkeypatch.setattr(MemoryFolder, "read", slow)
    assert positions(own.rows()) == [("app", 0, n, None) for n in (1, 2, 3)]


def test_too_many_bytes_are_not_put_together(own: LetterFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letter_files, "_MANY", 3)
    monkeypatch.setattr(letter_files, "_LARGE", 1500)
    own = LetterFiles(own.folder)
    for number in range(5):
        own.write([letter(number, value=bytes(300))])
    assert len(own.folder.names("")) == 5
    assert own.waiting() == 5


# The form of a file.


def test_a_file_is_lines_of_json(tmp_path: Path) -> None:
    files = LetterFiles(LocalFolder(str(tmp_path)))
    files.write([letter(7, 0, key=b"\x00", headers=(("h", b"v"),))])
    files.mark([("app", 0, 7, 0)])
    first, second = (path.read_text().splitlines() for path in sorted(tmp_path.glob("*.jsonl")))
    assert json.loads(first[0]) | {"version": "", "at": "", "sha256": ""} == {
        "format": 1, "version": "", "holds": "letters", "at": "", "lines": 1, "sha256": "",
    }  # fmt: skip
    assert json.loads(first[1]) == {
        "topic": "app", "partition": 0, "offset": 7, "index": 0, "database": "shop", "table": "orders", "replayed": None,
        "at": "2024-02-29T12:30:00.123456Z", "pipeline": "shop", "reason": "truncated", "error": "ends early",
        "protocol": "ticdc-open", "byte": None, "schema_id": None, "sha256": "00", "key": "AA==", "value": "/wA=",
        "headers": [["h", "dg=="]],
    }  # fmt: skip
    assert json.loads(second[0])["holds"] == "replayed"
    assert json.loads(second[1]) == {"topic": "app", "partition": 0, "offset": 7, "index": 0}


@pytest.mark.parametrize("number", [1, 2])
def test_a_missing_file_is_named(number: int, tmp_path: Path) -> None:
    files = LetterFiles(LocalFolder(str(tmp_path)))
    for offset in range(3):
        files.write([letter(offset)])
    (tmp_path / f"{number:020}.jsonl").unlink()
    with pytest.raises(
        SinkError, match=rf"0+{number}\.jsonl: dead letters are damaged: it is missing\. .*move it away"
    ):
        files.rows()


@pytest.mark.parametrize(
    "damage, why",
    [
        (lambda data: data[:-1], "it has 1 lines after the header, 2 were written"),
        (lambda data: data.replace(b"ends early", b"ends_early"), "its content has changed"),
        (lambda data: data[: data.index(b"\n") + 1], "it has 0 lines after the header, 2 were written"),
        (lambda data: b"", "Input data was truncated"),
        (lambda data: b"\0" * len(data), "JSON is malformed"),
        (lambda data: b"{}\n", "Object missing required field"),
        (lambda data: b"[]\n", "Expected `object`, got `array`"),
    ],
)
def test_damage_is_named(damage: Callable[[bytes], bytes], why: str, tmp_path: Path) -> None:
    files = LetterFiles(LocalFolder(str(tmp_path)))
    files.write([letter(7), letter(8)])
    (path,) = tmp_path.glob("*.jsonl")
    path.write_bytes(damage(path.read_bytes()))
    for call in (files.rows, files.waiting, files.tables, lambda: files.mark_from({})):
        with pytest.raises(SinkError, match=rf"0+1\.jsonl: dead letters are damaged: {why}.*move it away"):
            call()


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    files = LetterFiles(LocalFolder(str(tmp_path)))
    files.write([letter(7)])
    (path,) = tmp_path.glob("*.jsonl")
    header, rest = path.read_bytes().split(b"\n", 1)
    newer = json.loads(header) | {"format": 2, "version": "9.1.0", "holds": "something else"}
    path.write_bytes(json.dumps(newer).encode() + b"\n" + rest)
    with pytest.raises(ConfigError, match=r"is in format 2, written by changefeed 9\.1\.0"):
        files.rows()


# The table of earlier versions.


def test_old_letters_count_until_and_after_the_first_file(folder: WritableFolder) -> None:
    seen = datetime(2024, 3, 1, tzinfo=UTC)
    old = [letter(2), letter(1, replayed=seen), letter(1, 3, partition=2, table=None)]
    files = LetterFiles(folder, lambda: old)
    assert (positions(files.rows()), files.waiting(), replayed(files)) == (
        [("app", 0, 2, None), ("app", 2, 1, 3)],
        2,
        {("app", 0, 1, None): seen},
    )
    assert files.folder.names("") == []
    files.write([letter(1, reason="defect"), letter(2, reason="defect"), letter(4)])
    without = LetterFiles(folder)
    assert [(one.offset, one.reason) for one in without.rows()] == [
        (1, "defect"),
        (2, "truncated"),
        (4, "truncated"),
        (1, "truncated"),
    ]
    files.mark_from({("app", 2): 5})
    assert positions(without.rows()) == [("app", 2, 1, 3)]


def test_a_letter_of_the_first_files_is_read_as_it_was_written() -> None:
    """Files of this version must be readable for ever."""
    line = (
        b'{"topic":"app","partition":0,"offset":7,"index":null,"database":null,"table":null,"replayed":null,'
        b'"at":"2024-02-29T12:30:00Z","pipeline":"shop","reason":"truncated","error":"e","protocol":"ticdc-open","byte":3,'
        b'"schema_id":null,"sha256":"00","key":null,"value":"AA==","headers":[["h",null]],"new in a later version":1}'
    )
    assert msgspec.json.decode(line, type=StoredLetter) == StoredLetter(
        topic="app", partition=0, offset=7, at=datetime(2024, 2, 29, 12, 30, tzinfo=UTC), pipeline="shop", reason="truncated",
        error="e", protocol="ticdc-open", byte=3, sha256="00", value=b"\0", headers=(("h", None),),
    )  # fmt: skip


# From the chunks of the pending store.


def test_half_of_a_surrogate_pair_in_an_error_is_replaced() -> None:
    made = DeadLetter("defect", "é \ud800 \\ud800", "ticdc-avro", Place("app", 1, 7), None, None)
    chunk = {
        "topic": "app", "partition": 1, "first_offset": 7, "database": None, "table": None,
        "payload": canonical(dead_to_dict(made)).encode(),
    }  # fmt: skip
    assert _letter(chunk, "shop", AT).error == "é ? \\ud800"


@pytest.mark.parametrize("schema_id, wanted", [(7, "7"), ("7b", "7b"), (None, None)])
@pytest.mark.parametrize("index", [None, 3])
@pytest.mark.parametrize("whole", [True, False])
def test_every_dead_letter_of_a_decoder_can_be_kept(schema_id: Any, wanted: Any, index: Any, whole: bool) -> None:
    place = Place("app", 1, 7, index)
    key, headers = (b"\x00", (("h", b"\xff"), ("", None))) if whole else (None, ())
    byte = 2**33 if whole else None
    made = DeadLetter("defect", "e", "ticdc-avro", place, key, key, headers, byte, schema_id)
    chunk = {
        "topic": "app", "partition": 1, "first_offset": 7, "database": "shop", "table": "orders",
        "payload": json.dumps(dead_to_dict(made)).encode(),
    }  # fmt: skip
    kept = _letter(chunk, "shop", AT)
    assert kept.position == ("app", 1, 7, index)
    assert (kept.schema_id, kept.byte, kept.reason, kept.error) == (wanted, made.byte, "defect", "e")
    assert (kept.key, kept.value, kept.headers) == (made.key, made.value, tuple(made.headers))


class _Distant:
    """A folder in a store that answers late."""

    def __init__(self, near: LocalFolder) -> None:
        self.near, self.path, self.open, self.most, self.lock = near, near.path, 0, 0, Lock()

    def names(self, below: str) -> list[str]:
        return self.near.names(below)

    def read(self, name: str) -> bytes | None:
        with self.lock:
            self.open += 1
            self.most = max(self.most, self.open)
        time.sleep(0.05)
        with self.lock:
            self.open -= 1
        return self.near.read(name)


def test_files_in_a_distant_store_are_read_at_the_same_time(tmp_path: Path) -> None:
    near = LetterFiles(LocalFolder(str(tmp_path)))
    for offset in range(90):
        near.write([letter(offset)])
    near.mark([("app", 0, 7, None)])
    distant = _Distant(LocalFolder(str(tmp_path)))
    began = time.monotonic()
    assert LetterFiles(distant).rows(replayed=True) == near.rows(replayed=True)
    assert distant.most == 16
    assert time.monotonic() - began < 90 * 0.05 / 2
