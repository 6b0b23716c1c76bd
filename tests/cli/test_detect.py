"""`changefeed detect`: recorded histories, formats that changefeed does not support, and the options."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from changefeed.cli import run
from changefeed.errors import ConfigError
from changefeed.model.batch import record_batch
from changefeed.pipeline.operations.detect import ProtocolFit, detect
from changefeed.protocols import PROTOCOLS, protocol, strangers
from changefeed.protocols.base import SampleRecord
from changefeed.protocols.debezium_mysql.recognize import likely
from tests.cli.command import invoke
from tests.protocols.conformance.cases import Case, History, all_protocols, cases, histories, records

SHOP = Path(__file__).parent.parent / "data" / "shop"


# With these options the bytes do not show their protocol.
SILENT = {"unwrap"}
HISTORIES = [history for history in histories() if not SILENT & history.options.keys()]
VECTORS = [case for case in cases() if case.encodes and not SILENT & case.options.keys()]


@pytest.mark.heavy
@pytest.mark.parametrize("history", HISTORIES, ids=str)
def test_a_history_is_in_its_protocol(history: History) -> None:
    registry = {name: value for name, value in history.options.items() if name == "schema-registry"}
    for topic in detect([history.records], registry):
        assert topic.best is not None
        assert (topic.best.protocol, topic.best.decoded, topic.best.trouble) == (history.protocol, topic.sample, None)
        options = yaml.safe_load(topic.best.line)["protocol"]
        for name, value in options.items() if isinstance(options, dict) else ():
            assert name == "name" or str(history.options.get(name, value)).lower() == str(value).lower()


@pytest.mark.parametrize("case", VECTORS, ids=str)
def test_a_vector_is_recognized(case: Case) -> None:
    """One record of it is enough: the later parts of an event may not show their protocol."""
    known = protocol(case.protocol)
    assert known.recognize is not None
    rows = case.records.to_pylist()
    records = [
        SampleRecord(r["topic"], r["key"], r["value"], {h["key"]: h["value"] for h in r["headers"]}) for r in rows
    ]
    assert any(map(known.recognize, records))


def test_every_protocol_has_a_look() -> None:
    assert all(known.recognize is not None for known in all_protocols())


def test_the_output_has_the_reason_and_the_line_to_paste() -> None:
    log = SHOP / "ticdc-open" / "open-1.classic.jsonl.gz"
    done = invoke("detect", log)
    assert (done.return_value, done.stdout) == (
        0,
        "shop: ticdc-open\n"
        '  why      the key is a version 1, a length, and {"ts":…} (200 of 200 records)\n'
        "  decodes  200 of 200 records\n"
        "  options  profile=classic\n"
        "  source   protocol: {name: ticdc-open, profile: classic}\n",
    )


def test_options_are_detected_from_records(tmp_path: Path) -> None:
    folder = SHOP / "ticdc-avro"
    registry = folder / "avro-ext.newarch.schemas.json"
    done = invoke("detect", folder / "avro-ext.newarch.jsonl.gz", "-o", f"schema-registry={registry}", "--json")
    topics = json.loads(done.stdout)["topics"]
    assert {topic["protocol"] for topic in topics} == {"ticdc-avro"}
    for topic in topics:
        assert topic["fits"][0]["options"] == {"schema-registry": str(registry), "enable-tidb-extension": "true"}


def test_without_a_schema_registry_a_fit_is_not_tried() -> None:
    done = invoke("detect", SHOP / "ticdc-avro" / "avro-ext.newarch.jsonl.gz", "--json")
    fits = [topic["fits"][0] for topic in json.loads(done.stdout)["topics"]]
    assert done.return_value == 0
    assert {(fit["protocol"], fit["decoded"]) for fit in fits} == {("ticdc-avro", None)}
    assert fits[0]["trouble"].startswith('Avro protocol requires parameter "schema-registry"')


def test_topics_with_the_same_result_are_listed_together() -> None:
    done = invoke("detect", SHOP / "ticdc-avro" / "avro-ext.newarch.jsonl.gz")
    lines = done.stdout.splitlines()
    assert lines[0] == "shop_items, shop_customers, shop_orders, shop_refunds, shop_order_items: ticdc-avro"
    assert lines[1] == "  why      Confluent's header, 00 and a schema id: Avro (848 of 848 records)"
    assert len(lines) == 5


def test_avro_of_another_protocol_is_not_ruled_out_without_a_schema_registry() -> None:
    log = Path(__file__).parent.parent / "data" / "debezium-mysql" / "mysql-3.6.1-avro.jsonl.gz"
    first = json.loads(invoke("detect", log, "--json").stdout)["topics"][0]
    assert [(fit["protocol"], fit["decoded"]) for fit in first["fits"]] == [
        ("ticdc-avro", None),
        ("debezium-mysql", None),
    ]


def test_a_damaged_log_is_read_up_to_the_damage(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log.jsonl"
    with gzip.open(SHOP / "ticdc-open" / "open-1.classic.jsonl.gz") as whole:
        log.write_bytes(whole.read(20_000))
    assert run(["detect", str(log)]) == 0
    output = capfd.readouterr()
    assert output.out.startswith("shop: ticdc-open\n")
    assert output.err.startswith(f"warning: {log}:")
    assert output.err.endswith("no line feed yet; continuing with the records read so far\n")


@pytest.mark.parametrize(
    "value, line", [("3.0", '"3.0"'), ("null", '"null"'), ("+08:00", '"+08:00"'), ("classic", "classic")]
)
def test_the_line_for_a_pipeline_quotes_texts_for_yaml(value: str, line: str) -> None:
    assert ProtocolFit("p", "", 1, 1, None, {"name-of": value}).line == f"protocol: {{name: p, name-of: {line}}}"


@pytest.mark.parametrize(
    "record, message",
    [
        (
            {"value_text": '{"database":"d","table":"t","type":"insert","ts":1,"xid":2,"data":{"id":1}}'},
            "not a protocol that changefeed supports; it looks like Maxwell",
        ),
        (
            {"value_text": '{"id":1,"messageType":"INSERT","fileName":"f","position":"2196@4","sourceType":"mysql"}'},
            "not a protocol that changefeed supports; it looks like Tencent DTS in JSON",
        ),
        (
            {"value_text": '{"version":1,"type":"INSERT","commitTs":1,"buildTs":2}'},
            "not a protocol that changefeed supports; it looks like TiCDC Simple Protocol",
        ),
        ({"value_text": '{"id":1}'}, "not a protocol that changefeed supports; it looks like plain JSON"),
        (
            {"value_text": '{"id":'},
            "not a protocol that changefeed supports; it looks like text that looks like JSON and is none",
        ),
        ({"value_text": "hello"}, "not a protocol that changefeed supports; no known format"),
        ({}, "not a protocol that changefeed supports; it looks like a record without key and value"),
    ],
)
def test_other_formats_are_named(record: dict[str, Any], message: str, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps(record) + "\n")
    done = invoke("detect", log)
    assert (done.return_value, done.stdout) == (3, f"log: {message}\n")


def test_supported_protocols_are_not_among_the_unsupported_formats() -> None:
    assert {name.lower().replace(" ", "-") for name in strangers._JSON}.isdisjoint(PROTOCOLS)


def test_a_log_without_a_record_is_reported(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("")
    done = invoke("detect", log)
    assert (done.return_value, done.stdout, done.stderr) == (3, "", f"no record in {log}\n")


def test_records_that_are_recognized_but_not_decoded_show_the_reason(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps({"key": "AAAAAAAAAAEAAAAAAAAACHsidHMiOjF9", "value_text": "short"}) + "\n")
    done = invoke("detect", log)
    assert done.return_value == 3
    first, second = done.stdout.splitlines()
    assert first == "log: not a protocol that changefeed supports"
    assert second.startswith(
        '  not      ticdc-open: the key is a version 1, a length, and {"ts":…}; decodes 0 of 1 records: '
    )
    assert json.loads(invoke("detect", log, "--json").stdout)["topics"][0]["protocol"] is None


def test_an_option_that_no_protocol_has_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        invoke("detect", SHOP / "ticdc-open" / "open-1.classic.jsonl.gz", "-o", "schema-registri=x")
    assert str(caught.value).startswith('unknown option "schema-registri". Did you mean "schema-registry"? Known: ')


def test_check_names_an_unsupported_format(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text(json.dumps({"value_text": '{"id":1}'}) + "\n")
    definition = {"source": {"type": "files", "path": "log.jsonl", "protocol": "ticdc-open"}}
    definition |= {"sink": {"type": "delta", "path": "lake"}, "pipeline": {"name": "p"}}
    (tmp_path / "p.yaml").write_text(yaml.safe_dump(definition))
    checks = json.loads(invoke("check", tmp_path / "p.yaml", "--json").stdout)["checks"]
    records = next(check for check in checks if check["name"] == "records")
    assert records["fix"] == "they look like plain JSON, which changefeed does not read"


def test_check_names_the_other_protocol(tmp_path: Path) -> None:
    log = SHOP / "tencent-dts" / "one-partition.jsonl.gz"
    definition = {"source": {"type": "files", "path": str(log), "protocol": "ticdc-open"}}
    definition |= {"sink": {"type": "delta", "path": "lake"}, "pipeline": {"name": "p"}}
    (tmp_path / "p.yaml").write_text(yaml.safe_dump(definition))
    checks = json.loads(invoke("check", tmp_path / "p.yaml", "--json").stdout)["checks"]
    records = next(check for check in checks if check["name"] == "records")
    assert records["fix"] == "they decode as tencent-dts: set source.protocol to it"


@pytest.mark.parametrize("key, decoded", [('{"serverName":"srv1"}', 1), ('{"name":"srv1"}', None)])
def test_a_heartbeat_of_debezium_without_schema_is_known_by_its_key(key: str, decoded: int | None) -> None:
    beat = records([{"topic": "__debezium-heartbeat.srv1", "key_text": key, "value_text": '{"ts_ms":1700000000000}'}])
    (topic,) = detect([beat], {})
    assert (topic.best and (topic.best.protocol, topic.best.decoded)) == (decoded and ("debezium-mysql", decoded))


@pytest.mark.parametrize("connector", ["mysql", "mariadb"])
@pytest.mark.parametrize("schema", [True, False])
def test_options_that_decoding_does_not_need_are_not_proposed(connector: str, schema: bool) -> None:
    """Each record shows its `schemas.enable` and `connector`, which only an encoder needs."""
    source = f'"version":"3.5.0.Final","connector":"{connector}","name":"srv","db":"web","table":"t"'
    payload = f'{{"before":null,"after":{{"id":1}},"source":{{{source}}},"op":"c"}}'
    value = f'{{"schema":null,"payload":{payload}}}' if schema else payload
    assert likely(SampleRecord("srv.web.t", b'{"id":1}', value.encode(), {})) == {}


def test_rows_without_envelope_are_recognized_by_rewritten_deletes() -> None:
    values = (b'{"id":1,"v":2,"__deleted":"false"}', b'{"id":1,"v":2,"__deleted":"true","__op":"d"}')
    sent = [
        {"topic": "srv.shop.carts", "partition": 0, "offset": at, "key": b'{"id":1}', "value": value}
        for at, value in enumerate(values)
    ]
    (topic,) = detect([record_batch(sent)], {})
    assert topic.best is not None
    assert (topic.best.protocol, topic.best.decoded) == ("debezium-mysql", 2)
    assert "unwrap: true" in topic.best.line
