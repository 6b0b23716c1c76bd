"""YAML of a definition: plain values, and the line of each name.

Rule 1. Tags are not allowed, and a name must not be set twice in a section.
Rule 2. A file has at most 1 MiB, and at most 10 000 values in 100 levels after aliases are expanded.
Rule 3. No message quotes the file, which may contain passwords.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from changefeed.errors import ConfigError

Path_ = tuple[str, ...]
_MAX_BYTES, _MAX_VALUES, _MAX_DEPTH = 1 << 20, 10_000, 100
_QUOTES = re.compile(r" (for the tag )?'[^']*'")


def read(file: Path) -> tuple[Any, dict[Path_, int]]:
    """The values of the file, and the line of each name: `("sink", "path")` -> 7.

    Raises:
        ConfigError: the file cannot be read, is not YAML, or is too large for a definition.
    """
    try:
        with file.open("rb") as opened:
            data = opened.read(_MAX_BYTES + 1)
    except FileNotFoundError as error:
        raise ConfigError(f"{file} does not exist") from error
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from error
    if len(data) > _MAX_BYTES:
        raise ConfigError(f"{file} has more than {_MAX_BYTES:,} bytes: it is not a definition")
    try:
        loader = _Loader(data.decode())
        node = loader.get_single_node()
        if node is None:
            return None, {}
        _check_size(file, node)
        return loader.construct_document(node), _lines(node)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: not YAML: {_place(error)}") from None  # the original error would quote the line
    except RecursionError:
        raise ConfigError(f"{file}: has more than {_MAX_DEPTH} levels: it is not a definition") from None


class _Loader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = set[str]()
        for name, _ in node.value:
            if not isinstance(name, yaml.ScalarNode):
                continue
            if name.value in names:
                raise yaml.MarkedYAMLError(problem=f"{name.value} is set twice", problem_mark=name.start_mark)
            names.add(name.value)
        return super().construct_mapping(node, deep)


def _check_size(file: Path, root: yaml.Node) -> None:
    """Refuses a file whose aliases expand to too many values, or without end."""
    waiting, values = [(root, 1)], 0
    while waiting:
        node, depth = waiting.pop()
        values += 1
        if depth > _MAX_DEPTH:
            raise ConfigError(f"{file}: has more than {_MAX_DEPTH} levels: it is not a definition")
        if values > _MAX_VALUES:
            raise ConfigError(f"{file}: has more than {_MAX_VALUES:,} values: it is not a definition")
        if isinstance(node, yaml.MappingNode):
            waiting += [(value, depth + 1) for _, value in node.value]
        elif isinstance(node, yaml.SequenceNode):
            waiting += [(value, depth + 1) for value in node.value]


def _lines(node: yaml.Node, path: Path_ = ()) -> dict[Path_, int]:
    if not isinstance(node, yaml.MappingNode):
        return {}
    lines = {}
    for name, value in node.value:
        if isinstance(name, yaml.ScalarNode):
            lines[*path, name.value] = name.start_mark.line + 1
            lines |= _lines(value, (*path, name.value))
    return lines


def _place(error: Exception) -> str:
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return str(error).splitlines()[0]
    problem = str(error.problem)
    if (
        "alias" in problem or "tag" in problem
    ):  # their texts quote the file, perhaps a password that begins with `*` or `!`
        problem = f"{_QUOTES.sub('', problem)}: a text that begins with `*`, `&` or `!` needs quotes,"
    return f"{problem} at line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1}"
