"""Bytes to events and back: every vector and every record of every history."""

from __future__ import annotations

import hashlib
import json
from collections import Counter

import pytest

from changefeed.model import change, text
from tests.examples import by_turns
from tests.protocols.conformance.cases import (
    Case,
    History,
    bytes_of,
    cases,
    compiled,
    decode,
    decode_in_parts,
    encode,
    events_of,
    histories,
    lines,
)

CASES = list(cases())
HISTORIES = list(histories())
ENCODED = [case for case in CASES if case.encodes]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_vector_decodes_to_its_events(case: Case) -> None:
    assert events_of(case) == list(case.events)


@pytest.mark.parametrize("case", ENCODED, ids=str)
def test_vector_is_written_as_it_was_read(case: Case) -> None:
    assert encode(case, [decode(case)]) == bytes_of(case.records)


@pytest.mark.parametrize("case", by_turns(ENCODED, 2), ids=str)
def test_vector_is_written_from_its_canonical_text(case: Case) -> None:
    assert encode(case, list(text.parse(case.events))) == bytes_of(case.records)


@pytest.mark.parametrize("case", by_turns(ENCODED, 2, first=1), ids=str)
def test_vector_is_written_from_its_events_as_python_values(case: Case) -> None:
    assert encode(case, list(change.decoded(change.events(decode(case))))) == bytes_of(case.records)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_kernel_reads_the_vector_as_the_reference_does(case: Case) -> None:
    twin = compiled(case)
    assert lines(twin.decode(case.records)) == list(case.events)


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.parametrize("history", HISTORIES, ids=str)
def test_history_decodes_to_its_events(history: History) -> None:
    events = events_of(history)
    assert Counter(json.loads(event)["kind"] for event in events) == history.events
    assert hashlib.sha256("".join(event + "\n" for event in events).encode()).hexdigest() == history.sha256


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.parametrize("history", HISTORIES, ids=str)
def test_history_is_written_as_it_was_read(history: History) -> None:
    assert encode(history, [decode(history)]) == bytes_of(history.records)


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.parametrize("history", by_turns(HISTORIES, 3), ids=str)
def test_history_is_written_from_its_canonical_text(history: History) -> None:
    assert encode(history, list(text.parse(events_of(history)))) == bytes_of(history.records)


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.parametrize("history", by_turns(HISTORIES, 3, first=1), ids=str)
def test_history_is_written_from_its_events_as_python_values(history: History) -> None:
    assert encode(history, list(change.decoded(change.events(decode(history))))) == bytes_of(history.records)


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.parametrize("history", by_turns(HISTORIES, 3, first=2), ids=str)
def test_history_in_small_batches_is_the_same_bytes(history: History) -> None:
    assert encode(history, decode_in_parts(history, 100)) == bytes_of(history.records)


@pytest.mark.heavy
@pytest.mark.parametrize("history", HISTORIES, ids=str)
def test_kernel_reads_the_history_as_the_reference_does(history: History) -> None:
    twin = compiled(history)
    assert lines(twin.decode(history.records)) == events_of(history)
