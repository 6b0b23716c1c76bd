"""Errors in a definition: each has its place, the fault and what to write instead."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from changefeed.errors import ConfigError
from changefeed.pipeline.config.load import load, read
from changefeed.sources import protocol_of

SOURCE = "source: {type: files, path: log.jsonl, protocol: ticdc-open}\n"
SINK = "sink: {type: delta, path: lake}\n"

REFUSED = {
    SOURCE.replace("files", "file")
    + SINK: 'unknown source.type "file". Did you mean "files"? Known: files, kafka, mysql',
    SOURCE + SINK.replace("delta", "hudi"): 'unknown sink.type "hudi". Known: delta, iceberg',
    SOURCE
    + SINK
    + "pipeline: {consistency: keys}": 'unknown pipeline.consistency "keys". Did you mean "key"? Known: key, '
    "transaction",
    SOURCE
    + SINK.replace(
        "lake", "/srv/la%20ke"
    ): "sink.path: readers that treat every path as a URL take '%20' in /srv/la%20ke for "
    "another character: name the folder without it",
    SOURCE
    + SINK
    + "pipeline: {keyless: no}": "pipeline.keyless: false is not one of its values; YAML takes yes, no, on and off for true "
    "and false. Known: append, inserts, refuse",
    SOURCE: "sink is missing",
    SOURCE
    + SINK
    + "pipeline: {schema.change.behaviour: ignore}": 'unknown name in pipeline "schema.change.behaviour". Did you '
    'mean "schema.change.behavior"? Known: consistency, dead-letters, exclude, folder, include, incomplete-transactions, '
    "keep-cuts, keyless, max-retries, metrics, metrics-by-table, metrics-otlp, name, "
    "parallelism, retry-backoff, schema.change.behavior, session-time-zone, trigger-interval",
    SOURCE.replace("type: files, ", "") + SINK: "source.type is missing",
    SOURCE.replace(" ticdc-open", "") + SINK: "source.protocol is missing",
    SOURCE.replace("ticdc-open", "[ticdc-open]") + SINK: "source.protocol: expected names and values",
    "source: kafka\n" + SINK: "source: expected names and values",
    SOURCE.replace("files, path: log.jsonl", "kafka, servers: a, topics: b")
    + SINK: "source.topics: expected a list, as [a, b]",
    SOURCE
    + SINK
    + "pipeline: {trigger-interval: soon}": "pipeline.trigger-interval: expected a number and a unit, such as "
    "`1 second` or `5 minutes`, not 'soon'",
    SOURCE + SINK + SINK: "not YAML: sink is set twice at line 3, column 1",
    SOURCE.replace("}", "") + SINK: "not YAML: expected ',' or '}', but got ':' at line 2, column 5",
    "\udcff": "not YAML: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
    "a: \0": "not YAML: unacceptable character #x0000: special characters are not allowed",
    "? [a, b]\n: c": "not YAML: found unhashable key at line 1, column 3",
    "- a": "expected the sections source, sink and pipeline",
}


@pytest.mark.parametrize("text, message", REFUSED.items(), ids=REFUSED.values())
def test_an_error_names_the_fault_and_what_to_write(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "pipeline.yaml"
    path.write_text(text, "utf-8", errors="surrogateescape")
    with pytest.raises(ConfigError) as error:
        load(path)
    assert re.sub(r"(?<=\.yaml):\d+(?=: )", "", str(error.value)) == f"{path}: {message}"


def _problems(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "p.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        load(path)
    return [line.removeprefix(f"{path}") for line in str(error.value).splitlines()]


def test_all_problems_are_reported_at_once_each_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOT_THERE", raising=False)
    text = """\
source:
  type: kafka
  server: a:1
  topic: [t]
  kafka.client.id: x
  kafak.x: y
  protocol:
    name: ticdc-avro
    timeout: much
    schema-registri: x
sink:
  type: delta
  path: ${NOT_THERE}/lake
pipeline:
  name: a b
  parallelism: 99
  keyles: refuse
  max_records_per_batch: 5
