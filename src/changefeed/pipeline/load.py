"""From a YAML file to a `Definition`: environment, relative paths, and errors that show the fix."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from changefeed.errors import ConfigError, unknown_name
from changefeed.pipeline import definition as parts
from changefeed.pipeline.definition import Definition
from changefeed.protocols import protocol
from changefeed.redaction import remember

_CHOICES = ("literal_error", "union_tag_invalid")
_QUOTES = re.compile(r" (for the tag )?'[^']*'")
_QUOTED = re.compile(r"'([^']*)'")
_EXPECTED = {
    "list_type": "expected a list, as [a, b]",
    "model_type": "expected names and values",
    "dict_type": "expected names and values",
    "model_attributes_type": "expected names and values",
}
# Of source and sink, and of protocols: a text with `://` is no path.
_PATHS = (
    "path", "schema-registry", "claim-check-storage-uri", "ssl.ca.location", "ssl.certificate.location", "ssl.key.location"
)  # fmt: skip
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def load(path: str | Path) -> Definition:
    """The definition in a YAML file; `${NAME}` in its values is taken from the environment.

    Raises:
        ConfigError: the file cannot be read, is no YAML, or says something that cannot work.
    """
    file = Path(path)
    try:
        said = yaml.load(file.read_text("utf-8"), _Loader)
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: not YAML: {_place(error)}") from None  # which shows the line, and what stands in it
    if not isinstance(said, dict):
        raise ConfigError(f"{file}: expected the sections source, sink and pipeline")
    return read(_filled(said, file), base=file.parent, where=str(file))


class _Loader(yaml.SafeLoader):
    """YAML without tags, in which a name that is there twice is an error: one of them would not count."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = set[str]()
        for name, _ in node.value:
            if not isinstance(name, yaml.ScalarNode):
                continue
            if name.value in names:
                raise yaml.MarkedYAMLError(problem=f"{name.value} is there twice", problem_mark=name.start_mark)
            names.add(name.value)
        return super().construct_mapping(node, deep)


def _place(error: Exception) -> str:
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return str(error).splitlines()[0]
    problem = str(error.problem)
    if "alias" in problem or "tag" in problem:  # they repeat what may be a password that begins with `*` or `!`
        problem = f"{_QUOTES.sub('', problem)}: a text that begins with `*`, `&` or `!` needs quotes,"
    return f"{problem} at line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1}"


def read(said: dict[str, Any], *, base: Path | None = None, where: str = "definition") -> Definition:
    """The definition that `said` describes; relative paths are taken from `base`.

    Raises:
        ConfigError: it cannot work as written.
    """
    for section in said.values():
        remember("", section)
    try:
        found = Definition.model_validate(_anchored(said, base))
    except ValidationError as error:
        raise _explained(error, where) from error
    choice = found.source.protocol
    protocol(choice.name).read_options(choice.options)
    return found


def _filled(value: Any, file: Path) -> Any:
    if isinstance(value, dict):
        return {key: _filled(item, file) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, file) for item in value]
    if not isinstance(value, str):
        return value

    def variable(found: re.Match[str]) -> str:
        if found[1] not in os.environ:
            raise ConfigError(f"{file}: the environment has no {found[1]}, which ${{{found[1]}}} stands for")
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


def _explained(error: ValidationError, where: str) -> ConfigError:
    first = error.errors()[0]
    places = [str(part) for part in first["loc"] if part not in ("files", "kafka", "delta")]
    path = ".".join(places)
    if first["type"] == "extra_forbidden":
        model = _model(path.split(".")[0], first["loc"])
        known = [field.alias or name for name, field in model.model_fields.items()]
        *section, name = places
        return ConfigError(f"{where}: {unknown_name('name in ' + ('.'.join(section) or 'the file'), name, known)}")
    if first["type"] in _CHOICES:
        context = first["ctx"]
        path += "" if first["type"] == "literal_error" else ".type"
        known = _QUOTED.findall(str(context.get("expected", context.get("expected_tags"))))
        return ConfigError(f"{where}: {unknown_name(path, str(context.get('tag', first['input'])), known)}")
    if first["input"] is None or first["type"] in ("missing", "union_tag_not_found"):
        return ConfigError(f"{where}: {path}{'.type' if first['type'] == 'union_tag_not_found' else ''} is missing")
    said = _EXPECTED.get(first["type"], str(first["msg"]).removeprefix("Value error, "))
    return ConfigError(f"{where}: {path}: {said}" if path else f"{where}: {said}")


def _model(section: str, loc: tuple[int | str, ...]) -> type[BaseModel]:
    if len(loc) == 1:
        return Definition
    if section == "source":
        return parts.KafkaSource if "kafka" in loc else parts.FilesSource
    sections: dict[str, type[BaseModel]] = {"sink": parts.DeltaSink, "pipeline": parts.Behaviour}
    return sections.get(section, Definition)
