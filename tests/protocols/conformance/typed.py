"""Values of each type, and what encoders make of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from changefeed.errors import UnsupportedError
from changefeed.model.batch import BatchBuilder, Decoded
from changefeed.model.position import Place
from changefeed.model.table import Column, TableShape
from changefeed.model.types import ColumnType
from changefeed.model.values import IrregularError
from changefeed.protocols.base import Options, Protocol
from tests.examples import large_examples
from tests.protocols.conformance.cases import stores

MORE = large_examples(25)


def redefined(redefine: Callable[[Any], Any], value: Any) -> Any:
    """The value under its definition; None if the defined type cannot hold it."""
    try:
        return redefine(value)
    except IrregularError:
        return None


def written_or_refusal(chosen: Protocol, options: Options, changes: Decoded) -> pa.RecordBatch | str:
    """The records, or the message with which the encoder refuses them."""
    try:
        return chosen.encoder(options, stores(options)).encode(changes)
    except UnsupportedError as error:
        return str(error) or pytest.fail("an error without a message")


def fits(t: ColumnType, sent: tuple[Any, ...]) -> bool:
    """Whether an enum or a set with these members can have these values."""
    members = t.members or ()
    if t.name == "enum":
        return all(value is None or value in members for value in sent)
    plain = all(member and "," not in member for member in members)
    return plain and all(value is None or set(filter(None, value.split(","))) <= set(members) for value in sent)


def one_update(t: ColumnType, old: Any, new: Any) -> Decoded:
    columns = (Column("id", ColumnType("bigint"), False, True), Column("v", t, True, False))
    rows = BatchBuilder()
    rows.add(
        TableShape("shop", "t", columns),
        Place("shop", 0, 7),
        "update",
        before={"id": 1, "v": old},
        after={"id": 1, "v": new},
        commit_ts=463267587983154927,
        commit_time=463267587983154927 >> 18,
    )
    return Decoded(rows.build())
