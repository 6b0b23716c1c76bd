"""The archive of classes: which file is used, when one is written, and a JVM with one, without, and with a damaged one."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from changefeed.spark_runtime import class_archive, jars
from changefeed.spark_runtime.java import Java

SCRIPT = """
import sys
from changefeed.spark_runtime.session import session
spark = session("x", master="local[1]", config={"spark.driver.extraJavaOptions": f"-Xlog:class+load:file={sys.argv[1]}"})
print(spark.range(3).count())
"""


@pytest.fixture
def java(tmp_path: Path) -> Java:
    home = tmp_path / "java"
    (home / "lib" / "server").mkdir(parents=True)
    (home / "lib" / "server" / "classes.jsa").touch()
    (home / "lib" / "modules").touch()
    return Java(home, "17.0.1")


@pytest.fixture
def jar(tmp_path: Path) -> Path:
    path = tmp_path / "a.jar"
    path.touch()
    return path


@pytest.fixture
def archives(tmp_path: Path) -> Path:
    return tmp_path / "archives"


def written(archives: Path, java: Java, jar: Path) -> Path:
    """The file that the first JVM writes."""
    option, *silent = class_archive.options(java, str(jar), "", archives)
    name, _, path = option.partition("=")
    assert (name, silent) == ("-XX:ArchiveClassesAtExit", class_archive._SILENT)
    return Path(path)


def used(archives: Path, java: Java, jar: Path) -> Path | None:
    """The archive of a JVM that is started now."""
    for option in class_archive.options(java, str(jar), "", archives):
        if option.startswith("-XX:SharedArchiveFile="):
            return Path(option.partition("=")[2])
    return None


def ready(archives: Path, java: Java, jar: Path) -> Path:
    written(archives, java, jar).write_bytes(b"head, body")
    archive = used(archives, java, jar)
    assert archive is not None
    return archive


def test_what_a_jvm_has_written_is_used_by_the_next(archives: Path, java: Java, jar: Path) -> None:
    new = written(archives, java, jar)
    assert new.exists()
    new.write_bytes(b"head, body")
    archive = used(archives, java, jar)
    assert archive is not None
    assert re.fullmatch(r"classes-[0-9a-f]{16}\.10\.jsa", archive.name)
    assert list(archives.iterdir()) == [archive]
    assert used(archives, java, jar) == archive


@pytest.mark.parametrize("part", [b"", b"\0\0\0\0\0\0body"], ids=["empty", "without its head"])
def test_an_incomplete_file_is_not_used_and_no_other_is_written_for_an_hour(
    archives: Path, java: Java, jar: Path, part: bytes
) -> None:
    new = written(archives, java, jar)
    new.write_bytes(part)
    assert class_archive.options(java, str(jar), "", archives) == []
    hour_ago = time.time() - 3601
    os.utime(new, (hour_ago, hour_ago))
    assert written(archives, java, jar) != new
    assert new.exists()
    os.utime(new, (hour_ago - 86_400,) * 2)
    class_archive.options(java, str(jar), "", archives)
    assert not new.exists()


def test_another_java_another_jar_and_a_replaced_one_have_archives_of_their_own(
    archives: Path, java: Java, jar: Path
) -> None:
    archive = ready(archives, java, jar)
    other = jar.with_name("b.jar")
    other.touch()
    assert used(archives, Java(java.home, "17.0.2"), jar) is None
    assert used(archives, java, other) is None
    jar.write_bytes(b"changed")
    assert used(archives, java, jar) is None
    assert archive.exists()


def test_an_archive_that_was_cut_is_not_used(archives: Path, java: Java, jar: Path) -> None:
    ready(archives, java, jar).write_bytes(b"head")
    assert used(archives, java, jar) is None


def test_an_archive_that_was_not_used_for_a_month_is_deleted(archives: Path, java: Java, jar: Path) -> None:
    kept, old = ready(archives, java, jar), archives / "classes-0123456789abcdef.5.jsa"
    old.touch()
    for path, days in ((kept, 20), (old, 31)):
        os.utime(path, (time.time() - days * 86_400,) * 2)
    assert used(archives, java, jar) == kept
    assert list(archives.iterdir()) == [kept]
    assert kept.stat().st_mtime > time.time() - 3600


@pytest.mark.parametrize(
    "theirs", ["-Xshare:off", "-XX:SharedArchiveFile=/a.jsa", "-XX:+AutoCreateSharedArchive", "-Da=b -Xshare:auto"]
)
def test_an_archive_that_the_user_chose_stays(archives: Path, java: Java, jar: Path, theirs: str) -> None:
    assert class_archive.options(java, str(jar), theirs, archives) == []
    assert not archives.exists()


def test_an_archive_of_an_image_is_used(archives: Path, java: Java, jar: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers of an image keep whole seconds, and a container's root may be read only."""
    archive = ready(archives, java, jar)
    for path in (jar, java.home / "lib" / "modules"):
        status = path.stat()
        os.utime(path, (status.st_atime, int(status.st_mtime)))

    def read_only(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "utime", read_only)
    assert used(archives, java, jar) == archive


def test_without_javas_own_archive_there_is_none(archives: Path, java: Java, jar: Path) -> None:
    (java.home / "lib" / "server" / "classes.jsa").unlink()
    assert class_archive.options(java, str(jar), "", archives) == []


def test_without_a_folder_there_is_none(java: Java, jar: Path) -> None:
    assert class_archive.options(java, str(jar), "", jar / "archives") == []


def test_a_path_that_java_options_cannot_hold_gets_no_archive(tmp_path: Path, java: Java, jar: Path) -> None:
    assert class_archive.options(java, str(jar), "", tmp_path / "a b") == []


def test_files_of_jvms_that_began_earlier_are_not_waited_for(archives: Path, java: Java, jar: Path) -> None:
    new = written(archives, java, jar)
    new.touch()
    began = time.time() - 600
    os.utime(new, (began, began))
    started = time.monotonic()
    assert class_archive.wait(archives, patience=60) == []
    assert time.monotonic() - started < 30


def test_waiting_ends_when_the_archive_is_complete(archives: Path, java: Java, jar: Path) -> None:
    new = written(archives, java, jar)
    assert class_archive.wait(archives, patience=0.1) == []
    new.write_bytes(b"head, body")
    assert class_archive.wait(archives) == [used(archives, java, jar)]


@pytest.mark.heavy
@pytest.mark.xdist_group("processes")
def test_a_jvm_uses_the_archive_of_an_earlier_one_and_survives_a_damaged_one(tmp_path: Path) -> None:
    home, log = tmp_path / "home", tmp_path / "loaded"
    home.mkdir()
    (home / "jars").symlink_to(jars.paths("delta")[0].parents[1])

    def start() -> tuple[int, str]:
        """Number of classes from the archive, and what stderr has."""
        ran = subprocess.run(
            [sys.executable, "-c", SCRIPT, log],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=240,
            env={**os.environ, "CHANGEFEED_HOME": str(home)},
        )
        assert (ran.returncode, ran.stdout) == (0, "3\n"), ran.stderr
        return log.read_text().count("shared objects file (top)"), ran.stderr

    assert start() == (0, "")
    [archive] = class_archive.wait(home / "classes")
    count, words = start()
    assert count > 5000
    assert words == ""
    archive.chmod(0o600)
    with archive.open("r+b") as file:
        file.seek(archive.stat().st_size // 4)
        file.write(bytes(archive.stat().st_size // 4))
    count, words = start()
    assert count == 0
    assert "It started without its archive of classes, which was deleted" in words
    assert not archive.exists()
