"""One archive and one cluster for the tests of this folder."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from changefeed.spark_runtime import archive as packer
from changefeed.spark_runtime import package
from tests.services.spark_cluster import SparkCluster


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive of this installation, as `changefeed package` makes it."""
    path = tmp_path_factory.mktemp("package") / packer.file_name()
    packer.write(path, level=0)  # quicker here than to compress it and back
    return path


@pytest.fixture(scope="session")
def unpacked(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive, unpacked."""
    folder = tmp_path_factory.mktemp("unpacked")
    subprocess.run(["tar", "-xzf", str(archive), "-C", str(folder)], check=True)
    return folder


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    """A master and two workers of one core."""
    with SparkCluster(tmp_path / "cluster") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def packed(tmp_path_factory: pytest.TempPathFactory) -> package.Made:
    """The folder that `changefeed package` writes."""
    return package.write(tmp_path_factory.mktemp("packed") / "changefeed-cluster")


@pytest.fixture(scope="session")
def environment(packed: package.Made, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the archive unpacked as `environment`."""
    folder = tmp_path_factory.mktemp("here")
    (folder / "environment").mkdir()
    subprocess.run(["tar", "-xzf", str(packed.archive), "-C", str(folder / "environment")], check=True)
    return folder