spark: {a: [b]}
nonsense: 1
"""
    known = "Known: max-records-per-batch, protocol, removed-topics, servers, starting-offsets, topics, topics-pattern, type"
    kafka = "properties of the Kafka client start with `kafka.`"
    problems = _problems(tmp_path, text)
    assert problems[:3] == [
        f':3: unknown name in source "server". Did you mean "servers"? {known}; {kafka}',
        f':4: unknown name in source "topic". Did you mean "topics"? {known}; {kafka}',
        f':6: unknown name in source "kafak.x". {known}; {kafka}',
    ]
    assert problems[3] == ":9: ticdc-avro: timeout: expected a number"
    assert problems[4].startswith(
        ':10: unknown option of ticdc-avro "schema-registri". Did you mean "schema-registry"?'
    )
    assert problems[5:8] == [
        ":13: ${NOT_THERE} refers to the environment variable NOT_THERE, which is not set",
        ":15: pipeline.name: expected letters, digits, `_`, `.` and `-` alone, got 'a b'",
        ":16: pipeline.parallelism: expected at most 64, got 99",
    ]
    assert problems[8].startswith(':17: unknown name in pipeline "keyles". Did you mean "keyless"?')
    assert problems[9].startswith(':18: unknown name in pipeline "max_records_per_batch".')
    assert problems[10:] == [
        ":19: spark.a: expected a text",
        ':20: unknown name in the file "nonsense". Known: ledger, pipeline, sink, source, spark, storage',
    ]


def test_a_value_whose_variable_is_not_set_has_no_other_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOT_THERE", raising=False)
    kafka = "type: kafka, servers: 'a:1', topics: ['${NOT_THERE}'], protocol: ticdc-open"
    text = f"source: {{{kafka}, kafka.sasl.jaas.config: '${{NOT_THERE}}'}}\n{SINK}"
    unset = ":1: ${NOT_THERE} refers to the environment variable NOT_THERE, which is not set"
    assert _problems(tmp_path, text) == [unset, unset]


@pytest.mark.parametrize(
    "text, wanted",
    [
        (SOURCE.replace("path", "pth") + SINK, ':1: unknown name in source "pth". Did you mean "path"? '),
        (SOURCE + SINK.replace("sink", "sinks"), ':2: unknown name in the file "sinks". Did you mean "sink"? '),
        (
            SOURCE.replace("path", "max_records_per_batch: 5, path") + SINK,
            ':1: unknown name in source "max_records_per_batch". Did you mean "max-records-per-batch"? ',
        ),
        (
            SOURCE + SINK + "pipeline: {dead_letters: stop}",
            ':3: unknown name in pipeline "dead_letters". Did you mean "dead-letters"? ',
        ),
        (
            SOURCE + SINK + "pipeline: {schema_change_behavior: ignore}",
            ':3: unknown name in pipeline "schema_change_behavior". Did you mean "schema.change.behavior"? ',
        ),
        (
            SOURCE.replace("files, path: log.jsonl", "kafka, servers: a, max_records_per_batch: 5, topics: [t]") + SINK,
            ':1: unknown name in source "max_records_per_batch". Did you mean "max-records-per-batch"? ',
        ),
        (SOURCE.replace("path", "max-records-per-batch: 5k, path") + SINK,
         ":1: source.max-records-per-batch: expected a whole number, got '5k'"),
        (SOURCE + SINK.replace("lake", "5"), ":2: sink.path: expected a text, got 5"),
        (SOURCE.replace("files, path: log.jsonl", "kafka, servers: a") + SINK,
         ":1: source: give either `topics` or `topics-pattern`"),
    ],
)  # fmt: skip
def test_a_misspelled_name_is_reported_and_not_the_missing_one(tmp_path: Path, text: str, wanted: str) -> None:
    [problem] = _problems(tmp_path, text)
    assert problem.startswith(wanted)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        load(tmp_path / "none.yaml")
    assert str(error.value) == f"{tmp_path}/none.yaml does not exist"
    with pytest.raises(ConfigError) as error:
        load(tmp_path)
    assert str(error.value) == f"{tmp_path} cannot be read: Is a directory"


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)


@pytest.mark.parametrize(
    "text, message",
    [
        ("a: " + "[" * 5000 + "]" * 5000, ": has more than 100 levels: it is not a definition"),
        ("a: " + "{b: " * 500 + "}" * 500, ": has more than 100 levels: it is not a definition"),
        ("a: &a [*a]", ": has more than 100 levels: it is not a definition"),
        (BOMB, ": has more than 10,000 values: it is not a definition"),
        (SOURCE + SINK + " " * (1 << 20), " has more than 1,048,576 bytes: it is not a definition"),
        ("a: !!python/object/apply:os.system [ls]", ": not YAML: could not determine a constructor: a text that begins with `*`, "
         "`&` or `!` needs quotes, at line 1, column 4"),
    ],
    ids=["deep list", "deep map", "without end", "bomb", "large", "tag"],
)  # fmt: skip
def test_a_hostile_file_is_refused_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    [problem] = _problems(tmp_path, text)
    assert problem == message


def test_an_alias_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(SOURCE + SINK + "spark: {a: &x '4g', b: *x}")
    assert load(path).spark == {"a": "4g", "b": "4g"}


def test_numbers_and_booleans_for_spark_are_texts() -> None:
    source = {"type": "files", "path": "log.jsonl", "protocol": "ticdc-open"}
    properties = {"spark.sql.shuffle.partitions": 4, "spark.ui.enabled": True, "spark.driver.memory": "3g"}
    pipeline = read({"source": source, "sink": {"type": "delta", "path": "lake"}, "spark": properties})
    assert list(pipeline.spark.values()) == ["4", "true", "3g"]


def test_relative_paths_start_at_the_folder_of_the_file(tmp_path: Path) -> None:
    protocol = "{name: ticdc-avro, schema-registry: schemas.json}"
    path = tmp_path / "pipeline.yaml"
    path.write_text(SOURCE.replace("ticdc-open", protocol) + SINK)
    pipeline = load(path)
    assert (pipeline.source.model_dump()["path"], pipeline.sink.path) == (f"{tmp_path}/log.jsonl", f"{tmp_path}/lake")
    choice = protocol_of(pipeline.source)
    assert choice is not None
    assert choice.options == {"schema-registry": f"{tmp_path}/schemas.json"}
    path.write_text(path.read_text().replace("schemas.json", "http://registry:8081"))
    choice = protocol_of(load(path).source)
    assert choice is not None
    assert choice.options == {"schema-registry": "http://registry:8081"}


def test_null_without_quotes_is_the_policy_of_that_name(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yaml"
    path.write_text(SOURCE + SINK.replace("lake}", "lake, irregular: null}"))
    assert load(path).sink.irregular == "null"
