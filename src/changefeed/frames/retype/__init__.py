"""The values of a column after MODIFY, as the server converts them: in Arrow, whole columns at a time, in the sink's types.

Rule 1. No value makes a conversion fail. What the new type cannot hold becomes what the server makes of it without strict mode:
        numbers and times the nearest in range, texts cut, members that are gone ''. In strict mode the server refuses
        an ALTER with such values, so the same conversion is right in both.
Rule 2. What does not follow from the values and the two types has no conversion, and the pipeline stops before the statement:

    texts to numbers, dates, ENUM, SET           the server reads what a text begins with; collations compare members
    DATETIME and TIMESTAMP, to each other        a time zone; TIMESTAMP to anything else, too
    numbers to dates                             two-digit years
    TIME to DATE, DATETIME and TIMESTAMP         the day of the statement, unless its time and zone are known
    JSON of MySQL to and from text               MySQL has its own form of JSON, which not every protocol carries
    text to bytes and back                       unless the character set is known
    ENUM, SET whose members differ only in case  the collation decides

Rule 3. Servers differ: MariaDB leaves out fraction digits that MySQL rounds. Where they do, the server must be known.

`numbers` `moments` `members` `texts` have the conversions, `printing` the server's texts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Literal, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from changefeed.frames.reshape import family, plain_text
from changefeed.frames.retype import members, moments, numbers, printing, texts
from changefeed.frames.types import SPARK_DIGITS, sink_type
from changefeed.model.types import ColumnType
from changefeed.mysql.zone import ahead, to_local, zone

Server: TypeAlias = Literal["", "mysql", "mariadb", "tidb"]
Values: TypeAlias = Callable[[pa.Array], pa.Array]
_NUMBERS = ("integer", "decimal", "real")
_MEMBERS = ("enum members", "set members")
_WIDENED = frozenset({*((old, new) for old in _NUMBERS for new in _NUMBERS), ("date", "datetime")})


class Details(msgspec.Struct, frozen=True, omit_defaults=True):
    """The facts about a conversion that do not follow from the two types.

    Attributes:
        server: the server that made it; empty if unknown.
        charset: the character set of the text after it, of bytes the one before it; empty if unknown.
        width: the display width of an old ZEROFILL column; 0 for any other.
        recoded: whether texts come into this character set, which may lack some of their characters.
        zone: the time zone of the session that made it; empty if unknown.
        time: when its statement began, in microseconds since 1970; None if unknown, and where it has no effect.
    """

    server: Server = ""
    charset: str = ""
    width: int = 0
    recoded: bool = False
    zone: str = ""
    time: int | None = None


@dataclass(frozen=True, slots=True)
class Conversion:
    """The conversion of a column.

    Attributes:
        values: converts a column of the sink's type for the old type to that for the new type.
        is_copy: whether every value stays as it is.
        is_cast: whether Spark's CAST to the new type has the same result, and cannot fail.
    """

    values: Values
    is_copy: bool = False
    is_cast: bool = False


UNKNOWN = Details()


@cache
def conversion(old: ColumnType, new: ColumnType, details: Details = UNKNOWN) -> Conversion | None:
    """Returns the conversion of a column from one type to another; None if its result is not known."""
    if old == new and not (details.recoded and family(old) == "text"):
        return _copy()
    if old.name == "null":
        return Conversion(lambda array: pa.nulls(len(array), sink_type(new).arrow), is_cast=True)
    route = _ROUTES.get((_family(old), _family(new)))
    return None if route is None else route(old, new, details)


def widened(old: ColumnType, new: ColumnType) -> Conversion | None:
    """Returns the conversion of a column whose type rows have widened, which keeps every value; None if there is none."""
    before, after = sink_type(old).arrow, sink_type(new).arrow
    if before == after:
        return _copy()
    is_bare = new.name == "decimal" and new.length is None
    if old.name == "null" or (not is_bare and (family(old), family(new)) in _WIDENED):
        return conversion(old, new)
    if pa.types.is_string(after) and (family(old) in ("decimal", "date") or pa.types.is_integer(before)):
        return Conversion(plain_text, is_cast=True)
    if family(old) == "text" and pa.types.is_binary(after):
        return Conversion(lambda array: array.cast(pa.binary()), is_cast=True)
    return None


def _family(t: ColumnType) -> str:
    return "json" if t.name == "json" else family(t)


def _copy() -> Conversion:
    return Conversion(lambda array: array, is_copy=True, is_cast=True)


# The conversions between families. Each returns None if it is not known for these two types.


def _number(old: ColumnType, new: ColumnType, details: Details) -> Conversion | None:
    if new.name == "boolean" or (new.name == "year" and family(old) != "integer"):
        return None
    if new.name == "bit" and (new.length is None or family(old) != "integer"):
        return None
    if old.name == "bit" and (old.length is None or (old.length == 64 and family(new) == "real")):
        return None  # MariaDB takes the 64 bits for a signed number
    if family(old) == "real" and details.server == "tidb":
        return None
    convert = partial(_NUMERIC[family(old), family(new)], old=old, new=new)
    if family(old) != "integer" and family(new) == "integer":
        convert = partial(convert, server=details.server)
    return Conversion(convert, is_cast=_always_fits(old, new))


def _always_fits(old: ColumnType, new: ColumnType) -> bool:
    """Whether every number of a type is one of the other, in types of Spark that a CAST converts between exactly."""
    if new.unsigned and not old.unsigned and old.name not in ("bit", "boolean", "year"):
        return False
    match family(old), family(new):
        case "integer", "integer":
            low, high = numbers.span(old)
            least, most = numbers.span(new)
            return new.name != "year" and least <= low and high <= most
        case "integer", "decimal":
            digits = len(str(numbers.span(old)[1]))
            return new.length is not None and digits <= new.length - (new.scale or 0) and new.length <= SPARK_DIGITS
        case "decimal", "decimal":
            known = old.length is not None and new.length is not None and new.length <= SPARK_DIGITS
            grows = (new.scale or 0) - (old.scale or 0)
            return known and grows >= 0 and (new.length or 0) - (old.length or 0) >= grows
        case "integer", "real":
            return new.name == "double" and new.scale is None and numbers.span(old)[1] <= 2**53
        case "real", "real":
            return new.scale is None and new.name in (old.name, "double")
    return False


_NUMERIC: dict[tuple[str, str], Callable[..., pa.Array]] = {
    ("integer", "integer"): numbers.integers,
    ("decimal", "integer"): numbers.decimals_to_integers,
    ("real", "integer"): numbers.reals_to_integers,
    ("integer", "decimal"): numbers.decimals,
    ("decimal", "decimal"): numbers.decimals,
    ("real", "decimal"): numbers.reals_to_decimals,
    ("integer", "real"): numbers.reals,
    ("decimal", "real"): numbers.reals,
    ("real", "real"): numbers.reals,
}


def _text(old: ColumnType, new: ColumnType, details: Details) -> Conversion | None:
    """Text to text."""
    if details.recoded:
        return Conversion(lambda array: texts.cut(texts.recoded(array, details.charset), new, details.charset))
    if texts.holds_all(old, new):
        return _copy()
    return Conversion(partial(texts.cut, new=new, charset=details.charset))


def _printed(old: ColumnType, new: ColumnType, details: Details) -> Conversion | None:
    """Anything that the server prints, to text or bytes."""
    if old.name == "bit" and (new.name not in ("char", "varchar", "binary", "varbinary") or details.server == "tidb"):
        return None  # to a TEXT they are bytes
    if old.name == "decimal" and old.length is None:
        return None
    if family(old) == "real" and (details.server == "tidb" or (not details.server and old.scale is None)):
        return None
    is_binary = texts.is_binary(new)

    def values(array: pa.Array) -> pa.Array:
        text = printing.printed(array, old, details.server, details.width)
        return texts.fitted(text.cast(pa.binary()), new) if is_binary else texts.cut(text, new, details.charset)

    return Conversion(values)


def _members_to_text(old: ColumnType, new: ColumnType, details: Details) -> Conversion | None:
    longest = len(",".join(old.members or ())) if old.name == "set" else max(map(len, old.members or ("",)))
    if new.name != "char" and longest * 4 <= texts.room(new):
        return _copy()
    return Conversion(partial(texts.cut, new=new, charset=details.charset))


def _binary(old: ColumnType, new: ColumnType, details: Details) -> Conversion | None:
    """Bytes to bytes."""
    return _copy() if texts.holds_all(old, new) else Conversion(partial(texts.fitted, new=new))


def _encoded(old: ColumnType, new: ColumnType, details: Details) -> Conversion | None:
    """Text to bytes: MySQL keeps the spaces that fill up a CHAR in a BINARY of the same size."""
    is_filled = (old.name, new.name) == ("char", "binary") and texts.room(old) == texts.room(new)
    keeps_spaces = is_filled and texts.has_single_bytes(details.charset)
    if not details.charset or (keeps_spaces and not details.server):
        return None
    if keeps_spaces and details.server == "mysql":
        return Conversion(lambda array: texts.encoded(pc.utf8_rpad(array, texts.room(old)), details.charset))
    return Conversion(lambda array: texts.fitted(texts.encoded(array, details.charset), new))


def _decoded(old: ColumnType, new: ColumnType, details: Details) -> Conversion | None:
    """Bytes to text."""
    if not details.charset:
        return None
    marked = details.server == "mariadb"
    return Conversion(
        lambda array: texts.cut(texts.decoded(array, details.charset, marked=marked), new, details.charset)
    )


def _from_json(old: ColumnType, new: ColumnType, details: Details) -> Conversion | None:
    return _text(old, new, details) if details.server in ("mariadb", "tidb") else None


def _to_json(old: ColumnType, new: ColumnType, details: Details) -> Conversion | None:
    """MariaDB's JSON is a LONGTEXT that takes valid JSON only."""
    return _copy() if details.server == "mariadb" else None


