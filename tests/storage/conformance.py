"""The conformance suite of `Folder`, which every storage must pass.

A storage gets its tests by a class of its own:

    class TestLocal(Conformance):
        @pytest.fixture
        def folder(self, tmp_path): return LocalFolder(str(tmp_path / "folder"))

The folder is new and does not exist yet. `tests/sinks/conformance.py` shows how to run a suite from outside.
"""

from __future__ import annotations

import pickle
import threading
from datetime import UTC, datetime, timedelta
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from changefeed.errors import ConfigError, SinkError
from changefeed.storage.base import Folder, in_parallel

NAMES = ("a.json", "log/00000000000000000001.json", "a/b/c d/é ü.bin", "x=1/part%2F+&#?.parquet", "🦆/~")


class Conformance:
    """The tests. A subclass has the fixture `folder`."""

    # Files.

    def test_a_folder_that_does_not_exist_has_no_files(self, folder: Folder) -> None:
        assert (folder.names(), folder.files("log"), folder.folders(), list(folder.files_below())) == ([], [], [], [])
        assert (folder.read("a"), folder.info("a"), folder.exists("log/a"), folder.read_all(["a", "b"])) == (
            None, None, False, [None, None],
        )  # fmt: skip
        folder.delete(["a", "log/b"])
        folder.delete([])
        folder.tidy()

    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("data", [b"", b"\0\xff", b"line\n" * 100_000])
    def test_a_file_is_read_as_it_was_created(self, folder: Folder, name: str, data: bytes) -> None:
        before = datetime.now(UTC) - timedelta(minutes=5)
        assert folder.create(name, data)
        assert folder.read(name) == data
        info = folder.info(name)
        assert info is not None
        assert (info.name, info.size) == (name, len(data))
        assert before < info.modified < datetime.now(UTC) + timedelta(minutes=5)
        below, _, last = name.rpartition("/")
        assert folder.names(below) == [last]
        assert [info.name for info in folder.files_below()] == [name]
        folder.durable()
        folder.delete([name])
        assert (folder.read(name), folder.names(below)) == (None, [])

    def test_a_file_is_read_with_the_tag_that_it_has(self, folder: Folder) -> None:
        assert folder.read_with_tag("log/1") is None
        tags = []
        for data in (b"first", b"second"):
            folder.put("log/1", data)
            info, read = folder.info("log/1"), folder.read_with_tag("log/1")
            assert info is not None
            assert read == (data, info.tag)
            tags.append(info.tag)
        assert tags[0] != tags[1]

    def test_a_name_is_created_once(self, folder: Folder) -> None:
        assert folder.create("log/1", b"first")
        assert not folder.create("log/1", b"second, and longer")
        assert not folder.create("log/1", b"first")
        assert folder.read("log/1") == b"first"
        folder.delete(["log/1"])
        assert folder.create("log/1", b"third")
        assert folder.read("log/1") == b"third"

    def test_one_of_many_threads_creates_a_file(self, folder: Folder) -> None:
        names, start, results = (
            [f"log/{n:03}" for n in range(20)],
            threading.Barrier(6),
            [list[str]() for _ in range(6)],
        )

        def create(thread: int) -> None:
            start.wait(60)
            results[thread] = [name for name in names if folder.create(name, f"{thread} {name}".encode())]

        threads = [threading.Thread(target=create, args=(n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(name for won in results for name in won) == names
        for number, won in enumerate(results):
            assert all(folder.read(name) == f"{number} {name}".encode() for name in won)

    def test_a_put_replaces(self, folder: Folder) -> None:
        folder.put("x/notes", b"one, long")
        folder.put("x/notes", b"two")
        assert folder.read("x/notes") == b"two"
        assert not folder.create("x/notes", b"three")
        assert [info.size for info in folder.files("x")] == [3]

    def test_several_files_are_deleted_and_read_at_once(self, folder: Folder) -> None:
        names = [f"f/{n:02}" for n in range(40)]
        for name in names:
            folder.put(name, name.encode())
        assert folder.read_all([*names, "f/none"]) == [*(name.encode() for name in names), None]
        folder.delete([*names[:30], "f/none"])
        assert folder.names("f") == [name[2:] for name in names[30:]]

    # Parts of files.

    def test_ranges(self, folder: Folder) -> None:
        data = Random(1).randbytes(300_000)
        folder.put("x/data", data)
        assert folder.read_range("x/data", 5, 10) == data[5:15]
        assert folder.read_range("x/data", 299_999, 1) == data[-1:]
        wanted = [(0, 1), (299_000, 1000), (100, 50_000), (100, 50_000), (10, 5)]
        assert folder.read_ranges("x/data", wanted) == [data[start : start + length] for start, length in wanted]
        assert folder.read_ranges("x/data", []) == []

    @pytest.mark.parametrize("start, length", [(0, 11), (9, 2), (10, 1), (5000, 1)])
    def test_a_range_after_the_end_is_an_error(self, folder: Folder, start: int, length: int) -> None:
        folder.put("data", b"0123456789")
        with pytest.raises(SinkError, match=f"data: the file ends before byte {start + length}") as caught:
            folder.read_range("data", start, length)
        assert not caught.value.transient

    def test_parts_of_a_file_that_does_not_exist(self, folder: Folder) -> None:
        for read in (lambda: folder.read_range("log/none", 0, 1), lambda: folder.open("log/none")):
            with pytest.raises(SinkError, match="log/none: the file does not exist"):
                read()

    @pytest.mark.parametrize("size", [200_000, 2_000_000])
    def test_an_open_file(self, folder: Folder, size: int) -> None:
        data = Random(2).randbytes(size)
        folder.put("data", data)
        for file in (folder.open("data"), folder.open("data", len(data))):
            with file:
                assert file.read(3) == data[:3]
                assert file.seek(-10, 2) == size - 10
                assert (file.read(), file.read()) == (data[-10:], b"")
                file.seek(100)
                assert (file.tell(), file.read(150_000)) == (100, data[100:150_100])

    def test_parquet(self, folder: Folder) -> None:
        table = pa.table({"id": range(50_000), "name": [f"name {n}" for n in range(50_000)]})
        with folder.writer("t/part-1.parquet") as out:
            pq.write_table(table, out, row_group_size=10_000)
            size = out.tell()
        info = folder.info("t/part-1.parquet")
        assert info is not None
        assert info.size == size
        with folder.open("t/part-1.parquet", size) as file, pq.ParquetFile(file) as parquet:
            assert parquet.read() == table
            assert parquet.read_row_group(3, columns=["id"]).column("id").to_pylist() == list(range(30_000, 40_000))

    def test_a_file_in_pieces(self, folder: Folder) -> None:
        piece = Random(3).randbytes(1 << 20)
        with folder.writer("big") as out:
            for _ in range(20):
                out.write(piece)
            assert out.tell() == 20 << 20
        assert folder.read("big") == piece * 20
        folder.durable()

    @pytest.mark.parametrize("pieces", [0, 1, 20])
    def test_a_file_in_pieces_that_is_given_up(self, folder: Folder, pieces: int) -> None:
        out = folder.writer("t/data")
        for _ in range(pieces):
            out.write(bytes(1 << 20))
        out.discard()
        assert (folder.read("t/data"), folder.names("t")) == (None, [])

    def test_a_file_in_pieces_is_given_up_after_an_error(self, folder: Folder) -> None:
        def write() -> None:
            with folder.writer("t/data") as out:
                out.write(b"half")
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            write()
        assert folder.names("t") == []

    # Lists.

    def test_lists(self, folder: Folder) -> None:
        for name in (
            "log/2",
            "log/10",
            "log/.hidden",
            ".hidden/1",
            "log/deep/3",
            "log/deep/er/4",
            "logs/5",
            "log.json",
            "top",
        ):
            folder.put(name, name.encode())
        assert folder.names("log") == ["10", "2"]
        assert [(info.name, info.size) for info in folder.files("log")] == [("10", 6), ("2", 5)]
        assert folder.names() == ["log.json", "top"]
        assert (folder.folders(), folder.folders("log"), folder.folders("log/2")) == (["log", "logs"], ["deep"], [])
        names = [info.name for info in folder.files_below("log")]
        assert sorted(names) == [".hidden", "10", "2", "deep/3", "deep/er/4"]
        assert (folder.names("lo"), folder.names("log/10"), list(folder.files_below("lo"))) == ([], [], [])

    def test_a_list_after_a_name(self, folder: Folder) -> None:
        for n in range(1, 30):
            folder.put(f"log/{n:020}.json", b"")
        folder.put("log/z/deep", b"")
        after = f"{25:020}.json"
        assert folder.names("log", after) == [f"{n:020}.json" for n in range(26, 30)]
        assert [info.name for info in folder.files("log", f"{28:020}")] == [f"{n:020}.json" for n in (28, 29)]
        assert folder.names("log", "a") == folder.names("none", after) == []

    def test_a_list_of_thousands(self, folder: Folder) -> None:
        names = [f"{n:05}" for n in range(1010)]
        in_parallel(lambda name: folder.put(f"l/{name}", b""), names)
        assert folder.names("l") == names
        assert folder.names("l", "00049") == names[50:]
        folder.delete(f"l/{name}" for name in names)
        assert folder.names("l") == []

    # Folders.

    def test_a_subfolder(self, folder: Folder) -> None:
        below = folder.subfolder("a/b")
        assert below.path == f"{folder.path}/a/b"
        assert below.create("c", b"data")
        assert folder.read("a/b/c") == b"data"
        assert (below.names(), below.subfolder(""), folder.subfolder("a").subfolder("b")) == (["c"], below, below)

    def test_a_folder_is_a_value(self, folder: Folder) -> None:
        folder.put("a", b"data")
        copy: Folder = pickle.loads(pickle.dumps(folder))
        assert (copy, hash(copy), copy.read("a")) == (folder, hash(folder), b"data")
        assert copy != folder.subfolder("b")

    @pytest.mark.parametrize("name", ["../a", "a/../b", "a//b", "./a", "a/."])
    def test_names_that_lead_out_of_a_folder(self, folder: Folder, name: str) -> None:
        for call in (lambda: folder.read(name), lambda: folder.create(name, b""), lambda: folder.subfolder(name)):
            with pytest.raises(ConfigError, match="is not a name in a folder"):
                call()

    def test_create_is_checked(self, folder: Folder) -> None:
        for _ in range(3):
            folder.check_create()
        assert folder.names() == []
