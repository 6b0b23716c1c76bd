"""Modules that implement the types of a definition's sections: those of changefeed, and one's own.

A section names its implementation by `type`. A name without a dot is one of changefeed's; with dots, as `my_package.my_sink`, it
is a module that Python can import where changefeed runs: installed, or in a folder of PYTHONPATH. That module has `SECTION`, the
model of its section, and the functions that its contract names, such as `open_sink`.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from changefeed.errors import ConfigError, unknown_name

_OWN_FILES: dict[str, str] = {}  # file -> module of one's own that a section has named
_CHANGEFEED = str(Path(__file__).parent)


@dataclass(frozen=True, slots=True)
class OwnLine:
    """The line of a module of one's own in which an error was raised, or which called what raised it.

    Attributes:
        is_last: whether no code of changefeed was called there; else the error may be a defect of either.
    """

    module: str
    file: str
    line: int
    is_last: bool


def is_own(type: object) -> bool:
    """Whether a type names a module that is not changefeed's."""
    return isinstance(type, str) and "." in type and all(part.isidentifier() for part in type.split("."))


def module_of(kind: str, type: str, known: Mapping[str, str]) -> ModuleType:
    """The module that implements a type.

    Args:
        kind: of section, for messages: `sink`.
        type: `type` of the section.
        known: type -> module, of changefeed's own.

    Raises:
        ConfigError: no module has this type.
    """
    if not is_own(type):
        if type not in known:
            raise unknown_name(kind, type, known)
        return import_module(known[type])
    try:
        spec = find_spec(type)
        if spec is not None and spec.origin is not None:
            _OWN_FILES[spec.origin] = type
        return import_module(type)
    except ImportError as error:
        raise ConfigError(
            f'{kind} "{type}" is not a module that Python can import ({error}): install it, or add its folder to PYTHONPATH'
        ) from error


def function_of(kind: str, type: str, known: Mapping[str, str], name: str) -> Callable[..., Any]:
    """A function that the contract of a section's kind requires of the module.

    Args:
        kind: of section, for messages: `sink`.
        type: `type` of the section.
        known: type -> module, of changefeed's own.
        name: of the function: `open_sink`.

    Raises:
        ConfigError: no module has this type, or the module does not define the function.
    """
    function: Callable[..., Any] | None = getattr(module_of(kind, type, known), name, None)
    if function is None:
        raise ConfigError(f'{kind} "{type}" has no {name}: define it in the module, as docs/guides/own.md shows')
    return function


def own_section(kind: str, type: str) -> Any:
    """The model of the section of one's own type.

    Raises:
        ConfigError: there is no such module, or it has no `SECTION`.
    """
    section = getattr(module_of(kind, type, {}), "SECTION", None)
    if section is None:
        raise ConfigError(f'{kind} "{type}" has no SECTION. Define SECTION in the module, as docs/guides/own.md shows')
    return section


def own_line(error: BaseException) -> OwnLine | None:
    """Returns the innermost line of modules of one's own in an error's traceback; None if it has none."""
    if isinstance(error, SyntaxError) and error.filename in _OWN_FILES:
        return OwnLine(_OWN_FILES[error.filename], error.filename, error.lineno or 1, is_last=True)
    is_last = True
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename in _OWN_FILES:
            return OwnLine(_OWN_FILES[frame.filename], frame.filename, frame.lineno or 1, is_last)
        is_last = is_last and not frame.filename.startswith(_CHANGEFEED)
    return None
