"""A thousand mutants of each protocol, new ones each run; `bench/agreement.py` makes them by the million."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from changefeed.codec import decoding
from changefeed.codec.decoding import kernel_of
from changefeed.codec.kernel_decoder import KernelDecoder
from changefeed.codec.record_groups import GroupKernelDecoder
from changefeed.codec.topics import TopicBatch
from changefeed.model.batch import Decoded, TableBatch
from changefeed.model.table import Column
from changefeed.protocols import PROTOCOLS
from changefeed.protocols import protocol as named
from changefeed.protocols.base import KernelTwin, Options
from tests.kernel.mutants import compare

pytestmark = pytest.mark.slow
WITH_KERNEL = sorted(name for name in PROTOCOLS if named(name).kernel is not None)
SEED = int(os.environ.get("CHANGEFEED_SEED") or secrets.randbelow(1 << 40))
RECORDS = int(os.environ.get("CHANGEFEED_MUTANTS", "1000"))
LARGE, PLANTED = 200, 2


@pytest.mark.heavy
@pytest.mark.parametrize("protocol", WITH_KERNEL)
def test_kernel_and_reference_agree_on_mutants(protocol: str) -> None:
    print(f"CHANGEFEED_SEED={SEED}")
    count = compare(protocol, SEED, RECORDS, LARGE)
    assert not count.different
    assert not count.raised
    assert count.rarest() > RECORDS // 100


# --- faults planted in the kernel: each must be found. They have a fixed seed, with which records reach the fault.


def _column(name: str, changed: Callable[[pa.Array], pa.Array]) -> Callable[[TableBatch], TableBatch]:
    def fault(table: TableBatch) -> TableBatch:
        at = table.rows.schema.get_field_index(name)
        column = changed(table.rows.column(at))
        field = table.rows.schema.field(at).with_type(column.type)
        return TableBatch(table.shape, table.rows.set_column(at, field, column))

    return fault


def _last_image(changed: Callable[[pa.Array], pa.Array]) -> Callable[[TableBatch], TableBatch]:
    """A fault in the last column of the rows after the change."""

    def struct(images: pa.Array) -> pa.Array:
        *columns, last = images.flatten()
        fields = [images.type.field(at) for at in range(images.type.num_fields)]
        last = changed(last)
        fields[-1] = fields[-1].with_type(last.type)
        return pa.StructArray.from_arrays([*columns, last], fields=fields, mask=images.is_null())

    return _column("after", struct)


def _nothing(values: pa.Array) -> pa.Array:
    return pa.nulls(len(values), values.type)


def _without_key(table: TableBatch) -> TableBatch:
    columns = tuple(Column(c.name, c.type, key=False) for c in table.shape.columns)
    return TableBatch(replace(table.shape, columns=columns), table.rows)


FAULTS: dict[str, Callable[[TableBatch], TableBatch]] = {
    "a value": _last_image(_nothing),
    "a type": _last_image(
        lambda values: values.cast(pa.large_string()) if values.type == pa.string() else pa.nulls(len(values))
    ),
    "an image": _column("after", _nothing),
    "an op": _column("op", lambda ops: pa.array(["read"] * len(ops), pa.string())),
    "a place": _column("index", lambda column: pa.array(range(len(column)), column.type)),
    "an ordering number": _column("commit_ts", lambda column: pa.array([7] * len(column), column.type)),
    "an origin": _column("origin", lambda column: pa.array(['{"a":1}'] * len(column), column.type)),
    "an irregular text": _column("irregular", lambda column: pa.array([[("id", b"x")]] * len(column), column.type)),
    "the key": _without_key,
    "the wire text": lambda table: TableBatch(replace(table.shape, wire=table.shape.wire + " "), table.rows),
    "a lost row": lambda table: table.slice(1, len(table) - 1) if len(table) > 1 else table,
    "the order of rows": lambda table: table.take(pa.array(range(len(table))[::-1])),
}


@pytest.mark.heavy
@pytest.mark.parametrize("fault", FAULTS)
def test_fault_of_the_kernel_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    decode = KernelDecoder._run_kernel

    def wrong(self: KernelDecoder, batch: TopicBatch, rows: pa.Int32Array | None, result: Decoded) -> pa.Int32Array:
        mine = Decoded([], [], [])
        unmatched = decode(self, batch, rows, mine)
        result.tables.extend(map(FAULTS[fault], mine.tables))
        return unmatched

    monkeypatch.setattr(KernelDecoder, "_run_kernel", wrong)
    count = compare("ticdc-open", PLANTED, 500, LARGE)
    assert count.different
    assert f"seed {PLANTED} round 0" in count.different[0]


@pytest.mark.heavy
@pytest.mark.parametrize(
    "fault",
    [
        lambda decoded: replace(decoded, dead=[replace(one, reason="other") for one in decoded.dead]),
        lambda decoded: replace(decoded, dead=[replace(one, error=one.error + ".") for one in decoded.dead]),
        lambda decoded: replace(decoded, dead=[replace(one, table=None) for one in decoded.dead]),
        lambda decoded: replace(decoded, dead=decoded.dead[1:]),
        lambda decoded: replace(decoded, control=[replace(one, origin={"a": 1}) for one in decoded.control]),
        lambda decoded: replace(decoded, control=decoded.control[1:]),
        lambda decoded: replace(decoded, tables=decoded.tables[::-1]),
    ],
    ids=["reason", "error", "table of a letter", "lost letter", "event", "lost event", "order of tables"],
)
def test_fault_around_the_kernel_is_found(fault: Callable[[Decoded], Decoded], monkeypatch: pytest.MonkeyPatch) -> None:
    decode = KernelDecoder._decode
    grouped = GroupKernelDecoder._decode
    monkeypatch.setattr(KernelDecoder, "_decode", lambda self, records: fault(decode(self, records)))
    monkeypatch.setattr(GroupKernelDecoder, "_decode", lambda self, records: fault(grouped(self, records)))
    differences = [compare(protocol, PLANTED, 500, LARGE).different for protocol in ("ticdc-open", "tencent-dts")]
    assert any(differences)


@pytest.mark.heavy
@pytest.mark.parametrize("protocol", WITH_KERNEL)
def test_record_that_the_kernel_must_not_take_is_found(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Blind:
        """A kernel that reads a 7 as a 1: in JSON the first 7 of the after image."""

        def __init__(self, kernel: Any) -> None:
            self._kernel = kernel

        def __getattr__(self, name: str) -> Any:
            return getattr(self._kernel, name)

        def decode(self, keys: pa.Array, values: pa.Array, *args: Any, **more: Any) -> Any:
            seen = [value and self._seen(value) for value in values.to_pylist()]
            return self._kernel.decode(keys, pa.array(seen, values.type), *args, **more)

        def _seen(self, value: bytes) -> bytes:
            before, mark, after = value.partition(b'"after"')
            return before + mark + after.replace(b"7", b"1", 1) if mark else value.replace(b"7", b"1")

    def blind(twin: KernelTwin, options: Options) -> Any:
        make = kernel_of(twin, options)
        return make and (lambda: Blind(make()))

    monkeypatch.setattr(decoding, "kernel_of", blind)
    assert compare(protocol, PLANTED, 2500, LARGE).different


def test_kernel_that_panics_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicException(BaseException):
        """Has the name of PyO3's class."""

    decode = KernelDecoder._run_kernel

    def panics(self: KernelDecoder, batch: TopicBatch, rows: pa.Int32Array | None, result: Decoded) -> pa.Int32Array:
        if any(value and len(value) % 7 == 0 for value in batch.records.column("value").to_pylist()):
            raise PanicException("index out of bounds")
        return decode(self, batch, rows, result)

    monkeypatch.setattr(KernelDecoder, "_run_kernel", panics)
    count = compare("ticdc-open", PLANTED, 500, LARGE)
    assert any("PanicException: index out of bounds" in why for why in count.raised)
    assert any("could not be decoded as a whole" in why for why in count.raised)
