"""Declared packages are locked, and files needed at run time are in the package."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import changefeed

ROOT = Path(__file__).parent.parent
LOCK = (ROOT / "requirements.lock").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def declared() -> Iterator[str]:
    project = PROJECT["project"]
    groups = [
        project["dependencies"],
        *project["optional-dependencies"].values(),
        *PROJECT["dependency-groups"].values(),
    ]
    for requirement in (one for group in groups for one in group):
        name = re.match(r"[A-Za-z0-9._-]+", requirement)
        assert name is not None
        yield re.sub(r"[-_.]+", "-", name[0]).lower()


def test_every_declared_package_is_locked() -> None:
    locked = set(re.findall(r"^([a-z0-9-]+)==", LOCK, re.MULTILINE))
    assert set(declared()) - {"changefeed"} - locked == set(), "run: make lock"


def test_every_locked_package_has_hashes() -> None:
    for block in re.split(r"\n(?=[a-z])", LOCK)[1:]:
        assert "--hash=sha256:" in block, block


def test_the_lock_names_no_host_and_no_path() -> None:
    assert re.findall(r"\S*(?:://|file:|@ )\S*", LOCK) == []
    assert not re.search(r"^--?\w", LOCK, re.MULTILINE), "an option line, as --index-url"


def test_the_version_has_one_source() -> None:
    assert PROJECT["project"]["version"] == changefeed.__version__


def test_data_files_are_part_of_the_package() -> None:
    for package, name in [
        ("changefeed", "py.typed"),
        ("changefeed.spark_runtime", "log4j2.properties"),
        ("changefeed.sinks.delta", "LinkLogStore.java"),
    ]:
        assert resources.files(package).joinpath(name).is_file()
