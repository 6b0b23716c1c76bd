from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from changefeed.spark_runtime.java_names import remember_packages

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_name_is_looked_up_once(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    from py4j.java_gateway import JVMView

    known: Any = spark._jvm
    jvm = JVMView(known._gateway_client, known._jvm_name, known._id)
    remember_packages(jvm)
    path, none = jvm.org.apache.hadoop.fs.Path, jvm.scala.Option.empty
    asked: list[str] = []
    send = known._gateway_client.send_command

    def sent(text: str, **options: Any) -> Any:
        asked.append(text)
        return send(text, **options)

    monkeypatch.setattr(known._gateway_client, "send_command", sent)
    assert jvm.org.apache.hadoop.fs.Path is path
    assert jvm.org.apache.hadoop.fs.FileSystem is not path
    assert [text.splitlines()[2] for text in asked] == ["org.apache.hadoop.fs.FileSystem"]
    assert str(path("/a/b").getName()) == "b"
    assert none().isEmpty()


def test_a_class_that_is_missing_may_come_later(spark: SparkSession) -> None:
    package: Any = spark._jvm.org.apache.hadoop  # type: ignore[union-attr]
    assert (package.Nothing is package.Nothing, package.fs is package.fs) == (False, True)
