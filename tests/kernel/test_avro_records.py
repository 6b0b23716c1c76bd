"""The kernel against the reference on TiCDC Avro: histories, mutated vectors, topics and zones."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from changefeed.model.batch import record_batch
from changefeed.protocols.base import Stores
from tests.kernel.agreement import Both, both_of_avro, topical
from tests.protocols.conformance.cases import (
    Case,
    History,
    Schemas,
    cases,
    compiled,
    decode,
    histories,
    lines,
    reference,
)
from tests.protocols.conformance.damage import mutated

VALUE = 2
CASES = [case for case in cases() if case.protocol == "ticdc-avro"]
HISTORIES = [history for history in histories() if history.protocol == "ticdc-avro"]


@pytest.mark.heavy
@pytest.mark.parametrize("history", HISTORIES, ids=str)
@pytest.mark.parametrize("size", [50, 500])
def test_once_the_shapes_are_known_only_control_records_are_unmatched(history: History, size: int) -> None:
    both = Both("ticdc-avro", stores_of(history), **history.options)
    records, control = history.records, 0
    for _ in range(2):
        before, control = both.unmatched, 0
        for start in range(0, len(records), size):
            control += len(both.decode(records.slice(start, size)).control)
    assert both.unmatched - before == control


@pytest.mark.heavy
@pytest.mark.parametrize("case", CASES, ids=str)
def test_kernel_and_reference_agree_on_mutations_of_the_vector(case: Case) -> None:
    rng, records = random.Random(case.name), case.records.to_pylist()
    batch = record_batch(mutated(rng.choice(records), rng.choice(records), rng) for _ in range(400))
    twin = compiled(case)
    twin.decode(case.records)
    assert lines(compiled(case).decode(batch)) == lines(decode(case, batch))
    mixed = record_batch([*batch.to_pylist(), *records])
    assert lines(twin.decode(mixed)) == lines(reference_after(case, mixed))


def reference_after(case: Case, batch: pa.RecordBatch) -> Any:
    """Decodes a batch by a reference that has decoded the case's records."""
    decoder = reference(case)
    decoder.decode(case.records)
    return decoder.decode(batch)


AT = '{"type":"record","name":"a_b","namespace":"default.shop","fields":[{"name":"at","type":["null",%s]}]}'
TEXTS = {VALUE: AT % '{"type":"string","connect.parameters":{"tidb_type":"DATETIME"}}'}
NULL, PLAIN, MILLI = (
    b"\0\0\0\0\2" + tail for tail in (b"\0", b"\2\x262026-01-02 03:04:05", b"\2\x2e2026-01-02 03:04:05.100")
)


@pytest.mark.parametrize("options", [{}, {"topic": "{schema}.{table}"}])
def test_rows_of_equal_schemas_are_their_topics(options: dict[str, str]) -> None:
    both = both_of_avro(TEXTS, **options)
    first, second = ["shop.a_b", "shop.a-b", "shop.a-b"], ["shop.a-b", "shop.a_b", "another"]
    for _ in range(2):
        both.decode(topical([(None, PLAIN), (None, MILLI), (None, PLAIN)], first))
        both.decode(topical([(None, NULL), (None, NULL), (None, NULL)], second))
    assert both.unmatched == 4


def test_a_null_joins_the_first_shape_of_its_topic() -> None:
    both = both_of_avro(TEXTS)
    rows: list[tuple[bytes | None, bytes | None]] = [(None, row) for row in (MILLI, PLAIN, MILLI, NULL)]
    for _ in range(2):
        both.decode(topical(rows, ["a", "b", "b", "b"]))
        both.decode(topical(rows, ["b", "a", "a", "a"]))


@pytest.mark.parametrize("zone", ["UTC", "+08:00", "-03:30", "Asia/Shanghai", "America/New_York"])
def test_timestamps_come_out_the_same_in_zone(zone: str) -> None:
    texts = ["2026-01-02 03:04:05", "0001-01-01 00:00:00", "9999-12-31 23:59:59", "2026-03-08 02:30:00"]
    both = both_of_avro({VALUE: TEXTS[VALUE].replace("DATETIME", "TIMESTAMP")}, time_zone=zone)
    batch = topical([(None, b"\0\0\0\0\2\2\x26" + text.encode()) for text in texts])
    both.decode(batch)
    before = both.unmatched
    both.decode(batch)
    assert both.unmatched - before == (len(texts) if "/" in zone else zone != "UTC")


def test_batches_with_long_offsets_are_read_as_they_are() -> None:
    records = HISTORIES[0].records.slice(0, 100)
    both = Both("ticdc-avro", stores_of(HISTORIES[0]), **HISTORIES[0].options)
    for name in ("key", "value"):
        at = records.schema.get_field_index(name)
        records = records.set_column(at, name, records[name].cast(pa.large_binary()))
    both.decode(records)
    both.decode(records)


def stores_of(history: History) -> Stores:
    """The schemas of a history."""
    return Stores(get_schema=Schemas(history.options["schema-registry"]).get)
