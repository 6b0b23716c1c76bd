"""The net under decoders: what is raised for one record is a dead letter of it, and the others are decoded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from changefeed.codec import decoding
from changefeed.codec.kernel_decoder import KernelDecoder
from changefeed.errors import ConfigError, SchemaRegistryError
from changefeed.model.batch import Decoded, record_batch
from changefeed.protocols.base import FragmentDecoder
from changefeed.protocols.debezium_mysql import decoder as debezium
from changefeed.protocols.tencent_dts import decoder as dts
from changefeed.protocols.tencent_dts import envelope
from tests.kernel.agreement import made
from tests.kernel.examples import DEBEZIUM
from tests.protocols.tencent_dts.records import data_of, dml, number, split

ROW = b'{"before":null,"after":{"id":%b},"source":{"db":"d","table":"t"},"op":"c"}'
MODES = ("off", "on")
ID = ("id", "int", True)


class PanicException(BaseException):
    """The class of Rust's panics in the kernel."""


def rows_of(decoded: Decoded) -> list[int]:
    """The records that made rows."""
    return sorted(row for table in decoded.tables for row in table.rows.column("record").to_pylist())


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """Makes the reference of debezium-mysql raise for rows whose id is a string."""
    errors: list[BaseException] = [KeyError("source")]
    real = debezium.Decoder._record

    def record(self: Any, place: Any, key: Any, value: bytes, *more: Any) -> None:
        if b'"id":"' in value:
            raise errors[0]
        real(self, place, key, value, *more)

    monkeypatch.setattr(debezium.Decoder, "_record", record)
    return errors


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("error", [KeyError("source"), RecursionError("deep")])
def test_a_record_that_raises_is_a_dead_letter_and_the_others_are_decoded(
    mode: Any, error: BaseException, broken: list[BaseException]
) -> None:
    broken[0] = error
    decoder = decoding.decoder("debezium-mysql", kernel=mode)
    ids = (b"1", b'"x"', b"2", b"null", b'"y"', b"3")
    for _ in range(2):
        changes = decoder.decode(made([(b'{"id":1}', ROW % text) for text in ids]))
        assert rows_of(changes) == [0, 2, 3, 5]
        assert [letter.place.record for letter in changes.dead] == [1, 4]
        letter = changes.dead[0]
        assert (letter.reason, letter.value, letter.key) == ("defect", ROW % b'"x"', b'{"id":1}')
        assert letter.error.startswith(
            f"debezium-mysql: {type(error).__name__}: {error} (t:1:1). This is a defect of changefeed"
        )
        assert "changefeed dlq show" in letter.error
        assert "in record\n    raise errors[0]" in letter.error
        assert [(len(table), str(table.shape.columns[0].type)) for table in changes.tables] == [(4, "bigint")]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "error",
    [
        SchemaRegistryError("no answer", transient=True),
        ConfigError("x"),
        MemoryError(),
        KeyboardInterrupt(),
        OSError(5),
    ],
)
def test_exceptions_that_end_the_process_are_not_caught(
    mode: Any, error: BaseException, broken: list[BaseException]
) -> None:
    broken[0] = error
    with pytest.raises(type(error)):
        decoding.decoder("debezium-mysql", kernel=mode).decode(made([(None, ROW % b'"x"')]))


@pytest.mark.parametrize("error", [PanicException("index out of bounds"), RuntimeError("kernel: offsets")])
def test_where_the_kernel_fails_the_reference_decodes(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    pair = decoding.decoder("debezium-mysql", kernel="on")
    assert isinstance(pair, KernelDecoder)
    made_kernel, fails = pair._make, [True]

    class Failing:
        def __init__(self) -> None:
            self._real = made_kernel()

        def register(self, shape: str) -> int | None:
            return self._real.register(shape)

        def decode(self, *columns: Any, **more: Any) -> Any:
            if fails:
                raise error
            return self._real.decode(*columns, **more)

    monkeypatch.setattr(pair, "_make", Failing)
    pair.forget()
    records = made([(b'{"id":1}', DEBEZIUM % (b'{"id":1,"n":%b}' % text)) for text in (b"1", b"null", b"2")] * 5)
    expected = decoding.decoder("debezium-mysql", kernel="off").decode(records)
    for _ in range(2):
        changes = pair.decode(records)
        assert not changes.dead
        assert [table.rows.to_pylist() for table in changes.tables] == [t.rows.to_pylist() for t in expected.tables]
        fails.clear()  # then its shapes are registered again
    assert pair.unmatched == 2  # the first record, each time


@pytest.mark.parametrize("mode", MODES)
def test_a_tombstone_is_still_that_of_the_delete_before_it(mode: Any, broken: list[BaseException]) -> None:
    options = {"unwrap": "true", "tombstones.on.delete": "false"}
    decoder = decoding.decoder("debezium-mysql", options)
    key, delete = b'{"id":1}', b'{"id":1,"__deleted":"true","__db":"d","__table":"t"}'

    def batch(start: int, *values: bytes | None) -> pa.RecordBatch:
        places = enumerate(values, start)
        return record_batch(
            {"topic": "t", "partition": 0, "offset": at, "key": key, "value": value} for at, value in places
        )

    assert rows_of(decoder.decode(batch(0, delete))) == [0]
    changes = decoder.decode(batch(1, None, delete, None, b'{"id":"x"}'))
    assert rows_of(changes) == [1]
    assert [letter.reason for letter in changes.dead] == ["defect"]


@pytest.mark.parametrize("mode", MODES)
def test_incomplete_groups_wait_on_where_a_record_between_them_raises(
    mode: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = envelope.read_entry

    def read_entry(data: bytes, *span: int) -> Any:
        if b"poison" in data[span[0] : span[1]]:
            raise IndexError("poison")
        return real(data, *span)

    monkeypatch.setattr(dts, "read_entry", read_entry)
    one = data_of(dml([ID], *({"newColumns": [number(3, str(n))]} for n in range(30))))
    bad = data_of(dml([("poison", "int", True)], {"newColumns": [number(3, "1")]}))
    records = [*split(one, 60, 1, 1), *split(bad, 1000, 100, 100), *split(one, 60, 200, 101)]
    for at, record in enumerate(records):
        record["offset"] = at
    records = [r | {"headers": []} for r in records]
    decoder = decoding.decoder("tencent-dts", kernel=mode)
    assert isinstance(decoder, FragmentDecoder)
    middle = len(split(one, 60, 1, 1)) - 2
    first = decoder.decode(record_batch(records[:middle]))
    assert not first.tables
    assert len(decoder.waiting()) == middle
    changes = decoder.decode(record_batch(records[middle:]))
    assert [letter.reason for letter in changes.dead] == ["defect"]
    assert changes.dead[0].value == split(bad, 1000, 100, 100)[0]["value"]
    assert sum(map(len, changes.tables)) == 60
    assert len(decoder.waiting()) == 0


def test_the_letter_of_a_defect_is_one_of_its_record_alone(broken: list[BaseException]) -> None:
    def deep(depth: int) -> None:
        if depth:
            deep(depth - 1)
        raise ValueError("x" * 10_000)

    calls: list[Callable[[], None]] = [lambda: deep(50)]
    try:
        calls[0]()
    except ValueError as error:
        broken[0] = error
    changes = decoding.decoder("debezium-mysql").decode(made([(None, ROW % b'"x"')]))
    assert len(changes.dead[0].error) < 9000
