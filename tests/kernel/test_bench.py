"""The measurements: the records are sound, and every line of the tables is measured."""

from __future__ import annotations

import json
import sys
from collections import Counter

import pytest

from changefeed.bench import workload
from changefeed.bench.changes import FORMS
from changefeed.bench.changes import workload as workload_of
from changefeed.bench.decode import run
from changefeed.bench.encode import WAYS
from changefeed.bench.encode import run as run_encode
from changefeed.bench.every import measure
from changefeed.bench.every import run as run_every
from changefeed.bench.peers import PEERS
from changefeed.codec.decoding import changefeed_kernel, decoder
from changefeed.protocols import PROTOCOLS
from changefeed.protocols.base import Stores

JSON = ("debezium-mysql", "ticdc-debezium", "ticdc-open")


def test_the_workload_is_the_same_for_the_same_seed() -> None:
    assert workload.records(50).equals(workload.records(50))
    assert not workload.records(50).equals(workload.records(50, seed=2))


@pytest.mark.parametrize("rows_in_record", [1, 16])
def test_the_workload_is_sound_rows_of_both_producers(rows_in_record: int) -> None:
    records = workload.records(1000, rows_in_record=rows_in_record).combine_chunks().to_batches()[0]
    assert len(records) == -(-1000 // rows_in_record)
    decoded = decoder("ticdc-open", kernel="off").decode(records)
    assert not decoded.dead
    assert [len(table) for table in decoded.tables] == [500, 500]
    assert {op for table in decoded.tables for op in table.rows.column("op").to_pylist()} == {
        "insert",
        "update",
        "delete",
    }
    size = sum(map(len, records.column("value").to_pylist())) / 1000
    assert 400 < size < 480


def test_every_way_to_decode_is_measured() -> None:
    measured = [json.loads(line) for line in run(1000, spark=False, json=True)]
    ways = ["json.loads", "msgspec", "reference", "kernel"]
    assert [(m["what"], m["rows_in_record"]) for m in measured] == [(w, n) for n in (1, 16) for w in ways]
    assert all(m["rows_per_second"] > 0 for m in measured)
    assert len(run(1000, spark=False)) == 1 + len(measured) + 1 + 3


def peer(form: str) -> str:
    return PEERS[FORMS[form][1].values][0]


def test_every_form_is_measured_against_the_usual_library() -> None:
    measured = [json.loads(line) for line in run_every(200, spark=False, json=True)]
    assert list(dict.fromkeys(m["form"] for m in measured)) == list(FORMS)
    assert {protocol for protocol, _ in FORMS.values()} == set(PROTOCOLS)
    for form in FORMS:
        library, *ours = [m["what"] for m in measured if m["form"] == form]
        assert library == peer(form)
        assert ours in (["reference"], ["reference", "kernel"])
    assert all(m["rows_per_second"] > 0 and m["mb_per_second"] > 0 for m in measured)
    assert all((m["ratio"] is None) == (m["what"] == peer(m["form"])) for m in measured)
    assert len(list(run_every(200, spark=False))) == 1 + len(measured)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_the_same_changes(form: str) -> None:
    work = workload_of(form, 300)
    decodes = decoder(work.protocol, work.options, Stores(get_schema=work.schemas.__getitem__), kernel="off")
    ops = [op for b in work.batches for t in decodes.decode(b).tables for op in t.rows.column("op").to_pylist()]
    assert Counter(ops) == {"insert": 258, "update": 19, "delete": 23}


def test_every_protocol_that_the_kernel_writes_is_measured_both_ways() -> None:
    measured = [json.loads(line) for line in run_encode(200, json=True)]
    ways = ("encoder", "kernel") if hasattr(changefeed_kernel, "Templates") else ("encoder",)
    assert [(m["protocol"], m["what"]) for m in measured] == [(name, what) for name, _ in WAYS for what in ways]
    assert {name for name, _ in WAYS} == set(JSON)
    assert all((m["ratio"] is None) == (m["what"] == "encoder") for m in measured)
    assert len(run_encode(200)) == 1 + len(measured)


def test_a_library_that_is_not_there_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    assert [s.what for s in measure(workload_of("ticdc-avro", 10))][:1] == ["reference"]
