"""All problems of a definition at once, each with its fix.

    pipeline.yaml:2: unknown name in source "server". Did you mean "servers"? Known: …
    pipeline.yaml:9: pipeline.parallelism: expected at most 64, got 99

Rule 1. A missing name is not reported if an unknown name is close to it: that one is the misspelling.
Rule 2. A value is shown only where it cannot be a secret: `protocols.option_values.may_be_shown`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from changefeed.errors import ConfigError, unknown_name
from changefeed.modules import own_section
from changefeed.pipeline.config import definition as parts
from changefeed.protocols.option_values import may_be_shown
from changefeed.redaction import redact
from changefeed.sinks import event_sink_sections, sink_sections
from changefeed.sources import source_sections

_QUOTED = re.compile(r"'([^']*)'")
_EXPECTED = {
    "list_type": "a list, as [a, b]",
    "string_type": "a text",
    "string_pattern_mismatch": "letters, digits, `_`, `.` and `-` alone",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float", "int_parsing_size"), "a whole number"),
    **dict.fromkeys(("model_type", "dict_type", "model_attributes_type"), "names and values"),
}
_LIMITS = {"greater_than_equal": ("at least", "ge"), "less_than_equal": ("at most", "le")}


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem, and the path of names to it; the last name is empty if the problem is about a whole section.

    Attributes:
        close_to: the known name that an unknown name probably means.
        answered_by: the known names that would solve this problem.
    """

    path: tuple[str, ...]
    message: str
    close_to: str | None = None
    answered_by: tuple[str, ...] = ()


def config_error(problems: Iterable[Problem], where: str, lines: Mapping[tuple[str, ...], int]) -> ConfigError:
    """One error for all problems, in the order of the file."""
    distinct = list(dict.fromkeys(problems))
    close_names = {(problem.path[:-1], problem.close_to) for problem in distinct if problem.close_to}
    to_report = [p for p in distinct if not any((p.path[:-1], name) in close_names for name in p.answered_by)]
    placed = sorted(((_line(problem.path, lines), problem.message) for problem in to_report), key=lambda one: one[0])
    return ConfigError("\n".join(redact(f"{where}{f':{line}' if line else ''}: {text}") for line, text in placed))


def of_validation(error: ValidationError, root: type[BaseModel]) -> Iterator[Problem]:
    """The problems found by the models; `root`: that of the whole definition."""
    for detail in error.errors():
        yield _problem(detail, root)


def of_names(written: Mapping[str, Any], *, of_events: bool) -> Iterator[Problem]:
    """Problems that a source finds in its section beside its model: unknown properties of a client, options of the other kind.

    Args:
        written: the definition, as written.
        of_events: whether it is of an event pipeline.
    """
    source = written.get("source")
    if not isinstance(source, Mapping):
        return
    for section in source_sections().values():
        if section.describes(source):
            for name in section.unknown(map(str, source)):
                yield _unknown(("source", name), section, section.also)
            yield from (Problem(("source", str(name)), why) for name, why in section.wrong(source, of_events=of_events))


def _line(path: tuple[str, ...], lines: Mapping[tuple[str, ...], int]) -> int:
    """The line of the innermost name of the path that the file has."""
    return next((lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in lines), 0)


def _problem(detail: ErrorDetails, root: type[BaseModel]) -> Problem:
    path = _path(detail["loc"])
    name, kind, context = ".".join(path), detail["type"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown(path, _model(path, detail["loc"], root))
    if kind in ("literal_error", "union_tag_invalid"):
        path = path if kind == "literal_error" else (*path, "type")
        choices = _QUOTED.findall(str(context.get("expected", context.get("expected_tags"))))
        value = context.get("tag", detail["input"])
        if isinstance(value, bool):
            hint = f"YAML takes yes, no, on and off for true and false. Known: {', '.join(choices)}"
            return Problem(path, f"{'.'.join(path)}: {str(value).lower()} is not one of its values; {hint}")
        return Problem(path, str(unknown_name(".".join(path), str(value), choices)))
    if kind == "union_tag_not_found":
        path, kind = (*path, "type"), "missing"
    if kind == "missing" or detail["input"] is None:
        return Problem(path, f"{'.'.join(path)} is missing", answered_by=path[-1:])
    if kind in _LIMITS:
        words, key = _LIMITS[kind]
        return Problem(path, f"{name}: expected {words} {context[key]}, got {detail['input']!r}")
    if kind in _EXPECTED:
        shown = f", got {detail['input']!r}" if _shown(kind, detail["input"]) else ""
        return Problem(path, f"{name}: expected {_EXPECTED[kind]}{shown}")
    text = str(detail["msg"]).removeprefix("Value error, ")
    alternatives = tuple(re.findall(r"`([a-z-]+)`", text)) if text.startswith("give either") else ()
    return Problem((*path, ""), f"{name}: {text}" if name else text, answered_by=alternatives)


def _path(loc: tuple[int | str, ...]) -> tuple[str, ...]:
    """The path of names to a value, without the tag for the model of a source or sink."""
    tagged = loc[1:2] and (loc[1] in _models(loc[0]) or _own_module(loc))
    return tuple(map(str, (*loc[:1], *loc[2:]) if tagged else loc))


def _own_module(loc: tuple[int | str, ...]) -> str:
    """The module of one's own whose model found the error; empty if it was one of changefeed's models."""
    tag = str(loc[1]) if len(loc) > 1 else ""
    return tag.removeprefix(parts.OWN_TAG) if tag.startswith(parts.OWN_TAG) else ""


def _models(section: int | str) -> Mapping[str, type[BaseModel]]:
    """Type -> model, for a section with several models."""
    if section == "source":
        return source_sections()
    return {**sink_sections(), **event_sink_sections()} if section == "sink" else {}


def _shown(kind: str, value: Any) -> bool:
    if kind == "string_pattern_mismatch":
        return True  # only the pipeline's name has a pattern
    return isinstance(value, str | int | float) and may_be_shown(value)


def _unknown(path: tuple[str, ...], model: type[BaseModel], more: str = "") -> Problem:
    *section, name = path
    names = [field.alias or name for name, field in model.model_fields.items()]
    near = difflib.get_close_matches(name, names, n=1)
    message = f"{unknown_name('name in ' + ('.'.join(section) or 'the file'), name, names)}{more}"
    return Problem(path, message, close_to=near[0] if near else None)


def _model(path: tuple[str, ...], loc: tuple[int | str, ...], root: type[BaseModel]) -> type[BaseModel]:
    if len(path) == 1:
        return root
    if module := _own_module(loc):
        section: type[BaseModel] = own_section(path[0], module)
        return section
    if models := _models(path[0]):
        return next((models[str(tag)] for tag in loc[1:2] if tag in models), next(iter(models.values())))
    inner: Any = root.model_fields[path[0]].annotation if path[0] == "pipeline" else root
    model: type[BaseModel] = inner
    return model
