"""Every record of every vector and history is an event or a dead letter, or is one that its protocol lets say nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.protocols.conformance.cases import Case, History, cases, decode, histories, own


def says_nothing(case: Case | History, record: dict[str, Any]) -> bool:
    """Whether the protocol lets the record say nothing: `silent` in its `silent.py`; see the README of each."""
    module = own(case.protocol, "silent")
    return module is not None and bool(module.silent(record))


@pytest.mark.parametrize("case", [*cases(), *histories()], ids=str)
def test_no_record_vanishes(case: Case | History) -> None:
    found, records = decode(case), case.records.to_pylist()
    told = {row for table in found.tables for row in table.rows.column("record").to_pylist()}
    told |= {event.place.record for event in (*found.control, *found.dead)}
    assert [row for row, record in enumerate(records) if row not in told and not says_nothing(case, record)] == []
