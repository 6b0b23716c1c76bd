"""Options as they were given, from a YAML file, a URI or a command line, to those that a protocol has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from changefeed.errors import ConfigError, unknown_name

_Options = TypeVar("_Options", bound=msgspec.Struct)
_NO_CHOICE = re.compile(r"Invalid enum value .* - at `\$\.([^`\[]+)`")


def read(protocol: str, options: type[_Options], given: Mapping[str, Any]) -> _Options:
    """The options, checked.

    Raises:
        ConfigError: an option is unknown or its value does not fit; the message names the nearest or the problem.
    """
    known = dict(zip(options.__struct_encode_fields__, options.__struct_fields__, strict=True))
    for name in given:
        if name not in known:
            raise unknown_name(f"option of {protocol}", name, known)
    try:
        return msgspec.convert(dict(given), options, strict=False)
    except msgspec.ValidationError as error:
        found = _NO_CHOICE.fullmatch(str(error))
        if found is None:
            raise ConfigError(f"{protocol}: {error}") from error
        choices = _choices(get_type_hints(options)[known[found[1]]])
        raise ConfigError(f"{protocol}: {unknown_name(found[1], str(given[found[1]]), choices)}") from error


def _choices(hint: Any) -> Iterator[str]:
    """The texts that a type of literals, or a union with one, allows."""
    for part in get_args(hint):
        if get_origin(hint) is Literal:
            yield str(part)
        else:
            yield from _choices(part)