def _number_to_json(old: ColumnType, new: ColumnType, details: Details) -> Conversion | None:
    """A number as MariaDB prints it is valid JSON."""
    return _printed(old, ColumnType("longtext"), details) if details.server == "mariadb" else None


def _members(old: ColumnType, new: ColumnType, details: Details) -> Conversion | None:
    if old.name == new.name and members.keeps_all(old, new):
        return _copy()
    return Conversion(partial(members.converted, old=old, new=new)) if members.is_certain(old, new) else None


def _member_numbers(old: ColumnType, new: ColumnType, details: Details) -> Conversion | None:
    """The index of an ENUM or the bits of a SET; '' is index 0, unless it is a member."""
    index = ColumnType("bigint", unsigned=True)
    then = _number(index, new, details)
    if then is None or new.name == "year" or "" in (old.members or ()):
        return None
    return Conversion(lambda array: then.values(members.numbers(array, old).cast(sink_type(index).arrow)))


def _moment(old: ColumnType, new: ColumnType, details: Details) -> Conversion | None:
    """Between dates and times, where no zone is needed."""
    if not details.server and _rounds(old, new):
        return None
    rounds = details.server != "mariadb"
    match old.name, new.name:
        case "date", "time":
            return Conversion(partial(moments.midnights, new=new))
        case "date", "datetime":
            return Conversion(lambda array: array.cast(pa.timestamp("us")), is_cast=True)
        case ("datetime", "datetime") | ("timestamp", "timestamp"):
            if (new.length or 0) >= (old.length or 0):
                return _copy()
            return Conversion(partial(moments.datetimes, old=old, new=new, rounds=rounds))
        case "time", "time":
            return Conversion(partial(moments.times, old=old, new=new, rounds=rounds))
        case "datetime", "date":
            return Conversion(partial(moments.dates, old=old, new=new, rounds=rounds))
        case "datetime", "time":
            return Conversion(partial(moments.times_of_day, old=old, new=new, rounds=rounds))
    return None


