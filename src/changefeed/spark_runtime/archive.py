"""The archive with Python, changefeed, the kernel and their packages, for machines that have none of them.

    bin/python          a script: the interpreter below, with the packages below
    python/             the interpreter: its program, its shared library, the standard library
    packages/           changefeed, changefeed_kernel, pyspark without its jars, pyarrow, …: everything `changefeed[all]` needs

Rule 1. The archive is relocatable: it contains no path of the machine that made it.
Rule 2. It contains the packages of this process, also from an editable installation. Tests, headers and pyspark's
        jars are left out.
Rule 3. It works on machines with the same processor architecture, and a C library that is not older.
"""

from __future__ import annotations

import io
import os
import platform
import re
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import changefeed
from changefeed.errors import ConfigError
from changefeed.spark_runtime.python import INSTEAD

_SCRIPT = f"""#!/bin/sh
# Python with changefeed and its packages; this folder may be moved.
here=$(cd "$(dirname "$0")/.." && pwd -P) || exit 1
export LD_LIBRARY_PATH="$here/python/lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"
export PYTHONPATH="$here/packages${{PYTHONPATH:+:$PYTHONPATH}}"
export PYTHONNOUSERSITE=1
{INSTEAD}exec "$here/python/bin/python3" "$@"
"""
_NOT_NEEDED = {"pip", "setuptools", "wheel", "changefeed"}
_LEFT_OUT = re.compile(
    r"pyspark/(jars|examples|sbin|bin|data|licenses|kubernetes|pipelines/tests|python/lib|R)/|(^|/)tests?/|pyarrow/(include|src)/"
    r"|\.(pyx|pxd|h|hpp|a|pyi)$|^\.\.|changefeed_kernel/.*\.so\.dbg$"
)
_STANDARD_LEFT_OUT = {
    "test", "site-packages", "dist-packages", "ensurepip", "idlelib", "tkinter", "turtledemo", "lib2to3"
}  # fmt: skip
_REQUIREMENT = re.compile(r"^([A-Za-z0-9._-]+)\s*(?:\[([^\]]*)\])?")


def file_name() -> str:
    """The archive's name, with its version and platform."""
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}-{platform.system().lower()}-{platform.machine()}"
    return f"changefeed-{changefeed.__version__}-{tag}.tar.gz"


def write(target: Path, level: int = 1) -> list[str]:
    """Writes the archive; returns the names and versions of its packages.

    Args:
        target: the file.
        level: compression level, from 0 to 9.

    Raises:
        ConfigError: the file cannot be written.
    """
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with tarfile.open(unfinished, "w:gz", compresslevel=level) as archive:
            _add_text(archive, "bin/python", _SCRIPT)
            _add_interpreter(archive)
            _add_folder(archive, Path(changefeed.__file__).parent, "packages/changefeed")
            packages = list(_distributions())
            for one in packages:
                _add_distribution(archive, one)
        unfinished.replace(target)
    except OSError as error:
        raise ConfigError(f"{error.filename or target}: {error.strerror}") from error
    finally:
        unfinished.unlink(missing_ok=True)
    named = [f"{one.metadata['Name']} {one.version}" for one in packages]
    return [f"Python {platform.python_version()}", f"changefeed {changefeed.__version__}", *sorted(named)]


def _add_text(archive: tarfile.TarFile, name: str, text: str) -> None:
    data = text.encode()
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), 0o755
    archive.addfile(entry, io.BytesIO(data))


def _add_interpreter(archive: tarfile.TarFile) -> None:
    """Adds the interpreter of this process, without its virtual environment."""
    name = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    program = Path(os.path.realpath(sys.executable))
    _add_file(archive, program, f"python/bin/{name}")
    link = tarfile.TarInfo("python/bin/python3")
    link.type, link.linkname = tarfile.SYMTYPE, name
    archive.addfile(link)
    library = sysconfig.get_config_var("INSTSONAME") or ""
    if ".so" in library:
        for folder in (Path(sys.base_prefix) / "lib", Path(sysconfig.get_config_var("LIBDIR") or "/usr/lib")):
            if (folder / library).exists():
                _add_file(archive, (folder / library).resolve(), f"python/lib/{library}")
                break
    standard = Path(sysconfig.get_path("stdlib"))
    for path in sorted(standard.iterdir()):
        if path.name not in _STANDARD_LEFT_OUT and not path.name.startswith("config-"):
            _add_folder(archive, path, f"python/lib/{name}/{path.name}")


def _add_folder(archive: tarfile.TarFile, path: Path, name: str) -> None:
    """Adds a file or a folder; links are resolved, and only bytecode for this Python is included."""
    if path.is_dir():
        for each in sorted(path.iterdir()):
            if each.name not in ("test", "tests"):
                _add_folder(archive, each, f"{name}/{each.name}")
    elif path.is_file() and (path.suffix != ".pyc" or path.name.endswith(f".{sys.implementation.cache_tag}.pyc")):
        _add_file(archive, path, name)


def _add_file(archive: tarfile.TarFile, path: Path, name: str) -> None:
    entry = archive.gettarinfo(os.path.realpath(path), name)
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    with path.open("rb") as file:
        archive.addfile(entry, file)


def _add_distribution(archive: tarfile.TarFile, one: metadata.Distribution) -> None:
    """Adds the files of an installed package, except those that workers do not need."""
    for file in one.files or ():
        path = Path(str(one.locate_file(file)))
        if not _LEFT_OUT.search(file.as_posix()) and path.is_file():
            _add_file(archive, path, f"packages/{file.as_posix()}")


def _distributions() -> Iterator[metadata.Distribution]:
    """Yields the installed packages that `changefeed[all]` needs, and the kernel, each once."""
    seen, left = set[str](), [("changefeed", "all"), ("changefeed-kernel", "")]
    while left:
        name, extras = left.pop()
        one = _installed(name)
        if one is None or (f"{name}[{extras}]" in seen):
            continue
        seen.add(f"{name}[{extras}]")
        if name not in _NOT_NEEDED and name not in seen:
            yield one
        seen.add(name)
        left += [need for need in _needs(one, extras) if need[0] not in _NOT_NEEDED - {"changefeed"}]


def _installed(name: str) -> metadata.Distribution | None:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None


def _needs(one: metadata.Distribution, extras: str) -> Iterator[tuple[str, str]]:
    """Yields the requirements of a package as (name, extras), including those of the requested extras."""
    asked = {extra.strip() for extra in extras.split(",")}
    for text in one.requires or ():
        requirement, _, marker = text.partition(";")
        extra = re.search(r"extra\s*==\s*['\"]([^'\"]+)['\"]", marker)
        match = _REQUIREMENT.match(requirement.strip())
        if match and (extra is None or extra[1] in asked):
            yield re.sub(r"[-_.]+", "-", match[1]).lower(), match[2] or ""


def has_kernel() -> bool:
    """Whether the archive will contain the Rust kernel."""
    return find_spec("changefeed_kernel") is not None
