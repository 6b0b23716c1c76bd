"""Distinguishes paths of this machine from those of other file systems, as Hadoop does."""

from __future__ import annotations

import pytest

from changefeed.spark_runtime.files import is_local


@pytest.mark.parametrize(
    "path, local",
    [
        ("/data/lake", True), ("/a:b", True), ("/a:b/c://d", True), ("data/a:b", True), ("./a:b", True),
        ("hdfs://lake/data", False), ("viewfs:/data", False), ("s3a://lake", False), ("abfss://a@b/c", False),
        ("file:/data", False), ("swebhdfs://lake:9870/data", False),
    ],
)  # fmt: skip
def test_a_path_with_a_scheme_is_not_local(path: str, local: bool) -> None:
    assert is_local(path) is local
