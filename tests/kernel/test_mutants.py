"""A few thousand mutants of each protocol, new ones each run; `bench/agreement.py` makes them by the million."""

from __future__ import annotations

import math
import os
import secrets

import pytest

from changefeed.kernel import _KERNELS, decoder
from changefeed.model.batch import Decoded
from tests.kernel.agreement import made
from tests.kernel.mutants import compare, difference

SEED = int(os.environ.get("CHANGEFEED_SEED") or secrets.randbelow(1 << 40))
RECORDS = int(os.environ.get("CHANGEFEED_MUTANTS", "3000"))


@pytest.mark.parametrize("protocol", sorted(_KERNELS))
def test_kernel_and_reference_say_the_same_of_mutants(protocol: str) -> None:
    print(f"CHANGEFEED_SEED={SEED}")
    found = compare(protocol, SEED, RECORDS)
    assert not found.different
    assert not found.raised
    assert found.rows > RECORDS // 20
    assert found.dead > RECORDS // 20


def _decoded(*rows: tuple[bytes, bytes]) -> Decoded:
    return decoder("debezium-mysql", kernel="off").decode(made(rows))


@pytest.mark.parametrize(
    ("key", "image"),
    [
        (b'{"id":1}', b'{"id":1,"at":2.0}'),  # a value
        (b'{"id":1}', b'{"id":1,"at":"x"}'),  # a type
        (b'{"at":1.5}', b'{"id":1,"at":1.5}'),  # the key
        (b'{"id":1}', b'{"at":1.5,"id":1}'),  # the order of columns
        (b'{"id":1}', b'{"id":1,"at":"__debezium_unavailable_value"}'),  # which columns the image carries
        (b'{"id":1}', b'{"id":1,"at":null}'),
        (b'{"id":1}', b"[]"),  # a dead letter
    ],
)
def test_every_part_of_a_table_is_compared(key: bytes, image: bytes) -> None:
    value = b'{"before":null,"after":%b,"source":{"db":"d","table":"t"},"op":"c"}'
    one = _decoded((b'{"id":1}', value % b'{"id":1,"at":1.5}'))
    assert difference(one, one) is None
    assert difference(one, _decoded((key, value % image))) is not None


def test_nan_is_nan() -> None:
    assert math.isnan(float("nan"))
    block = b'{"type":"struct","fields":[%b,%b,{"type":"struct","fields":[%b,%b],"field":"source"},%b]}'
    row = b'{"type":"struct","fields":[{"type":"double","field":"v"}],"optional":true,"field":"%b"}'
    text = b'{"type":"string","field":"%b"}'
    schema = block % (row % b"before", row % b"after", text % b"db", text % b"table", text % b"op")
    payload = b'{"before":null,"after":{"v":"NaN"},"source":{"db":"d","table":"t"},"op":"c"}'
    record = (None, b'{"schema":%b,"payload":%b}' % (schema, payload))
    found = _decoded(record)  # type: ignore[arg-type]
    assert math.isnan(found.tables[0].rows.column("after")[0].as_py()["v"])
    assert difference(found, _decoded(record)) is None  # type: ignore[arg-type]
