"""From a YAML file to a `Definition`: environment, relative paths, and all errors at once."""

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
from changefeed.pipeline.config.problems import Problem
from changefeed.protocols import protocol
from changefeed.redaction import remember

# Of source and sink, and of protocols: a text with `://` is no path.
_PATHS = (
    "path", "schema-registry", "claim-check-storage-uri", "ssl.ca.location", "ssl.certificate.location", "ssl.key.location"
)  # fmt: skip
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def load(path: str | Path) -> Definition:
    """The definition in a YAML file; `${NAME}` in its values is taken from the environment.

    Raises:
        ConfigError: the file cannot be read, is not YAML, or says something that cannot work; it lists all of that.
    """
    file = Path(path)
    said, lines = yaml_file.read(file)
    if not isinstance(said, dict):
        raise ConfigError(f"{file}: expected the sections source, sink and pipeline")
    missing = list[Problem]()
    filled = _filled(said, (), missing)
    return _read(filled, file.parent, str(file), lines, missing)


def read(said: dict[str, Any], *, base: Path | None = None, where: str = "definition") -> Definition:
    """The definition that `said` describes; relative paths are taken from `base`.

    Raises:
        ConfigError: it cannot work as written.
    """
    return _read(said, base, where, {}, [])


def _read(
    said: dict[str, Any], base: Path | None, where: str, lines: Mapping[tuple[str, ...], int], found: list[Problem]
) -> Definition:
    for section in said.values():
        remember("", section)
    anchored = _anchored(said, base)
    definition, more = _validated(anchored)
    found = [*found, *more, *problems.of_names(said), *_of_protocol(_choice(definition, anchored))]
    if definition is None or found:
        raise problems.told(found, where, lines)
    return definition


def _validated(said: dict[str, Any]) -> tuple[Definition | None, list[Problem]]:
    try:
        return Definition.model_validate(said), []
    except ValidationError as error:
        return None, list(problems.of_validation(error))
    except ConfigError as error:  # of the source's URI: what else there is, is in the other sections
        others = _validated({name: section for name, section in said.items() if name != "source"})[1]
        return None, [Problem(("source", "uri"), str(error)), *(one for one in others if one.path[0] != "source")]


def _choice(definition: Definition | None, said: Mapping[str, Any]) -> Any:
    """The protocol and its options, from the definition or from what should have been one."""
    if definition is not None:
        return definition.source.protocol.model_dump()
    source = said.get("source")
    return source.get("protocol") if isinstance(source, dict) else None


def _of_protocol(choice: Any) -> Iterator[Problem]:
    """What is wrong with the protocol and its options, each by itself where that tells."""
    name = choice.get("name") if isinstance(choice, dict) else choice
    if not isinstance(name, str):
        return
    options = {key: value for key, value in choice.items() if key != "name"} if isinstance(choice, dict) else {}
    place = ("source", "protocol")
    try:
        chosen = protocol(name)
    except ConfigError as error:
        yield Problem((*place, "name") if options else place, str(error))
        return
    alone = list(_of_options(name, options))
    yield from alone
    if not alone:
        try:
            chosen.read_options(options)
        except ConfigError as error:
            yield Problem(place, str(error))


def _of_options(name: str, options: Mapping[str, Any]) -> Iterator[Problem]:
    for option, value in options.items():
        try:
            protocol(name).read_options({option: value})
        except ConfigError as error:
            if str(error).startswith(
                (f"unknown option of {name} ", f"{name}: {option}:", f"{name}: unknown {option} ")
            ):
                yield Problem(("source", "protocol", str(option)), str(error))


def _filled(value: Any, path: tuple[str, ...], missing: list[Problem]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(item, (*path, str(key)), missing) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, path, missing) for item in value]
    if not isinstance(value, str):
        return value

    def variable(found: re.Match[str]) -> str:
        if found[1] not in os.environ:
            missing.append(Problem(path, f"the environment has no {found[1]}, which ${{{found[1]}}} stands for"))
            return ""
        remember(found[1], os.environ[found[1]])
        return os.environ[found[1]]

    return _VARIABLE.sub(variable, value)


def _anchored(said: dict[str, Any], base: Path | None) -> dict[str, Any]:
    """Relative paths belong to the definition's folder, not to wherever the command was started."""
    if base is None:
        return said
    sections = dict(said)
    for name in ("source", "sink"):
        if isinstance(section := said.get(name), dict):
            sections[name] = _absolute(section, base)
            if isinstance(choice := section.get("protocol"), dict):
                sections[name]["protocol"] = _absolute(choice, base)
    return sections


def _absolute(said: dict[str, Any], base: Path) -> dict[str, Any]:
    paths = {name: said[name] for name in _PATHS if isinstance(said.get(name), str) and "://" not in said[name]}
    return {**said, **{name: str((base / path).absolute()) for name, path in paths.items()}}
