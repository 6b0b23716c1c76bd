"""The kernel writes what the encoder writes: the same records or the same refusal, for changes of any protocol."""

from __future__ import annotations

from decimal import Decimal
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from changefeed.codec import decoding
from changefeed.codec.encoding import KernelEncoder, encoder
from changefeed.errors import ChangefeedError, ConfigError
from changefeed.model.batch import BatchBuilder, Decoded
from changefeed.model.position import Place
from changefeed.model.table import Column, TableShape
from changefeed.model.types import NAMES, ColumnType
from changefeed.protocols import PROTOCOLS, protocol
from changefeed.protocols.base import Stores
from changefeed.protocols.by_columns import ColumnEncoder
from tests.examples import by_turns, large_examples
from tests.model.strategies import column_types, decoded, values
from tests.protocols.conformance.cases import Case, History, cases, decode, histories, stores
from tests.protocols.conformance.typed import one_update

if not hasattr(decoding.changefeed_kernel, "Templates"):
    pytest.skip("the kernel is not installed, or is an older one", allow_module_level=True)

RULES = [{"matcher": ["*.t*", "shop.o*"], "partition": "index-value"}, {"matcher": ["shop.*"], "partition": "ts"}]
# Options with which each protocol is written.
WAYS: dict[str, list[dict[str, Any]]] = {
    "ticdc-open": [
        {},
        {"profile": "classic"},
        {"profile": "classic", "time-zone": "+08:00", "delete-only-output-handle-key-columns": True},
        {"output-old-value": False, "max-batch-size": 3, "max-message-bytes": 1500, "topic": "to_{schema}_{table}"},
        {"time-zone": "Asia/Shanghai", "only-output-updated-columns": True, "max-batch-size": 1},
        {"large-message-handle-option": "handle-key-only", "max-message-bytes": 300},
        {"large-message-handle-compression": "lz4"},
        {"partition-num": 3, "partition": "index-value"},
        {"partition-num": 3, "profile": "classic", "topic": "{table}", "dispatchers": RULES},
    ],
    "debezium-mysql": [
        {},
        {"schemas.enable": False, "tombstones.on.delete": False, "topic.prefix": "a.b", "skipped.operations": "u"},
        {"debezium-version": "2.3", "time.precision.mode": "connect", "decimal.handling.mode": "double"},
        {"time.precision.mode": "nanoseconds", "bigint.unsigned.handling.mode": "precise", "connector": "mariadb"},
        {"time.precision.mode": "isostring", "decimal.handling.mode": "string", "binary.handling.mode": "base64"},
        {"include.query": True, "provide.transaction.metadata": True, "replace-null-with-default": True},
        {"bug-compat": True, "decimal.format": "NUMERIC", "key.converter.schemas.enable": False},
    ],
    "ticdc-debezium": [
        {},
        {"debezium-disable-schema": True, "output-old-value": False},
        {"profile": "classic", "enable-tidb-extension": True, "topic": "{schema}", "null-with-default": "null"},
        {"debezium-include-start-ts": True, "cluster-id": 'a"b', "partition-num": 2},
        {"partition-num": 3, "partition": "columns", "columns": "v", "dispatchers": RULES},
        {"large-message-handle-compression": "lz4"},
    ],
}
TARGETS = [
    pytest.param(name, options, id=f"{name}-{n}") for name, listed in WAYS.items() for n, options in enumerate(listed)
]
MORE = large_examples(20)


def written(name: str, options: dict[str, Any], changes: list[Decoded], way: Any) -> tuple[list[Any], int]:
    """The records, with the refusal at their end if any; and the number of rows that the encoder wrote without the kernel."""
    chosen = protocol(name).read_options(options)
    writer, outcome = encoder(name, chosen, stores(chosen), kernel=way), []
    if isinstance(writer, KernelEncoder):
        writer.min_rows = 1
    try:
        outcome += [writer.encode(part) for part in changes]
    except ChangefeedError as error:
        outcome.append(f"{type(error).__name__}: {error}")
    return outcome, writer.unmatched if isinstance(writer, KernelEncoder) else sum(
        len(t) for part in changes for t in part.tables
    )


def agreed(name: str, options: dict[str, Any], *changes: Decoded) -> int:
    """Compares encoder and kernel; returns the number of rows that the kernel left to the encoder."""
    expected, _ = written(name, options, list(changes), "off")
    actual, unmatched = written(name, options, list(changes), "on")
    assert len(actual) == len(expected)
    for mine, theirs in zip(actual, expected, strict=True):
        if isinstance(mine, pa.RecordBatch) and isinstance(theirs, pa.RecordBatch):
            mine.validate(full=True)
            assert mine.schema == theirs.schema
            assert mine.equals(theirs) or mine.to_pylist() == theirs.to_pylist()
        else:
            assert mine == theirs
    return unmatched


def test_every_protocol_that_the_kernel_can_write_is_compared() -> None:
    schemas = Stores(get_schema=lambda number: "", register_schema=lambda subject, text: 1)
    able = {n for n in PROTOCOLS if isinstance(protocol(n).encoder(protocol(n).options(), schemas), ColumnEncoder)}
    assert able == WAYS.keys()


def test_a_protocol_that_the_kernel_does_not_write_is_refused_when_asked_for() -> None:
    with pytest.raises(ConfigError, match="the kernel does not write tencent-dts"):
        encoder("tencent-dts", kernel="on")
    assert not isinstance(encoder("tencent-dts"), KernelEncoder)


