"""Bombs of canal-json: JSON in every member, rows and columns without end, types, lines, compressed values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.protocols.conformance.bombs import CHARGES, MIB, Bomb, inflating

_ROW = (
    '{{"id":0,"database":"shop","table":"orders","pkNames":{keys},"isDdl":false,"type":"INSERT","es":1767225626357,'
    '"ts":1767225626357,"sql":"","sqlType":{{"id":4}},"mysqlType":{types},"old":null,"data":{data}}}'
)
_DDL = '{"id":0,"database":"shop","table":"t","isDdl":true,"type":"CREATE","es":1,"ts":1,"sql":"%s"}'


def _row(keys: str = '["id"]', types: str = '{"id":"int"}', data: str = '[{"id":"1"}]') -> str:
    return _ROW.format(keys=keys, types=types, data=data)


def _bomb(name: str, value: str, **more: Any) -> Bomb:
    return Bomb("canal-json", name, value.encode(), **more)


def bombs() -> Iterator[Bomb]:
    """The bombs of canal-json."""
    for name, charge in CHARGES.items():
        yield _bomb(f"a value of {name}", _row(data=f'[{{"id":{charge}}}]'))
        yield _bomb(f"a row of {name}", _row(data=f"[{charge}]"))
        yield _bomb(f"rows of {name}", _row(data=charge))
        yield _bomb(f"types of {name}", _row(types=charge))
        yield _bomb(f"keys of {name}", _row(keys=charge))
    columns = ",".join(f'"c{n}":"1"' for n in range(8_000))
    yield _bomb(
        "a row of many columns", _row(types="{" + columns.replace('"1"', '"int"') + "}", data=f"[{{{columns}}}]")
    )
    yield _bomb("a number of a million digits", _row(data='[{"id":"' + "9" * MIB + '"}]'))
    yield _bomb("a double of a million digits", _row(types='{"id":"double"}', data='[{"id":"' + "9" * MIB + '"}]'))
    yield _bomb("a decimal of a large exponent", _row(types='{"id":"decimal"}', data='[{"id":"1e999999999"}]'))
    yield _bomb("a long vector", _row(types='{"id":"vector"}', data='[{"id":"[' + "1," * 200_000 + '1]"}]'))
    yield _bomb("a deep vector", _row(types='{"id":"vector"}', data='[{"id":"' + "[" * 200_000 + '"}]'))
    yield _bomb("an enum of quotes", _row(types='{"id":"enum(' + "'" * MIB + ')"}'))
    yield _bomb("a type of brackets", _row(types='{"id":"int' + "(" * MIB + '"}'))
    yield _bomb("a type of digits", _row(types='{"id":"decimal(' + "9" * MIB + ')"}'))
    yield _bomb("many bad lines", _row() + "\n" + "{}\n" * 200_000)
    yield _bomb("many empty lines", "\n" * MIB)
    yield _bomb("a statement of brackets", _DDL % ("(" * 100_000), harmless=True)
    yield _bomb("a statement of columns", _DDL % ("CREATE TABLE t (" + "a int," * 100_000), harmless=True)
    for kind in ("snappy", "lz4"):
        options = {"large-message-handle-compression": kind, "max-inflated-bytes": MIB}
        yield Bomb("canal-json", f"{kind} of zeros", inflating(kind, 64 * MIB), options=options)
