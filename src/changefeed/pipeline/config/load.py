"""Reads a `Definition` from a YAML file: environment variables, relative paths, and all errors at once."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from changefeed.errors import ConfigError
from changefeed.pipeline.config import problems, yaml_file
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.config.events import EventDefinition
from changefeed.pipeline.config.problems import Problem
from changefeed.protocols import protocol
from changefeed.redaction import remember
from changefeed.sinks import is_event_sink
from changefeed.sources import protocol_of

# Options of source, sink and protocols that are paths; a URL is not a path.
_PATHS = (
    "path", "folder", "from-debezium", "schema-registry", "claim-check-storage-uri",
    "ssl.ca.location", "ssl.certificate.location", "ssl.key.location",
)  # fmt: skip
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def load(path: str | Path) -> Definition:
    """The definition in a YAML file; `${NAME}` in its values is replaced from the environment.

    Raises:
        ConfigError: the file cannot be read, is not YAML, or has values that cannot work; it lists all problems.
    """
    return _of_tables(load_any(path), str(path))


def load_any(path: str | Path) -> Definition | EventDefinition:
    """The definition in a YAML file, of a pipeline to tables or of an event pipeline; otherwise as `load`."""
    file = Path(path)
    written, lines = yaml_file.read(file)
    if not isinstance(written, dict):
        raise ConfigError(f"{file}: expected the sections source, sink and pipeline")
    missing = list[Problem]()
    filled = _filled(written, (), missing)
    return _read(filled, file.parent, str(file), lines, missing)


def read(written: dict[str, Any], *, base: Path | None = None, where: str = "definition") -> Definition:
    """The definition described by `written`; relative paths are relative to `base`.

    Raises:
        ConfigError: the definition cannot work as written.
    """
    return _of_tables(read_any(written, base=base, where=where), where)


def read_any(
    written: dict[str, Any], *, base: Path | None = None, where: str = "definition"
) -> Definition | EventDefinition:
    """The definition described by `written`, of a pipeline to tables or of an event pipeline; otherwise as `read`."""
    return _read(written, base, where, {}, [])


def _of_tables(definition: Definition | EventDefinition, where: str) -> Definition:
    if isinstance(definition, EventDefinition):
        raise ConfigError(
            f"{where}: an event pipeline, whose sink is {definition.sink.type}: only `run`, `check`, `explain`, `status`, "
            "`snapshot` and `monitor` take it"
        )
    return definition


def _read(
    written: dict[str, Any],
    base: Path | None,
    where: str,
    lines: Mapping[tuple[str, ...], int],
    found_problems: list[Problem],
) -> Definition | EventDefinition:
    for section in written.values():
        remember("", section)
    anchored = _anchored(written, base)
    definition, more = _validated(anchored)
    of_events = _model_of(anchored) is EventDefinition
    place = ("sink" if of_events else "source", "protocol")
    others = [
        *more,
        *problems.of_names(written, of_events=of_events),
        *_of_protocol(_choice(definition, anchored, place[0]), place),
    ]
    unset = {problem.path for problem in found_problems}  # without its variable a value has other problems, too
    found_problems = [
        *found_problems,
        *(one for one in others if not any(one.path[: len(path)] == path for path in unset)),
    ]
    if definition is None or found_problems:
        raise problems.config_error(found_problems, where, lines)
    return definition


def _model_of(written: Mapping[str, Any]) -> type[Definition] | type[EventDefinition]:
    """The model of a document, by the type of its sink."""
    sink = written.get("sink")
    kind = sink.get("type") if isinstance(sink, dict) else None
    return EventDefinition if is_event_sink(kind) else Definition


def _validated(written: dict[str, Any]) -> tuple[Definition | EventDefinition | None, list[Problem]]:
    model = _model_of(written)
    try:
        return model.model_validate(written), []
    except ValidationError as error:
        return None, list(problems.of_validation(error, model))
    except ConfigError as error:  # an error in the source's URI; the other sections may have more
        others = _validated({name: section for name, section in written.items() if name != "source"})[1]
        return None, [Problem(("source", "uri"), str(error)), *(one for one in others if one.path[0] != "source")]


def _choice(definition: Definition | EventDefinition | None, written: Mapping[str, Any], section: str) -> Any:
    """The protocol and its options, from the definition, or from a section of the document if the definition is not valid."""
    if isinstance(definition, EventDefinition):
        return definition.sink.protocol.model_dump()
    if definition is not None:
        return choice.model_dump() if (choice := protocol_of(definition.source)) else None
    source = written.get(section)
    return source.get("protocol") if isinstance(source, dict) else None


def _of_protocol(choice: Any, place: tuple[str, ...]) -> Iterator[Problem]:
    """Problems of the protocol and its options, each by itself if possible."""
    name = choice.get("name") if isinstance(choice, dict) else choice
    if not isinstance(name, str):
        return
    options = {key: value for key, value in choice.items() if key != "name"} if isinstance(choice, dict) else {}
    try:
        chosen = protocol(name)
    except ConfigError as error:
        yield Problem((*place, "name") if options else place, str(error))
        return
    alone = list(_of_options(name, options, place))
    yield from alone
    if not alone:
        try:
            chosen.read_options(options)
        except ConfigError as error:
            yield Problem(place, str(error))


def _of_options(name: str, options: Mapping[str, Any], place: tuple[str, ...]) -> Iterator[Problem]:
    for option, value in options.items():
        try:
            protocol(name).read_options({option: value})
        except ConfigError as error:
            if str(error).startswith(
                (f"unknown option of {name} ", f"{name}: {option}:", f"{name}: unknown {option} ")
            ):
                yield Problem((*place, str(option)), str(error))


def _filled(value: Any, path: tuple[str, ...], missing: list[Problem]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(item, (*path, str(key)), missing) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, path, missing) for item in value]
    if not isinstance(value, str):
        return value

    def variable(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            missing.append(
                Problem(path, f"${{{match[1]}}} refers to the environment variable {match[1]}, which is not set")
            )
            return ""
        remember(match[1], os.environ[match[1]])
        return os.environ[match[1]]

    return _VARIABLE.sub(variable, value)


def _anchored(written: dict[str, Any], base: Path | None) -> dict[str, Any]:
    """Resolves relative paths against the definition's folder instead of the current folder."""
    if base is None:
        return written
    sections = dict(written)
    for name in ("source", "sink", "ledger", "pipeline"):
        if isinstance(section := written.get(name), dict):
            sections[name] = _absolute(section, base)
            if isinstance(choice := section.get("protocol"), dict):
                sections[name]["protocol"] = _absolute(choice, base)
    return sections


def _is_url(text: str) -> bool:
    return "://" in text or re.match(r"\w[\w+.-]+:/", text) is not None


def _absolute(written: dict[str, Any], base: Path) -> dict[str, Any]:
    paths = {name: text for name in _PATHS if isinstance(text := written.get(name), str) and not _is_url(text)}
    return {**written, **{name: str((base / path).absolute()) for name, path in paths.items()}}
