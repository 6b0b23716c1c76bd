"""The keys that protocols declare to carry, and the losses between two protocols, compared with real events."""

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
from tests.protocols.conformance.carried import Trip, foreign, made, part, there, unusual_name
from tests.protocols.conformance.cases import History, all_protocols, histories

SHOP = [history for history in histories() if history.file.startswith("shop/")]
HISTORIES = list({history.protocol: history for history in SHOP}.values())  # the last one of each protocol
# Encoders may refuse a row that lacks something they require; that is not a silent loss.
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
    for p in all_protocols()
    for variant in ({}, *p.variants)
]


def witnesses() -> Iterator[tuple[frozenset[str], tuple[str, ...]]]:
    """Events of all protocols, each with the keys that it can prove."""
    for history in HISTORIES:
        known = protocol(history.protocol)
        claimed = claims(known, history)
        for event in part(history):
            yield claimed, tuple(map(foreign, event))
    for event in made():
        yield frozenset(KEYS), event
    yield frozenset({"names"}), unusual_name()


def claims(known: Protocol, history: History) -> frozenset[str]:
    """The keys that the events of a history have according to its protocol."""
    can = known.capabilities_of(known.read_options(history.options))
    return can.carries | can.provides


def travelled(
    trip: Trip, events: Iterable[tuple[frozenset[str], tuple[str, ...]]], requires: Mapping[str, str]
) -> tuple[set[str], set[str]]:
    """The keys that occurred, and those of them that did not come through with every event.

    A key that `requires` another one is compared if an event has that one too.
    """
    seen, lost = set[str](), set[str]()
    for claimed, event in events:
        before = there(text.parse(event))
        keys = {key for key in claimed & before.keys() if requires.get(key, key) in before}
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


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.parametrize("chosen, variant", VARIANTS)
def test_exactly_the_declared_keys_come_through(chosen: Protocol, variant: Mapping[str, str]) -> None:
    trip = Trip(chosen, dict(variant))
    seen, lost = travelled(trip, witnesses(), chosen.capabilities.requires)
    assert sorted(seen) == sorted(KEYS), "a key without a witness is not proven"
    assert sorted(seen - lost) == sorted(chosen.capabilities_of(trip.options).carries)


@pytest.mark.parametrize("chosen", [pytest.param(p, id=p.name) for p in all_protocols()])
def test_the_declared_maximum_is_what_all_options_carry_together(chosen: Protocol) -> None:
    sets = [chosen.capabilities_of(chosen.read_options(variant)).carries for variant in ({}, *chosen.variants)]
    assert chosen.capabilities.carries == frozenset().union(*sets)
    assert set(chosen.capabilities.carries) <= set(KEYS)


def pairs() -> Iterator[Any]:
    for history in HISTORIES:
        for name in PROTOCOLS:
            for variant in ({}, *protocol(name).variants):
                label = " ".join([name, *(f"{k}={v}" for k, v in variant.items())])
                if name != history.protocol:
                    yield pytest.param(history, protocol(name), variant, id=f"{history} to {label}")


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.parametrize("history, target, variant", list(pairs()))
def test_a_history_loses_exactly_the_declared_keys(
    history: History, target: Protocol, variant: Mapping[str, str]
) -> None:
    source = protocol(history.protocol)
    options = source.read_options(history.options)
    trip = Trip(target, dict(variant))
    claimed = claims(source, history)
    seen, lost = travelled(trip, ((claimed, event) for event in part(history)), {})
    assert sorted(lost) == sorted(seen & set(loss(source, options, target, trip.options).keys))
