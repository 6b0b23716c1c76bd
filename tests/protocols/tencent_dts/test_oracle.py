"""This project's protobuf reader and writer, compared with the protobuf package and the service's message descriptions."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.json_format import MessageToDict
from hypothesis import given, settings
from hypothesis import strategies as st

from changefeed import record_log
from changefeed.protocols.tencent_dts import messages
from changefeed.wire import protobuf
from changefeed.wire.protobuf import MessageDescriptor
from tests.protocols.conformance.cases import DATA
from tests.protocols.tencent_dts.records import decode, message, record

TABLES = {
    table.name: table
    for table in (
        messages.ENVELOPE,
        messages.HEADER,
        messages.COLUMN,
        messages.DATA,
        messages.PAIR,
        *(f.kind for f in messages.EVENT.fields if isinstance(f.kind, MessageDescriptor)),
    )
}
_KINDS = {
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "uint32": st.integers(0, 2**32 - 1),
    "uint64": st.integers(0, 2**64 - 1),
    "bool": st.booleans(),
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    "bytes": st.binary(max_size=20),
    "span": st.binary(max_size=20),
}
NEWER = {"Envelope": {"properties"}}  # fields that are not in the description of 2021


def members(table: MessageDescriptor) -> st.SearchStrategy[dict[str, Any]]:
    """Nonzero members of a message."""
    optional: dict[str, st.SearchStrategy[Any]] = {}
    for f in table.fields:
        if f.name in NEWER.get(table.name, ()):
            continue
        if isinstance(f.kind, MessageDescriptor):
            inner = members(f.kind)
            optional[f.name] = st.lists(inner, min_size=1, max_size=3) if f.most else inner
        else:
            optional[f.name] = _KINDS[f.kind].filter(bool)
    return st.fixed_dictionaries({}, optional=optional)


@pytest.mark.parametrize("name", sorted(TABLES))
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_messages_are_written_and_read_as_protobuf_does(name: str, data: st.DataObject) -> None:
    given_members = data.draw(members(TABLES[name]))
    written = protobuf.write(TABLES[name], given_members)
    assert written == message(name, **given_members).SerializeToString(deterministic=True)
    members_read = protobuf.read(TABLES[name], written)
    spans = {f.name for f in TABLES[name].fields if f.kind == "span"} & members_read.keys()
    assert {**members_read, **{span: written[slice(*members_read[span])] for span in spans}} == given_members


@pytest.mark.parametrize("name", sorted(TABLES))
def test_the_tables_are_those_of_the_service(name: str) -> None:
    described = {f.name: f.number for f in message(name).DESCRIPTOR.fields}
    known = {f.name: f.number for f in TABLES[name].fields if f.name not in NEWER.get(name, ())}
    assert known == described


def test_a_history_has_the_events_that_protobuf_reads() -> None:
    log = DATA / "shop" / "tencent-dts" / "one-partition.jsonl.gz"
    records = pa.Table.from_batches(record_log.read(log)).combine_chunks().to_batches()[0].slice(0, 60).to_pylist()
    for one in records:
        parsed = message("Envelope")
        parsed.ParseFromString(one["value"])
        entries = message("Entries")
        entries.ParseFromString(parsed.data)
        changes = decode(record(one["value"]))
        numbers: list[Any] = [event.origin.get("seqId") for event in changes.control]
        numbers += [seq for table in changes.tables for seq in table.rows.column("sequence").to_pylist()]
        expected = [e["header"]["seqId"] for e in MessageToDict(entries)["items"] for _ in range(rows_of(e))]
        assert sorted(map(int, expected)) == sorted(numbers)


def rows_of(entry: dict[str, Any]) -> int:
    """The number of events of an entry."""
    return len(entry["event"]["dmlEvent"]["rows"]) if "dmlEvent" in entry["event"] else 1
