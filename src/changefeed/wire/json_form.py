"""Checks of JSON that `strict_json` has read: types of members, unknown members; errors contain the path."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from changefeed.errors import SchemaError
from changefeed.wire.strict_json import Number

UINT64 = (0, 2**64 - 1)
INT64 = (-(2**63), 2**63 - 1)
_FRACTION = frozenset(".eE")


def at(where: str) -> str:
    """Returns the end of an error with the path `where`; "" for the whole document."""
    return f" - at `{where}`" if where else ""


def integer(members: dict[str, Any], name: str, limits: tuple[int, int], where: str = "") -> int:
    """Returns the member as an integer within limits, both included.

    Raises:
        SchemaError: the member is missing, not an integer, or outside the limits.
    """
    value = members.get(name)
    if type(value) is Number and len(value) <= 20 and not _FRACTION.intersection(value):
        number = int(value)
        if limits[0] <= number <= limits[1]:
            return number
    raise SchemaError(f"{show(value)} is not an integer from {limits[0]} to {limits[1]} - at `{where}{name}`")


def mapping(value: Any, what: str, where: str = "") -> dict[str, Any]:
    """Returns the value as an object; `what` is the subject of the error.

    Raises:
        SchemaError: the value is not an object.
    """
    if type(value) is not dict:
        raise SchemaError(f"{what} is {show(value)}, expected an object{at(where)}")
    return value


def refuse_others(members: dict[str, Any], known: Container[str], what: str, where: str = "") -> None:
    """Checks that all members are known.

    Raises:
        SchemaError: a member is unknown.
    """
    for name in members:
        if name not in known:
            raise SchemaError(f"{what} has an unknown member {show(name)}{at(where)}")


def string(members: dict[str, Any], member: str, where: str = "") -> str:
    """Returns the member as a string.

    Raises:
        SchemaError: the member is missing, not a string, or not UTF-8.
    """
    value = members.get(member)
    if type(value) is not str:
        raise SchemaError(f"{show(value)} is not a string - at `{where}{member}`")
    return unicode_name(value, where + member)


def unicode_name(name: str, where: str) -> str:
    """Returns the name, after checking that UTF-8 can represent it.

    Raises:
        SchemaError: the name is not UTF-8.
    """
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise SchemaError(f"name {name!r} is not UTF-8 - at `{where}`") from error
    return name


def show(value: Any) -> str:
    """Formats a JSON value for an error: on one line, at most 60 characters."""
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
