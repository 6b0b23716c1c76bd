"""Decoders and encoders in Python: the forms of records that they accept, and their results."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import changefeed as cf
from changefeed import record_log

SHOP = Path(__file__).parents[2] / "examples" / "shop" / "history.jsonl.gz"
BATCH = next(record_log.read(SHOP)).slice(0, 50)
ROWS = BATCH.to_pylist()
LINES = [str(event) for event in cf.decoder("ticdc-open")(BATCH).events()]


@pytest.mark.parametrize(
    "records",
    [
        BATCH,
        pa.Table.from_batches([BATCH.slice(0, 20), BATCH.slice(20)]),
        [cf.Record(r["key"], r["value"], r["topic"], r["partition"], r["offset"]) for r in ROWS],
        ((r["key"], r["value"], r["topic"], r["partition"], r["offset"]) for r in ROWS),
        [{name: r[name] for name in ("key", "value", "topic", "partition", "offset")} for r in ROWS],
        pa.table({name: BATCH.column(name) for name in ("offset", "partition", "topic", "value", "key")}),
    ],
    ids=["batch", "table", "records", "tuples", "dicts", "columns"],
)
def test_records_come_in_any_form(records: Any) -> None:
    decode = cf.decoder("ticdc-open")
    decoded = decode(records)
    assert [str(event) for event in decoded.events()] == LINES
    assert decode.records == 50
    assert decode.finish().events() == []


def test_a_key_and_a_value_are_enough_and_offsets_continue() -> None:
    decode = cf.decoder("ticdc-open")
    first = decode([(r["key"], r["value"]) for r in ROWS[:2]])
    then = decode(pa.table({"key": BATCH.column("key")[2:4], "value": BATCH.column("value")[2:4]}))
    positions = [str(event.position) for part in (first, then) for event in part.events()]
    assert positions == ["records:0:0", "records:0:1", "records:0:2", "records:0:3"]


@pytest.mark.parametrize(
    "records",
    [[(1, 2)], [{"kye": b""}], [5], pa.table({"kye": [b""]}), pa.table({"key": [[1]]}), [tuple(range(9))]],
    ids=["types", "name", "no record", "column", "column type", "too long"],
)  # fmt: skip
def test_other_values_than_records_are_refused_with_their_fields(records: Any) -> None:
    with pytest.raises(
        cf.SchemaError, match="expected records of key, value, topic, partition, offset, timestamp and headers"
    ):
        cf.decoder("ticdc-open")(records)


def test_an_empty_input_has_an_empty_result() -> None:
    nothing: tuple[Any, ...] = ([], pa.table({"key": pa.array([], pa.binary()), "value": pa.array([], pa.binary())}))
    for none in nothing:
        assert cf.decoder("ticdc-open")(none).events() == []


def test_an_encoder_writes_the_records_again() -> None:
    decoded = cf.decoder("ticdc-open")(BATCH)
    same = [(r["key"], r["value"], r["topic"], r["partition"], r["offset"]) for r in ROWS]
    for changes in (decoded, decoded.events()):
        encode = cf.encoder("ticdc-open")
        assert [record[:5] for record in encode(changes)] == same
        assert encode.finish() == []


def test_a_record_has_its_time_and_its_headers() -> None:
    time = datetime(2026, 1, 1, tzinfo=UTC)
    record = cf.Record(b"k", b"v", "t", 1, 2, time, (("h", b"x"), ("none", None)))
    (letter,) = cf.decoder("ticdc-open")([record]).dead_letters
    assert letter.headers == (("h", b"x"), ("none", None))
    assert str(letter.position) == "t:1:2"


def test_secrets_in_options_are_kept_out_of_messages() -> None:
    from changefeed.redaction import redact

    cf.decoder("ticdc-avro", schema_registry="http://127.0.0.1:1", basic_auth_user_info="me:s3cretword")
    assert "s3cretword" not in redact("wrong: s3cretword")
