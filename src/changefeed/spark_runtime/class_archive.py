"""The archive of Spark's classes, with which a JVM starts in two thirds of the CPU time.

Spark, Delta and Kafka load about 15 000 classes in a run. Java can write them to a file when a JVM ends, parsed and verified,
and later JVMs map that file into memory (class data sharing):

    classes-<key>.<size>.jsa    used by every JVM that changefeed starts
    classes-<key>.<unique>.new  empty while its JVM runs, which writes it at its end; the next start renames it

Rule 1. The key is a hash of everything that the archive depends on: Java, Spark's jars, and the class path. The JVM checks them
        again, and starts without an archive that does not match.
Rule 2. Java writes the first bytes of the file last: a file that is empty or starts with zeros is incomplete. It is not
        used. For an hour, no other JVM writes one of its key; after a day it is deleted.
Rule 3. A JVM crashes on an archive that was cut or damaged. So a file is made durable before it is renamed, its size is in its
        name, and if a JVM starts only without it, it is deleted.
Rule 4. An archive that was not used for a month is deleted.
Rule 5. Without an archive, or a folder for it, Spark starts more slowly, and nothing else changes.

`python -m changefeed.spark_runtime.class_archive` waits until the JVM of an earlier run has written the archive.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from changefeed.spark_runtime.ivy import cache_folder
from changefeed.spark_runtime.java import Java

_CHOSEN = re.compile(r"-Xshare\b|-XX:(?:SharedArchiveFile|ArchiveClassesAtExit|[+-]AutoCreateSharedArchive)\b")
_USE = "-XX:SharedArchiveFile="
_SILENT = ["-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xlog:class+path=off"]
_HOUR = 3600.0  # seconds
_DAY = 24 * _HOUR
_PATIENCE = 120.0  # seconds
_RECENT = 300  # seconds within which a first run ends


def folder() -> Path:
    """The folder of the archives, in the user's cache."""
    return cache_folder() / "classes"


def options(java: Java, class_path: str, theirs: str, archives: Path | None = None) -> list[str]:
    """Returns the Java options that use the archive for a class path, or write it when the JVM ends.

    Args:
        java: the Java that is started.
        class_path: paths before those of Spark's own jars, separated by colons.
        theirs: the user's Java options; if they choose an archive, no options are returned.
        archives: the folder of the archives, instead of `folder()`.
    """
    if _CHOSEN.search(theirs) or not (java.home / "lib" / "server" / "classes.jsa").is_file():
        return []
    archives = archives or folder()
    try:
        archives.mkdir(parents=True, exist_ok=True)
        _sweep(archives)
        key = _key(java, map(Path, filter(None, class_path.split(":"))))
        if archive := find(archives, key):
            with suppress(OSError):  # another user's, or read only, as in a container image
                os.utime(archive)
            return [f"{_USE}{archive}", "-Xshare:auto", *_SILENT]
        if re.search(r"[\s\"']", str(archives)) or any(_age(new) < _HOUR for new in _new(archives, key)):
            return []
        new = archives / f"classes-{key}.{uuid.uuid4().hex}.new"
        new.touch()
    except OSError:
        return []
    return [f"-XX:ArchiveClassesAtExit={new}", *_SILENT]


def find(archives: Path, key: str) -> Path | None:
    """Returns the archive of this key, if there is one: the complete file of an ended JVM becomes it."""
    for archive in archives.glob(f"classes-{key}.*.jsa"):
        if archive.name.split(".")[1] == str(archive.stat().st_size):
            return archive
    for new in _new(archives, key):
        with suppress(FileNotFoundError), new.open("rb") as file:
            if _is_complete(file):
                os.fsync(file.fileno())
                return new.rename(archives / f"classes-{key}.{os.fstat(file.fileno()).st_size}.jsa")
    return None


def used(options: Iterable[str]) -> Path | None:
    """Returns the archive that these Java options use, if they use one."""
    return next((Path(option.removeprefix(_USE)) for option in options if option.startswith(_USE)), None)


def wait(archives: Path, patience: float = _PATIENCE) -> list[Path]:
    """Waits for the archives that JVMs are writing, `patience` seconds at most; returns all archives.

    JVMs that began earlier do not count: they were killed, or run for longer.
    """
    end = time.monotonic() + patience
    while time.monotonic() < end:
        recent = [new for new in archives.glob("classes-*.new") if _is_recent(new)]
        keys = {new.name.removeprefix("classes-").split(".")[0] for new in recent}
        if all(find(archives, key) for key in sorted(keys)):
            break
        time.sleep(0.2)
    return sorted(archives.glob("classes-*.jsa"))


def _new(archives: Path, key: str) -> Iterator[Path]:
    return archives.glob(f"classes-{key}.*.new")


def _is_complete(file: BinaryIO) -> bool:
    return any(file.read(4))


def _key(java: Java, class_path: Iterable[Path]) -> str:
    """A hash of Java, Spark's jars and the class path; a file that was replaced gives another one."""
    import pyspark

    spark = Path(pyspark.__file__).parent / "jars"
    parts = [str(java.home), java.version, pyspark.__version__]
    for path in (java.home / "lib" / "modules", spark, *class_path):
        status = path.stat()
        parts.append(f"{path} {status.st_size} {int(status.st_mtime)}")  # layers of images keep whole seconds
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _age(file: Path) -> float:
    """Seconds since the last change."""
    return time.time() - file.stat().st_mtime


def _is_recent(new: Path) -> bool:
    try:
        return _age(new) < _RECENT
    except FileNotFoundError:  # it has become the archive
        return False


def _sweep(archives: Path) -> None:
    """Deletes unused archives and incomplete files: see rules 2 and 4."""
    for pattern, seconds in (("classes-*.jsa", 30 * _DAY), ("classes-*.new", _DAY)):
        for file in archives.glob(pattern):
            with suppress(OSError):
                if _age(file) > seconds:
                    file.unlink()


def main() -> int:
    """Waits for archives and prints the paths of all; the exit code is 1 if there are none."""
    made = wait(folder())
    if not made:
        print(f"there is no archive in {folder()}", file=sys.stderr)
        return 1
    print(*made, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
