r"""The message envelope: event key and value, without the columns.

    event key    {"ts":…,"scm":"shop","tbl":"items","rid":…,"ptn":…,"t":1,"ohk":true,"ccl":"…"}      classic
                 {"ts":…,"scm":"shop","tbl":"items","t":1,"ohk":true,"ccl":"…","ptn":…}              newarch
    row value    {"u":{…}}  {"u":{…},"p":{…}}  {"d":{…}}            u new row, p old row, d deleted row
    DDL value    {"q":"CREATE …","t":3}
    resolved     no value
    column       {"t":8,"h":true,"f":11,"v":137}                    type, handle key, flags, value

Rule 1. An unknown member is refused: to ignore a future member such as `ohk` or `ccl` would mean to misread a row.
Rule 2. A member that occurs twice is a contradiction, and refused. Producers write `ohk` twice, and members of Rule 3.
Rule 3. newarch with only-output-updated-columns writes an old value whose column is now NULL without the column's name,
        directly into `p`: `"p":{"t":3,"f":65,"v":-5}`. Such members are never columns: see `Nameless`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from changefeed.errors import ProtocolError, SchemaError
from changefeed.mysql.type_codes import MOST_COLUMNS
from changefeed.wire import strict_json
from changefeed.wire.go_json import JsonDialect
from changefeed.wire.json_form import at, integer, mapping, refuse_others, show, string, unicode_name
from changefeed.wire.strict_json import Number

ROW, DDL, RESOLVED = 1, 2, 3
_KEY_MEMBERS = {
    ROW: frozenset({"ts", "scm", "tbl", "rid", "ptn", "t", "ohk", "ccl"}),
    DDL: frozenset({"ts", "scm", "tbl", "t"}),
    RESOLVED: frozenset({"ts", "t"}),
}
_UINT64 = (0, 2**64 - 1)
_INT64 = (-(2**63), 2**63 - 1)
_COLUMN_MEMBERS = frozenset({"t", "h", "f", "v"})


@dataclass(frozen=True, slots=True)
class EventKey:
    """The event key; absent members are None, absent `scm` and `tbl` are empty."""

    ts: int
    kind: int
    schema: str = ""
    table: str = ""
    rid: int | None = None
    ptn: int | None = None
    ohk: bool = False
    ccl: str | None = None


# How a column is described: name and the members t, h, f as sent, None for an absent one.
Described = tuple[str, Number, bool | None, Number | None]


@dataclass(frozen=True, slots=True)
class Image:
    """One image of a row: the descriptions of its columns, and their values as JSON."""

    described: tuple[Described, ...]
    values: list[Any]


@dataclass(frozen=True, slots=True)
class Nameless:
    """An old value that was sent without its column's name."""

    t: Number
    h: bool | None
    f: Number | None
    value: Any


@dataclass(frozen=True, slots=True)
class RowValue:
    """A row message. `old`: the columns of `p` and the nameless values, in the order sent; None without `p`."""

    new: Image | None
    old: Image | None
    deleted: Image | None
    nameless: tuple[tuple[int, Nameless], ...] = ()  # (how many named columns stand before it, value)


def read_key(data: bytes) -> EventKey:
    """Parses an event key.

    Raises:
        ProtocolError: the data is not JSON, or not an event key.
    """
    members = mapping(_without_doubles(data, "event key"), "event key")
    kind = integer(members, "t", (0, 255))
    if kind not in _KEY_MEMBERS:
        message = f"message type {kind} is unknown, expected 1 row, 2 DDL or 3 resolved"
        raise ProtocolError(message, reason="unknown-kind")
    refuse_others(members, _KEY_MEMBERS[kind], "event key")
    ohk = members.get("ohk", False)
    if not isinstance(ohk, bool):
        raise SchemaError(f"{show(ohk)} is not a boolean - at `ohk`")
    key = EventKey(
        ts=integer(members, "ts", _UINT64),
        kind=kind,
        schema=string(members, "scm") if "scm" in members else "",
        table=string(members, "tbl") if "tbl" in members else "",
        rid=integer(members, "rid", _INT64) if "rid" in members else None,
        ptn=integer(members, "ptn", _INT64) if "ptn" in members else None,
        ohk=ohk,
        ccl=string(members, "ccl") if "ccl" in members else None,
    )
    if kind == ROW and not (key.schema and key.table):
        raise SchemaError('row has no "scm" or no "tbl"')
    return key


def read_ddl(data: bytes) -> tuple[str, int]:
    """Returns statement and action code of a DDL value. Any code is accepted: new versions of TiCDC add some."""
    members = mapping(strict_json.read(data, "DDL"), "DDL")
    refuse_others(members, {"q", "t"}, "DDL")
    query = members.get("q")
    if type(query) is not str:
        raise SchemaError(f"{show(query)} is not a string - at `q`")
    return query, integer(members, "t", (0, 2**31 - 1))


