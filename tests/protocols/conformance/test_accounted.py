"""Every record of every vector and history is an event or a dead letter, or is one that its protocol lets say nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from changefeed.protocols.tencent_dts import messages as dts
from changefeed.wire import protobuf
from tests.protocols.conformance.cases import Case, History, cases, decode, histories

Record = dict[str, Any]


def _dts(record: Record) -> bool:
    """A part of an event that lies at another record, or entries without events, as a rollback's."""
    envelope = protobuf.read(dts.ENVELOPE, record["value"])
    return int(envelope.get("total", 0)) > 1 or record["value"][:2] == b"\x08\x01"


def _nothing_is_silent(record: Record) -> bool:
    return False


# protocol -> whether a record says nothing; see the README of each
SILENT: dict[str, Callable[[Record], bool]] = {
    "debezium-mysql": lambda record: record["value"] is None,  # a tombstone
    "tencent-dts": _dts,
    "ticdc-open": lambda record: record["key"] == (1).to_bytes(8, "big"),  # no messages
}


@pytest.mark.parametrize("case", [*cases(), *histories()], ids=str)
def test_no_record_vanishes(case: Case | History) -> None:
    found, records = decode(case), case.records.to_pylist()
    told = {row for table in found.tables for row in table.rows.column("record").to_pylist()}
    told |= {event.place.record for event in (*found.control, *found.dead)}
    silent = SILENT.get(case.protocol, _nothing_is_silent)
    assert [row for row, record in enumerate(records) if row not in told and not silent(record)] == []
