"""The form of JSON that `strict_json` has read: members of the right type, no others, and errors that name the path."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from changefeed.errors import SchemaError
from changefeed.wire.strict_json import Number

UINT64 = (0, 2**64 - 1)
INT64 = (-(2**63), 2**63 - 1)
_FRACTION = frozenset(".eE")


def at(where: str) -> str:
    """The tail of an error that names a path; nothing for the whole."""
    return f" - at `{where}`" if where else ""


def integer(members: dict[str, Any], name: str, limits: tuple[int, int], where: str = "") -> int:
    """The member as an integer within limits."""
    value = members.get(name)
    if type(value) is Number and len(value) <= 20 and not _FRACTION.intersection(value):
        number = int(value)
        if limits[0] <= number <= limits[1]:
            return number
    raise SchemaError(f"{show(value)} is not an integer from {limits[0]} to {limits[1]} - at `{where}{name}`")


def mapping(value: Any, what: str, where: str = "") -> dict[str, Any]:
    """The value as an object; `what` is the subject of the error."""
    if type(value) is not dict:
        raise SchemaError(f"{what} is {show(value)}, expected an object{at(where)}")
    return value


def refuse_others(found: dict[str, Any], known: Container[str], what: str, where: str = "") -> None:
    """Refuses members that nobody knows."""
    for name in found:
        if name not in known:
            raise SchemaError(f"{what} has an unknown member {show(name)}{at(where)}")


def string(members: dict[str, Any], member: str, where: str = "") -> str:
    """The member as a string that is UTF-8."""
    value = members.get(member)
    if type(value) is not str:
        raise SchemaError(f"{show(value)} is not a string - at `{where}{member}`")
    return unicode_name(value, where + member)


def unicode_name(name: str, where: str) -> str:
    """The name, which must be UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise SchemaError(f"name {name!r} is not UTF-8 - at `{where}`") from error
    return name


def show(value: Any) -> str:
    """A JSON value as an error shows it: short, and one line."""
    if type(value) is Number:
        text = str(value)
    elif value is None or isinstance(value, bool):
        text = {None: "null", True: "true", False: "false"}[value]
    else:
        try:
            text = repr(value)
        except RecursionError:
            text = "something nested too deeply"
    return text if len(text) <= 60 else text[:57] + "…"
