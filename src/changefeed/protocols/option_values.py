"""Converts option values from a YAML file, a URI or a command line to the types of a protocol's options.

Rule 1. Strings are converted to numbers and booleans where an option needs these. Numbers are not converted to strings: YAML
        has read 3.60 as 3.6 already.
Rule 2. An error names the option and the expected value. It does not show the value of a string option, which may be a
        password, nor another value that is a string and does not look like a number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from changefeed.errors import ConfigError, unknown_name

_Options = TypeVar("_Options", bound=msgspec.Struct)
_NO_CHOICE = re.compile(r"Invalid enum value .* - at `\$\.([^`\[]+)`")
_OTHER_TYPE = re.compile(r"Expected `(\w+)(?: \| null)?`(, got `\w+`| [<>]=? [\d.]+) - at `\$\.([^`\[]+)`")
_TYPES = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "array": "a list",
    "str": "a text: what YAML takes for something else needs quotes",
}


def read(protocol: str, options: type[_Options], values: Mapping[str, Any]) -> _Options:
    """Validates options and returns them.

    Raises:
        ConfigError: an option is unknown, and the message has the nearest name; or its value is invalid.
    """
    known = dict(zip(options.__struct_encode_fields__, options.__struct_fields__, strict=True))
    for name in values:
        if name not in known:
            raise unknown_name(f"option of {protocol}", name, known)
    try:
        return msgspec.convert(dict(values), options, strict=False)
    except msgspec.ValidationError as error:
        message = str(error)
        if match := _NO_CHOICE.fullmatch(message):
            choices = _choices(get_type_hints(options)[known[match[1]]])
            message = str(unknown_name(match[1], str(values[match[1]]), choices))
        elif (match := _OTHER_TYPE.fullmatch(message)) and match[1] in _TYPES:
            limit = "" if match[2].startswith(",") else match[2]
            value = values[match[3]]
            shown = f", got {value!r}" if match[1] != "str" and may_be_shown(value) else ""
            message = f"{match[3]}: expected {_TYPES[match[1]]}{limit}{shown}"
        raise ConfigError(f"{protocol}: {message}") from error


def may_be_shown(value: Any) -> bool:
    """Whether a message may quote an invalid value of a numeric or boolean option: a text may be a password."""
    return (
        not isinstance(value, str)
        or re.fullmatch(r"(?i)[-+.\d][\w .:%+-]{0,15}|yes|no|on|off|true|false", value) is not None
    )


def _choices(hint: Any) -> Iterator[str]:
    """Returns the strings that a `Literal` type, or a union with one, allows."""
    for part in get_args(hint):
        if get_origin(hint) is Literal:
            yield str(part)
        else:
            yield from _choices(part)
