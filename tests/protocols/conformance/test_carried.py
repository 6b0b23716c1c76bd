"""What protocols say that they carry, and what is lost between two of them, held against real events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pytest

from changefeed.errors import UnsupportedError
from changefeed.model import text
from changefeed.model.keys import KEYS
from changefeed.protocols import PROTOCOLS, protocol
from changefeed.protocols.base import Protocol
from changefeed.protocols.loss import loss
from tests.protocols.conformance.carried import Trip, foreign, made, odd, part, there
from tests.protocols.conformance.cases import History, histories, spoken

SHOP = [history for history in histories() if history.file.startswith("shop/")]
HISTORIES = list({history.protocol: history for history in SHOP}.values())  # the last one of each protocol
# Encoders may refuse a row that lacks what they cannot do without; that is no silent loss.
REFUSALS = (
    "needs a commit_ts or a commit time",
    "needs a commit time",
    "its members are not known",
    "has no statement",
    "of type null",
    "cannot carry a column of type",
)
VARIANTS = [
    pytest.param(p, variant, id=" ".join([p.name, *(f"{k}={v}" for k, v in variant.items())]))
    for p in spoken()
    for variant in ({}, *p.variants)
]


def witnesses() -> Iterator[tuple[frozenset[str], tuple[str, ...]]]:
    """Events from everywhere, each with the keys that it can prove."""
    for history in HISTORIES:
        known = protocol(history.protocol)
        claimed = claims(known, history)
        for event in part(history):
            yield claimed, tuple(map(foreign, event))
    for event in made():
        yield frozenset(KEYS), event
    yield frozenset({"names"}), odd()


def claims(known: Protocol, history: History) -> frozenset[str]:
    """What the events of a history have, as its protocol says."""
    can = known.capabilities_of(known.read_options(history.options))
    return can.carries | can.provides


def travelled(
    trip: Trip, events: Iterable[tuple[frozenset[str], tuple[str, ...]]], rests: Mapping[str, str]
) -> tuple[set[str], set[str]]:
    """The keys that were there, and those of them that did not come through with every event.

    A key that `rests` on another one is looked at where an event has that one too.
    """
    seen, lost = set[str](), set[str]()
    for claimed, event in events:
        before = there(text.parse(event))
        keys = {key for key in claimed & before.keys() if rests.get(key, key) in before}
        keys -= {"order"} if "" in before.get("order", ()) else set()
        try:
            after = there(trip(event))
        except UnsupportedError as error:
            if "irregular" not in before and not any(words in str(error) for words in REFUSALS):
                raise
            seen, lost = seen | (keys & {"irregular"}), lost | (keys & {"irregular"})
            continue
        seen |= keys
        lost |= {key for key in keys if not survives(key, before[key], after.get(key, set()))}
    return seen, lost


def survives(key: str, before: set[str], after: set[str]) -> bool:
    return "" not in after and bool(after) if key == "order" else before <= after


@pytest.mark.parametrize("spoken, variant", VARIANTS)
def test_exactly_what_is_claimed_comes_through(spoken: Protocol, variant: Mapping[str, str]) -> None:
    trip = Trip(spoken, dict(variant))
    seen, lost = travelled(trip, witnesses(), spoken.capabilities.requires)
    assert sorted(seen) == sorted(KEYS), "a key without a witness is not proven"
    assert sorted(seen - lost) == sorted(spoken.capabilities_of(trip.options).carries)


@pytest.mark.parametrize("spoken", [pytest.param(p, id=p.name) for p in spoken()])
def test_at_most_is_what_all_options_carry_together(spoken: Protocol) -> None:
    sets = [spoken.capabilities_of(spoken.read_options(variant)).carries for variant in ({}, *spoken.variants)]
    assert spoken.capabilities.carries == frozenset().union(*sets)
    assert set(spoken.capabilities.carries) <= set(KEYS)


def pairs() -> Iterator[Any]:
    for history in HISTORIES:
        for name in PROTOCOLS:
            for variant in ({}, *protocol(name).variants):
                said = " ".join([name, *(f"{k}={v}" for k, v in variant.items())])
                if name != history.protocol:
                    yield pytest.param(history, protocol(name), variant, id=f"{history} to {said}")


@pytest.mark.parametrize("history, target, variant", list(pairs()))
def test_a_history_loses_exactly_what_the_table_says(
    history: History, target: Protocol, variant: Mapping[str, str]
) -> None:
    source = protocol(history.protocol)
    options = source.read_options(history.options)
    trip = Trip(target, dict(variant))
    claimed = claims(source, history)
    seen, lost = travelled(trip, ((claimed, event) for event in part(history)), {})
    assert sorted(lost) == sorted(seen & set(loss(source, options, target, trip.options).keys))
