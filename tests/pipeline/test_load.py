"""What a definition that cannot work is told: where, what, and what would do."""

from __future__ import annotations

from pathlib import Path

import pytest

from changefeed.errors import ConfigError
from changefeed.pipeline.load import load, read

SOURCE = "source: {type: files, path: log.jsonl, protocol: ticdc-open}\n"
SINK = "sink: {type: delta, path: lake}\n"

REFUSED = {
    SOURCE.replace("files", "file") + SINK: 'unknown source.type "file". Did you mean "files"? Known: files, kafka',
    SOURCE + SINK.replace("delta", "iceberg"): 'unknown sink.type "iceberg". Known: delta',
    SOURCE
    + SINK
    + "pipeline: {consistency: keys}": 'unknown pipeline.consistency "keys". Did you mean "key"? Known: key, '
    "transaction",
    SOURCE
    + SINK.replace(
        "lake", "/srv/la%20ke"
    ): "sink.path: readers to which every path is a URL take '%20' in /srv/la%20ke for "
    "another character: name the folder without it",
    SOURCE: "sink is missing",
    SOURCE
    + SINK
    + "pipeline: {schema.change.behaviour: ignore}": 'unknown name in pipeline "schema.change.behaviour". Did you '
    'mean "schema.change.behavior"? Known: consistency, dead-letters, exclude, keyless, name, parallelism, '
    "schema.change.behavior, trigger-interval",
    SOURCE.replace("type: files, ", "") + SINK: "source.type is missing",
    SOURCE.replace(" ticdc-open", "") + SINK: "source.protocol is missing",
    SOURCE.replace("ticdc-open", "[ticdc-open]") + SINK: "source.protocol: expected names and values",
    "source: kafka\n" + SINK: "source: expected names and values",
    SOURCE.replace("files, path: log.jsonl", "kafka, servers: a, topics: b")
    + SINK: "source.topics: expected a list, as [a, b]",
    SOURCE + SINK + "pipeline: {trigger-interval: soon}": "pipeline.trigger-interval: expected a number and a unit, as "
    "`1 second` or `5 minutes`, not 'soon'",
    SOURCE + SINK + SINK: "not YAML: sink is there twice at line 3, column 1",
    SOURCE.replace("}", "") + SINK: "not YAML: expected ',' or '}', but got ':' at line 2, column 5",
    "\udcff": "not YAML: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
    "a: \0": "not YAML: unacceptable character #x0000: special characters are not allowed",
    "? [a, b]\n: c": "not YAML: found unhashable key at line 1, column 3",
    "- a": "expected the sections source, sink and pipeline",
}


@pytest.mark.parametrize("text, message", REFUSED.items(), ids=REFUSED.values())
def test_what_cannot_work_is_said_with_what_would(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "pipeline.yaml"
    path.write_text(text, "utf-8", errors="surrogateescape")
    with pytest.raises(ConfigError) as error:
        load(path)
    assert str(error.value) == f"{path}: {message}"


def test_numbers_and_booleans_for_spark_are_texts() -> None:
    source = {"type": "files", "path": "log.jsonl", "protocol": "ticdc-open"}
    said = {"spark.sql.shuffle.partitions": 4, "spark.ui.enabled": True, "spark.driver.memory": "3g"}
    found = read({"source": source, "sink": {"type": "delta", "path": "lake"}, "spark": said})
    assert list(found.spark.values()) == ["4", "true", "3g"]


def test_relative_paths_are_taken_from_the_folder_of_the_file(tmp_path: Path) -> None:
    protocol = "{name: ticdc-avro, schema-registry: schemas.json}"
    path = tmp_path / "pipeline.yaml"
    path.write_text(SOURCE.replace("ticdc-open", protocol) + SINK)
    found = load(path)
    assert (found.source.model_dump()["path"], found.sink.path) == (f"{tmp_path}/log.jsonl", f"{tmp_path}/lake")
    assert found.source.protocol.options == {"schema-registry": f"{tmp_path}/schemas.json"}
    path.write_text(path.read_text().replace("schemas.json", "http://registry:8081"))
    assert load(path).source.protocol.options == {"schema-registry": "http://registry:8081"}


def test_null_without_quotes_is_the_policy_of_that_name(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yaml"
    path.write_text(SOURCE + SINK.replace("lake}", "lake, irregular: null}"))
    assert load(path).sink.irregular == "null"