def read_row(data: bytes) -> RowValue:
    """Parses the images of a row value.

    Raises:
        ProtocolError: the data is not JSON, or not a row.
    """
    row = mapping(_without_doubles(data, "row"), "row")
    refuse_others(row, {"u", "p", "d"}, "row")
    if ("d" in row) == ("u" in row) or ("p" in row and "u" not in row):
        raise SchemaError(f'row has {" and ".join(sorted(row)) or "nothing"}, expected "u", "u" and "p", or "d"')
    if "d" in row:
        return RowValue(None, None, _image(row["d"], "d"))
    new = _image(row["u"], "u")
    if "p" not in row:
        return RowValue(new, None, None)
    old = mapping(row["p"], "row", "p")
    if any(type(old.get(member)) is not dict for member in ("t", "f", "v") if member in old):
        members, nameless = _take_nameless(data)
        return RowValue(new, _columns(members.items(), "p"), None, nameless)
    return RowValue(new, _columns(old.items(), "p"), None)


def _without_doubles(data: bytes, what: str) -> Any:
    """The object that `data` holds, of which no member occurs twice but those that producers write twice."""
    try:
        return strict_json.read(data, what, unique=True)
    except ProtocolError:
        members = strict_json.read(data, what)  # raises what is wrong besides
        _refuse_doubles(strict_json.read(data, what, pairs=True), what, "")
        return members


def _refuse_doubles(pairs: Any, what: str, where: str) -> None:
    seen = set()
    for name, value in pairs if type(pairs) is tuple else ():
        if where == "p" and name in _COLUMN_MEMBERS and type(value) is not tuple:
            continue  # nameless, beside a column that may have this name
        if name in seen and (what, name) != ("event key", "ohk"):
            raise SchemaError(f"{show(name)} occurs twice{at(where) if where else f' in the {what}'}")
        seen.add(name)
        _refuse_doubles(value, what, f"{where}.{name}" if where else name)


def _take_nameless(data: bytes) -> tuple[dict[str, Any], tuple[tuple[int, Nameless], ...]]:
    """Separates the named columns of `p` from the groups of members t, h, f, v of nameless values."""
    pairs = dict(strict_json.read(data, "row", pairs=True))["p"]
    named: dict[str, Any] = {}
    runs: list[tuple[int, dict[str, Any]]] = []
    for name, value in pairs:
        if isinstance(value, tuple):
            named[name] = dict(value)
        elif name == "t" or not runs or name in runs[-1][1]:
            runs.append((len(named), {name: value}))
        else:
            runs[-1][1][name] = value
    return named, tuple((before, _nameless(members)) for before, members in runs)


def _nameless(members: dict[str, Any]) -> Nameless:
    t, h, f, value = _members(members, "p")
    return Nameless(t, h, f, value)


def _image(members: Any, where: str) -> Image:
    columns = mapping(members, "row", where)
    if not columns:
        raise SchemaError(f"row has no columns - at `{where}`")
    return _columns(columns.items(), where)


def _columns(items: Any, where: str) -> Image:
    if len(items) > MOST_COLUMNS:
        raise SchemaError(f"row has {len(items)} columns, expected at most {MOST_COLUMNS} - at `{where}`")
    described, values = [], []
    for name, members in items:
        if not name.isascii():
            unicode_name(name, where)
        if type(members) is not dict:
            raise SchemaError(f"{show(members)} is not a column - at `{where}.{name}`")
        t, h, f, value = _members(members, f"{where}.{name}")
        described.append((name, t, h, f))
        values.append(value)
    return Image(tuple(described), values)


def _members(members: dict[str, Any], where: str) -> tuple[Number, bool | None, Number | None, Any]:
    t, h, f = members.get("t"), members.get("h"), members.get("f")
    if type(t) is not Number or not (f is None or type(f) is Number) or not (h is None or isinstance(h, bool)):
        raise SchemaError(f"column needs a number t and may have a number f and a boolean h - at `{where}`")
    if "v" not in members or not members.keys() <= _COLUMN_MEMBERS:
        refuse_others(members, _COLUMN_MEMBERS, "column", where)
        raise SchemaError(f"column has no value - at `{where}`")
    return t, h, f, members["v"]


def write_key(key: EventKey, json: JsonDialect, *, classic: bool) -> str:
    """Returns the text of an event key.

    classic leaves out empty texts, zeros and false (but writes `ptn` 0); newarch always writes scm and tbl of rows and DDL,
    never rid, and writes `ohk` twice before `ccl`.
    """
    members = [f'"ts":{key.ts}']
    named = key.kind != RESOLVED
    if named and (key.schema or not classic):
        members.append(f'"scm":{json.string(key.schema)}')
    if named and (key.table or not classic):
        members.append(f'"tbl":{json.string(key.table)}')
    partition = [] if key.ptn is None else [f'"ptn":{key.ptn}']
    if classic:
        members += ([f'"rid":{key.rid}'] if key.rid else []) + partition
    members.append(f'"t":{key.kind}')
    if key.ohk or (key.ccl is not None and not classic):
        members.append('"ohk":true')
    if key.ccl is not None:
        members += ([] if classic else ['"ohk":false']) + [f'"ccl":{json.string(key.ccl)}']
    return "{" + ",".join(members + ([] if classic else partition)) + "}"


def write_ddl(query: str, code: int, json: JsonDialect) -> str:
    """Returns the text of a DDL value."""
    return f'{{"q":{json.string(query)},"t":{code}}}'
