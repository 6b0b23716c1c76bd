"""Generated changes of all types: written and read again they are the same, as far as the protocol carries them."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changefeed.columnar.events import Row, in_order
from changefeed.model.batch import Decoded
from changefeed.model.types import INTEGERS, NAMES, ColumnType
from changefeed.model.values import writer
from changefeed.protocols import protocol
from changefeed.protocols.base import Protocol
from tests.examples import by_turns, large_examples
from tests.model.strategies import column_types, decoded, values
from tests.protocols.conformance.cases import all_protocols, bytes_of, histories, own, stores
from tests.protocols.conformance.typed import MORE, fits, one_update, redefined, written_or_refusal

# Each protocol with its defaults, and with each set of options that a history was recorded with, without regard to schemas:
# in CI hypothesis nests a function's settings once for each of its tests, and a thousand levels are too deep.
WITH_OPTIONS = [pytest.param(p, {}, id=f"{p.name}-defaults") for p in all_protocols()]
_RECORDED = {(h.protocol, *sorted((h.options | {"schema-registry": ""}).items())): h for h in histories() if h.options}
WITH_OPTIONS += [pytest.param(protocol(h.protocol), h.options, id=str(h)) for h in _RECORDED.values()]
DEFAULTS, OTHERS = WITH_OPTIONS[: len(all_protocols())], WITH_OPTIONS[len(all_protocols()) :]
SOME = large_examples(8)  # of options that change few of the types


def as_far_as_declared(value: Any, full: ColumnType, declared: ColumnType) -> Any:
    """The canonical value of a column, reduced to what the type that a protocol declares can hold."""
    if value is None:
        return None
    if full.members is not None and declared.members is None:
        if full.name == "enum":
            return {"index": full.members.index(value) + 1 if value in full.members else 0}
        return {"bits": sum(1 << full.members.index(member) for member in set(value.split(",")) if member)}
    if full.name == "boolean" and declared.name in INTEGERS:
        return int(value)
    if full.name == "decimal" and isinstance(value, Decimal):
        return format(value, "f")
    if full.unsigned and not declared.unsigned and full.name == declared.name == "bigint":
        return value - 2**64 if value >= 2**63 else value  # it wraps where the protocol has 64 bits and a sign
    if full.name == declared.name and full.name in ("time", "datetime") and declared.length:
        shown = writer(full)(value)
        clock, _, fraction = shown.partition(".")  # a protocol without declared digits writes as many as the value has
        return f"{clock}.{fraction.ljust(declared.length, '0')}"
    return writer(full)(value)


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.parametrize("chosen, given_options", DEFAULTS)
@pytest.mark.parametrize("name", sorted(NAMES))
@MORE
@given(st.data())
def test_values_of_every_type_come_back(
    chosen: Protocol, given_options: dict[str, Any], name: str, data: st.DataObject
) -> None:
    check_comes_back(chosen, given_options, name, data)


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.parametrize("chosen, given_options", OTHERS)
@pytest.mark.parametrize("name", by_turns(sorted(NAMES), 3))
@SOME
@given(st.data())
def test_values_of_every_type_come_back_with_options(
    chosen: Protocol, given_options: dict[str, Any], name: str, data: st.DataObject
) -> None:
    check_comes_back(chosen, given_options, name, data)


def check_comes_back(chosen: Protocol, given_options: dict[str, Any], name: str, data: st.DataObject) -> None:
    """Draws an update of a column of this type, writes and reads it, and writes it again."""
    full = data.draw(column_types(name))
    old, new = data.draw(st.none() | values(full)), data.draw(st.none() | values(full))
    if full.members is not None and not fits(full, (old, new)):
        old = new = None
    changes = one_update(full, old, new)
    options = chosen.read_options(given_options)
    written = written_or_refusal(chosen, options, changes)
    if isinstance(written, str):
        assert written.startswith(chosen.name)
        return
    decoded = chosen.decoder(options, stores(options)).decode(written)
    assert [letter.error for letter in decoded.dead] == []
    (row,) = in_order(decoded)
    assert isinstance(row, Row)
    carries = chosen.capabilities_of(options).carries
    assert row.op == ("update" if "op.update" in carries else "upsert")
    for image, value, prefix in ((row.before, old, "before."), (row.after, new, "")):
        if prefix and "before" not in carries:
            continue
        assert image is not None
        declared = row.shape.by_name["v"].type
        if chosen.redefine is not None:
            kept = None if image["v"] is None else redefined(chosen.redefine(options)(declared, full), image["v"])
            assert writer_or_none(full, kept) == arriving(chosen)(full, value, given_options)
        elif prefix + "v" not in row.irregular:
            assert writer_or_none(declared, image["v"]) == as_far_as_declared(value, full, declared)
        else:
            assert row.irregular[prefix + "v"].decode() == as_far_as_declared(value, full, declared)
    assert bytes_of(chosen.encoder(options, stores(options)).encode(decoded)) == bytes_of(written)


def arriving(chosen: Protocol) -> Callable[[ColumnType, Any, dict[str, Any]], Any]:
    """(type, ready value, options) -> the canonical value that arrives: `tests/protocols/<name>/arriving.py`."""
    module = own(chosen.name, "arriving")
    assert module is not None
    function: Callable[[ColumnType, Any, dict[str, Any]], Any] = module.arriving
    return function


def writer_or_none(t: ColumnType, value: Any) -> Any:
    return None if value is None else writer(t)(value)


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.parametrize("chosen, given_options", WITH_OPTIONS)
@MORE
@given(changes=decoded())
def test_any_changes_are_written_or_refused_in_words(
    chosen: Protocol, given_options: dict[str, Any], changes: Decoded
) -> None:
    options = chosen.read_options(given_options)
    for part in (*(Decoded([table]) for table in changes.tables), *(Decoded(control=[c]) for c in changes.control)):
        written = written_or_refusal(chosen, options, part)
        if not isinstance(written, str):
            read_changes = chosen.decoder(options, stores(options)).decode(written)
            again = chosen.encoder(options, stores(options)).encode(read_changes)
            assert read_changes.dead or bytes_of(again) == bytes_of(written)


def test_the_comparison_of_types_sees_a_difference() -> None:
    assert as_far_as_declared(1.5, ColumnType("float"), ColumnType("float")) == 1.5
    assert as_far_as_declared(math.inf, ColumnType("double"), ColumnType("double")) == "Infinity"
    assert as_far_as_declared("b", ColumnType("enum", members=("a", "b")), ColumnType("enum")) == {"index": 2}