def _from_instants(old: ColumnType, new: ColumnType, details: Details) -> Conversion | None:
    """TIMESTAMP to another type: as the DATETIME that it is in the session's time zone."""
    if not details.zone:
        return None
    return _as_datetimes(partial(moments.local, zone_name=details.zone), old, new, details)


def _from_times(old: ColumnType, new: ColumnType, details: Details) -> Conversion | None:
    """TIME to a type with a date: as the DATETIME that it is on the day of the statement."""
    if not details.zone or details.time is None or details.server == "tidb":
        return None
    now = to_local(details.time, zone(details.zone))
    return _as_datetimes(partial(moments.on_day, now=now), old, new, details)


def _as_datetimes(first: Values, old: ColumnType, new: ColumnType, details: Details) -> Conversion | None:
    """The conversion of the DATETIMEs that `first` returns."""
    then = conversion(ColumnType("datetime", length=old.length), new, details)
    return None if then is None else Conversion(lambda array: then.values(first(array)))


def _instants(old: ColumnType, new: ColumnType, details: Details) -> Conversion | None:
    """To TIMESTAMP: a local time of the session's time zone, if that is ahead of UTC by as much at all times."""
    rounds = details.server != "mariadb"
    if not details.zone or (not details.server and _rounds(old, new)) or (us := ahead(zone(details.zone))) is None:
        return None
    return Conversion(partial(moments.instants, new=new, ahead_us=us, rounds=rounds))


