"""Every record of every vector and history has an event or a dead letter, unless its protocol has records without events."""

from __future__ import annotations

from typing import Any

import pytest

from tests.examples import by_turns
from tests.protocols.conformance.cases import Case, History, cases, decode, histories, own


def is_silent(case: Case | History, record: dict[str, Any]) -> bool:
    """Whether the record may have no event: `silent` in the protocol's `silent.py`; see the protocol's README."""
    module = own(case.protocol, "silent")
    return module is not None and bool(module.silent(record))


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.parametrize("case", by_turns([*cases(), *histories()], 2), ids=str)
def test_no_record_vanishes(case: Case | History) -> None:
    changes, records = decode(case), case.records.to_pylist()
    covered = {row for table in changes.tables for row in table.rows.column("record").to_pylist()}
    covered |= {event.place.record for event in (*changes.control, *changes.dead)}
    assert [row for row, record in enumerate(records) if row not in covered and not is_silent(case, record)] == []