@pytest.mark.parametrize("case", [c for c in cases() if c.protocol in WAYS], ids=str)
def test_a_vector_is_written_alike(case: Case) -> None:
    agreed(case.protocol, case.options, decode(case))


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.parametrize("name, options", by_turns(TARGETS, 2))
@pytest.mark.parametrize("source", PROTOCOLS)
def test_vectors_of_other_protocols_are_written_alike(name: str, options: dict[str, Any], source: str) -> None:
    for case in cases():
        if case.protocol == source:
            agreed(name, options, decode(case))


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.parametrize("history", by_turns((h for h in histories() if h.protocol in WAYS), 2), ids=str)
def test_a_history_is_written_alike(history: History) -> None:
    parts = [history.records.slice(at, 700) for at in range(0, len(history.records), 700)]
    changes = [decode(history, part) for part in parts]
    rows, unmatched = (
        sum(len(t) for c in changes for t in c.tables),
        agreed(history.protocol, history.options, *changes),
    )
    assert unmatched < 0.1 * rows or rows < 1000


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.parametrize("name, options", by_turns(TARGETS, 3, first=1))
@pytest.mark.parametrize("history", [h for h in histories() if h.file.startswith("shop/")], ids=str)
def test_histories_of_other_protocols_are_written_alike(name: str, options: dict[str, Any], history: History) -> None:
    agreed(name, options, _first_of(history.file))


@cache
def _first_of(file: str) -> Decoded:
    history = next(h for h in histories() if h.file == file)
    return decode(history, history.records.slice(0, 200))


@pytest.mark.parametrize("target, options", TARGETS)
@MORE
@given(data=st.data())
def test_values_of_every_type_are_written_alike(target: str, options: dict[str, Any], data: st.DataObject) -> None:
    full = data.draw(st.sampled_from(sorted(NAMES)).flatmap(column_types))
    agreed(target, options, one_update(full, data.draw(st.none() | values(full)), data.draw(st.none() | values(full))))


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.parametrize("name, options", TARGETS)
@MORE
@given(changes=decoded())
def test_any_changes_are_written_alike(name: str, options: dict[str, Any], changes: Decoded) -> None:
    for part in (changes, *(Decoded([table]) for table in changes.tables), Decoded(control=changes.control)):
        agreed(name, options, part)


@pytest.mark.parametrize("name, options", TARGETS)
@pytest.mark.parametrize("key", [".", ".a", "[0]", "a.b", "a[0]"])
def test_key_columns_may_have_the_name_of_a_path(name: str, options: dict[str, Any], key: str) -> None:
    columns = (Column(key, ColumnType("bigint"), False, True), Column("v", ColumnType("int"), True, False))
    rows, ts = BatchBuilder(), 463267587983154927
    before, after = {key: 1, "v": 1}, {key: 1, "v": 2}
    rows.add(TableShape("shop", "t", columns), Place("shop", 0, 7), "update", before=before, after=after, commit_ts=ts)
    agreed(name, options, Decoded(rows.build()))


# A plain value of each type that a protocol writes, and whether the kernel has a form for it.
PLAIN: dict[str, Any] = {
    "tinyint": -1,
    "smallint unsigned": 7,
    "mediumint": 3,
    "int": 5,
    "bigint unsigned": 2**64 - 1,
    "year": 2026,
    "bit(1)": 1,
    "bit(10)": 257,
    "float": 1.5,
    "double": 0.1,
    "decimal(12,2)": Decimal("0.05"),
    "decimal(60,30)": Decimal("-1.5" + "0" * 29),
    "decimal": "12.50",
    "date": 20_000,
    "datetime": 1_767_225_600_000_000,
    "datetime(6)": 1_767_225_600_123_456,
    "timestamp(3)": 1_767_225_600_123_000,
    "time(3)": "-01:02:03.500",
    "char(3)": "é<",
    "text": 'a"\n\u2028🐟',
    "binary(3)": b"\x00\xff\xc2\xa0",
    "blob": b"\xff",
    "json": '{"a": 1}',
    "enum('a','b')": "b",
    "set('a','b')": "a,b",
    "vector": [1.0, 2.5],
    "boolean": True,
}


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("text", PLAIN)
def test_the_kernel_has_a_form_for_every_type_but_geometries(name: str, text: str) -> None:
    assert agreed(name, {}, one_update(ColumnType.parse(text), PLAIN[text], None)) == 0


def test_a_table_of_a_few_rows_is_written_by_the_encoder() -> None:
    speaks = encoder("ticdc-open", kernel="on")
    changes = one_update(ColumnType("int"), 1, 2)
    assert speaks.encode(changes).equals(encoder("ticdc-open", kernel="off").encode(changes))
    assert isinstance(speaks, KernelEncoder)
    assert (speaks.unmatched, speaks.min_rows) == (1, 10)


@pytest.mark.parametrize("installed", [None, object()], ids=["none", "an old one"])
def test_without_the_kernel_the_encoder_writes_alone(monkeypatch: pytest.MonkeyPatch, installed: object) -> None:
    monkeypatch.setattr(decoding, "changefeed_kernel", installed)
    assert not isinstance(encoder("ticdc-open"), KernelEncoder)
    with pytest.raises(ConfigError, match="the kernel is not installed"):
        encoder("ticdc-open", kernel="on")