def _rounds(old: ColumnType, new: ColumnType) -> bool:
    """Whether fraction digits are lost."""
    kept = (new.length or 0) if new.name in ("datetime", "timestamp", "time") else 0
    return kept < (old.length or 0)


def _moment_numbers(old: ColumnType, new: ColumnType, details: Details) -> Conversion | None:
    """The digits of a date or time: 20260102."""
    whole = family(new) == "integer"
    if (whole and old.length and details.server != "mariadb") or new.name in ("year", "boolean", "bit"):
        return None
    digits = ColumnType("decimal", length=26, scale=6)
    then = _NUMERIC["decimal", family(new)]

    def values(array: pa.Array) -> pa.Array:
        text = moments.numbers(array, old, whole=whole)
        return then(text.cast(sink_type(digits).arrow), old=digits, new=new)

    return Conversion(values)


def _same_kind(old: ColumnType, new: ColumnType, details: Details) -> Conversion | None:
    return _copy() if new.name == "geometry" else None


_Route: TypeAlias = Callable[[ColumnType, ColumnType, Details], Conversion | None]
_ROUTES: dict[tuple[str, str], _Route] = {
    **{(old, new): _number for old in _NUMBERS for new in _NUMBERS},
    **{(old, new): _printed for old in (*_NUMBERS, "date", "datetime", "time") for new in ("text", "binary")},
    **{(old, new): _moment_numbers for old in ("date", "datetime", "time") for new in _NUMBERS},
    **{(old, new): _member_numbers for old in _MEMBERS for new in _NUMBERS},
    **{(old, new): _moment for old in ("date", "datetime") for new in ("date", "datetime", "time")},
    ("time", "time"): _moment,
    **{("time", new): _from_times for new in ("date", "datetime", "timestamp")},
    **{("timestamp", new): _from_instants for new in (*_NUMBERS, "date", "datetime", "time", "text", "binary")},
    ("timestamp", "timestamp"): _moment,
    **{(old, "timestamp"): _instants for old in ("date", "datetime")},
    ("text", "text"): _text,
    ("text", "json"): _to_json,
    **{(old, "json"): _number_to_json for old in _NUMBERS},
    ("json", "text"): _from_json,
    ("text", "binary"): _encoded,
    ("enum members", "binary"): _encoded,
    ("set members", "binary"): _encoded,
    ("binary", "text"): _decoded,
    ("binary", "binary"): _binary,
    ("enum members", "text"): _members_to_text,
    ("set members", "text"): _members_to_text,
    **{(old, new): _members for old in _MEMBERS for new in _MEMBERS},
    ("geometry", "geometry"): _same_kind,
}
